"""Hypothesis state machine over the JSON-RPC surface: sends, answers, repeats, cancels, readers and lists.

In any order of requests each message is in one task once, and no task makes an invalid transition.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from aion_core.engine.agent import Chunk, Emission, InputRequired, Reply, TurnRequest
from aion_core.engine.agent_options import WhenBusy
from tests.simulation.loop import SimClock, SimLoop
from tests.support.agents.scripted import says
from tests.support.asgi import post
from tests.support.histories import json_messages_of
from tests.support.service import ServiceParts, parts

TERMINAL = {"TASK_STATE_COMPLETED", "TASK_STATE_CANCELED", "TASK_STATE_FAILED"}
FOLLOWS = {
    "TASK_STATE_WORKING": {"TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"} | TERMINAL,
    "TASK_STATE_INPUT_REQUIRED": {"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"} | TERMINAL,
}


class ObedientTurns:
    """Agent that does what the message says: it answers, requires input, fails, or waits for `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        what = asked.message.parts[0].text
        yield Chunk("…", asked.message.message_id)
        if what == "wait":
            await self.go.wait()
        if what == "fail":
            raise ValueError("as it was told")
        if what == "ask":
            yield InputRequired(says(f"question to {asked.message.message_id}"))
        else:
            yield Reply(says(f"answer to {asked.message.message_id}"))


class Clients(RuleBasedStateMachine):
    """Clients that know the tasks in their responses, and send random requests."""

    policy = WhenBusy.ENQUEUE
    messages = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        # Use virtual time, so that a waiting reader does not make the test slow.
        self.loop = SimLoop(Random(0), most_steps=10_000_000)
        self.agent = ObedientTurns()
        self.made: ServiceParts = parts(
            self.agent, double_texting=self.policy, lease_seconds=1000, clock=SimClock(self.loop)
        )
        self.app = self.made.app()
        self.sent: dict[str, dict[str, Any]] = {}
        """The messages that were accepted, by their ids."""
        self.task_of: dict[str, str] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        """Last received version of each task."""
        self.number = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self._end())
        self.loop.close()

    # ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(
        target=messages,
        what=st.sampled_from(["answer", "ask", "fail", "wait"]),
        context=st.sampled_from(["c-1", "c-2"]),
    )
    def sends(self, what: str, context: str) -> Any:
        return self._sends({"parts": [{"text": what}], "contextId": context})

    @rule(target=messages, what=st.sampled_from(["answer", "ask", "wait"]), data=st.data())
    def writes_to_a_task(self, what: str, data: Any) -> Any:
        if not self.seen:
            return multiple()
        task_id = data.draw(st.sampled_from(sorted(self.seen)))
        return self._sends({"parts": [{"text": what}], "taskId": task_id})

    @rule(message_id=messages)
    def repeats(self, message_id: str) -> None:
        answer = self._send(self.sent[message_id])
        assert answer["result"]["task"]["id"] == self.task_of[message_id]

    @rule(message_id=messages)
    def repeats_with_other_words(self, message_id: str) -> None:
        answer = self._send({**self.sent[message_id], "parts": [{"text": "something else"}]})
        assert answer["error"]["code"] in (-32602, -32004)

    @rule(data=st.data())
    def cancels(self, data: Any) -> None:
        if self.seen:
            task_id = data.draw(st.sampled_from(sorted(self.seen)))
            ended = self._get(task_id)["status"]["state"] in TERMINAL
            answer = self._rpc("CancelTask", id=task_id)
            assert ("error" in answer) >= ended
            if "error" in answer:
                assert answer["error"]["code"] == -32002

    @rule()
    def lets_go(self) -> None:
        self.agent.go.set()
        self._pause()
        self.agent.go.clear()

    @rule(data=st.data())
    def reads_the_stream_of_a_task_at_rest(self, data: Any) -> None:
        resting = sorted(id_ for id_, task in self.seen.items() if task["status"]["state"] != "TASK_STATE_WORKING")
        if resting:
            task_id = data.draw(st.sampled_from(resting))
            last = data.draw(st.integers(1, 4))
            if self._get(task_id)["status"]["state"] == "TASK_STATE_WORKING":
                return
            ids = self._stream(task_id, str(last))
            assert ids == list(range(last + 1, last + 1 + len(ids)))

    # ── Invariants ────────────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def no_task_goes_where_it_may_not(self) -> None:
        for task_id in list(self.seen):
            self._get(task_id)

    @invariant()
    def the_lists_hold_every_task(self) -> None:
        answer = self._rpc("ListTasks", pageSize=100)["result"]
        assert {task["id"] for task in answer.get("tasks", [])} == set(self.seen)
        assert answer["totalSize"] == len(self.seen)

    # ── Helpers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _sends(self, message: dict[str, Any]) -> Any:
        self.number += 1
        message = {"messageId": f"m-{self.number}", "role": "ROLE_USER", **message}
        answer = self._send(message)
        if "error" in answer:
            # Expect the refusal of an ended task or of a full context: no other state refuses a message.
            assert answer["error"]["code"] == -32004
            return multiple()
        task = answer["result"]["task"]
        self.sent[message["messageId"]] = message
        self.task_of[message["messageId"]] = task["id"]
        self.seen.setdefault(task["id"], task)
        self._get(task["id"])
        return message["messageId"]

    def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        return self._rpc("SendMessage", message=message, configuration={"returnImmediately": True})

    def _get(self, task_id: str) -> dict[str, Any]:
        before, now = self.seen[task_id], self._rpc("GetTask", id=task_id)["result"]
        was, state = before["status"]["state"], now["status"]["state"]
        if was in TERMINAL:
            assert now == before, "ended tasks do not change"
        else:
            assert state in FOLLOWS[was], f"{state} after {was}"
        json_messages_of(now)
        self.seen[task_id] = now
        return dict(now)

    def _rpc(self, method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, answer = self.loop.run_until_complete(post(self.app, body))
        assert status == 200
        read: dict[str, Any] = json.loads(answer)
        assert read.get("error", {}).get("code") not in (-32603, -32700), read
        self._pause()
        return read

    def _stream(self, task_id: str, last: str) -> list[int]:
        # Use the method of v0.3, because its stream ends at an interrupt, and the stream of v1.0 does not.
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": task_id}}
        _, answer = self.loop.run_until_complete(post(self.app, body, {"Last-Event-ID": last}))
        ids = [line.removeprefix("id: ") for line in answer.decode().splitlines() if line.startswith("id: ")]
        whole = [int(id_) for id_ in ids if id_.isdecimal()]
        # Return no events if the server does not know the cursor: the stream then starts with the current task.
        return whole if not whole or whole[0] == int(last) + 1 else []

    def _pause(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0.001))

    async def _end(self) -> None:
        """Let all turns end, and check that each message is in its task."""
        self.agent.go.set()
        for number in range(50):
            # Sleep first: while a store waits to retry a conflict, the queue may be empty although work remains.
            await asyncio.sleep(5)
            await self.made.work_queue.quiet()
            asking = None
            for task_id in self.seen:
                _, answer = await post(
                    self.app, {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
                )
                task = self.seen[task_id] = json.loads(answer)["result"]
                if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
                    asking = task_id
            if asking is None:
                break
            params = {"message": {"messageId": f"end-{asking}-{number}", "role": "ROLE_USER", "taskId": asking}}
            params["message"]["parts"] = [{"text": "answer"}]  # type: ignore[assignment]
            await post(self.app, {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
        said = {
            task_id: [message["messageId"] for message in task.get("history", [])]
            for task_id, task in self.seen.items()
        }
        assert all(task["status"]["state"] in TERMINAL for task in self.seen.values()), "everything comes to rest"
        for message_id, task_id in self.task_of.items():
            places = [id_ for id_, history in said.items() for held in history if held == message_id]
            canceled = self.seen[task_id]["status"]["state"] == "TASK_STATE_CANCELED"
            assert places == [task_id] or (canceled and not places), f"{message_id} stands in {places}"


class ClientsThatInterrupt(Clients):
    policy = WhenBusy.INTERRUPT


class ClientsThatAreRefused(Clients):
    policy = WhenBusy.REJECT


_SETTINGS = settings(
    max_examples=100 if os.environ.get("SIMULATION_DEEP") else 8,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
for machine in (Clients, ClientsThatInterrupt, ClientsThatAreRefused):
    machine.TestCase.settings = _SETTINGS
TestEnqueue, TestInterrupt, TestReject = Clients.TestCase, ClientsThatInterrupt.TestCase, ClientsThatAreRefused.TestCase
