"""The message of a task's status is also the last of its history, in each version and binding.

Frameworks look for an answer in the status, in the history or in artifacts, and most of them in one place only.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aion_core.engine.agent import AgentMessage, Emission, InputRequired, Reply, TurnRequest
from aion_core.engine.agent_options import AnswerAs
from aion_core.protocol.types import Message, Part, TaskState
from tests.runtime.protocol.answers import events_of, result_of
from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.support.asgi import AsgiAnswer, call
from tests.support.service import parts

STATES = {
    "answers": "completed",
    "asks": "input-required",
    "asks to log in": "auth-required",
    "fails": "failed",
    "rejects": "rejected",
}
"""Texts for the agent, and the state in which each ends its turn."""


class Ending:
    """Agent that says "one moment", and ends its turn as the client's text says."""

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield AgentMessage(Message(message_id="before", parts=[Part(text="one moment")]), key="before")
        last = Message(message_id="last", parts=[Part(text="that is it")])
        match asked.message.parts[0].text:
            case "asks":
                yield InputRequired(last)
            case "asks to log in":
                yield InputRequired(last, TaskState.TASK_STATE_AUTH_REQUIRED)
            case "fails":
                raise RuntimeError
            case "rejects":
                yield Reply(last, TaskState.TASK_STATE_REJECTED)
            case "repeats":
                yield AgentMessage(last, key="last")
                yield AgentMessage(Message(message_id="between", parts=[Part(text="well")]), key="between")
                yield Reply(last)
            case "says nothing":
                yield Reply(None)
            case _:
                yield Reply(last)


class EndingClient:
    """Client of one dialect, for an app with the agent `Ending`."""

    def __init__(self, dialect: Dialect, answer: AnswerAs = AnswerAs.MESSAGE) -> None:
        self.dialect, self._app = dialect, parts(Ending(), answer=answer).app()

    async def send(self, text: str, **configuration: Any) -> dict[str, Any]:
        """Send a message; return the task of the response."""
        message = {"messageId": "m", "contextId": "c", "role": "ROLE_USER", "parts": [{"text": text}]}
        return await self.task("SendMessage", message=message, configuration=configuration)

    async def task(self, operation: str, **params: Any) -> dict[str, Any]:
        """Return the task in the result of an operation."""
        return task_in(await self.result(operation, **params))

    async def result(self, operation: str, **params: Any) -> Any:
        return result_of(self.dialect, await self._call(operation, params))

    async def subscribe(self, task_id: str) -> list[Any]:
        """Return the events of a subscription. The task is canceled after its first event."""
        begun = asyncio.Event()
        subscribing = asyncio.create_task(self._call("SubscribeToTask", {"id": task_id}, begun))
        await begun.wait()
        await self.result("CancelTask", id=task_id)
        return events_of(self.dialect, await subscribing)

    async def _call(self, operation: str, params: dict[str, Any], begun: asyncio.Event | None = None) -> AsgiAnswer:
        sent = self.dialect.request(operation, params)
        assert sent is not None
        heard = begun.set if begun is not None else lambda: None
        return await call(self._app, sent.method, sent.target, sent.body, sent.headers, heard=heard)


def task_in(result: dict[str, Any]) -> dict[str, Any]:
    task: dict[str, Any] = result.get("task", result)
    return task


def ids_of(task: dict[str, Any]) -> list[str]:
    return [message["messageId"] for message in task.get("history", [])]


def check(task: dict[str, Any], state: str) -> None:
    """Check the state, and that the history ends with the status message and has each message once."""
    assert task["status"]["state"].removeprefix("TASK_STATE_").lower().replace("_", "-") == state
    assert task["history"][-1] == task["status"]["message"]
    assert len(set(ids_of(task))) == len(ids_of(task))


each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@each_dialect
@pytest.mark.parametrize("text", STATES)
async def test_history_ends_with_status_message_in_each_state(dialect: Dialect, text: str) -> None:
    client = EndingClient(dialect)
    sent = await client.send(text)
    check(sent, STATES[text])
    assert ids_of(sent)[:-1] == ["m", "before"]
    assert await client.task("GetTask", id=sent["id"]) == sent
    if dialect.request("ListTasks", {}) is not None:
        [listed] = (await client.result("ListTasks", contextId="c"))["tasks"]
        assert (listed["history"], listed["status"]) == (sent["history"], sent["status"])


@each_dialect
async def test_canceled_tasks_history_ends_with_reason(dialect: Dialect) -> None:
    client = EndingClient(dialect)
    asking = await client.send("asks")
    canceled = await client.task("CancelTask", id=asking["id"])
    # v0.3's proto file spells the state in its own way.
    check(canceled, "cancelled" if dialect.name == "HTTP+JSON 0.3" else "canceled")
    assert ids_of(canceled)[:-1] == ["m", "before", "last"], "the question stays in the history"
    assert await client.task("GetTask", id=asking["id"]) == canceled


@each_dialect
async def test_subscriptions_first_task_ends_with_status_message(dialect: Dialect) -> None:
    client = EndingClient(dialect)
    asking = await client.send("asks")
    first = task_in((await client.subscribe(asking["id"]))[0])
    check(first, "input-required")
    assert first == asking


@each_dialect
async def test_message_repeated_as_answer_is_at_the_end_once(dialect: Dialect) -> None:
    task = await EndingClient(dialect).send("repeats")
    check(task, "completed")
    assert ids_of(task) == ["m", "before", "between", "last"]


@each_dialect
@pytest.mark.parametrize("answer", [AnswerAs.MESSAGE, AnswerAs.BOTH, AnswerAs.ARTIFACT])
async def test_answer_setting_decides_if_history_has_answer(dialect: Dialect, answer: AnswerAs) -> None:
    """An answer that is an artifact only is no message of the task."""
    task = await EndingClient(dialect, answer).send("answers")
    if answer is AnswerAs.ARTIFACT:
        assert "message" not in task["status"]
        assert ids_of(task) == ["m", "before"]
    else:
        check(task, "completed")
        assert ids_of(task) == ["m", "before", "last"]


@each_dialect
async def test_task_without_answer_repeats_nothing(dialect: Dialect) -> None:
    task = await EndingClient(dialect).send("says nothing")
    assert "message" not in task["status"]
    assert ids_of(task) == ["m", "before"]


@each_dialect
@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (None, ["m", "before", "last"]),
        (0, []),
        (1, ["last"]),
        (2, ["before", "last"]),
        (3, ["m", "before", "last"]),
        (4, ["m", "before", "last"]),
    ],
)
async def test_history_length_counts_status_message(dialect: Dialect, length: int | None, expected: list[str]) -> None:
    """Ask for the newest messages (A2A 3.2.4). In v0.3, 0 is no limit. The status has its message in any case."""
    if dialect.version == "0.3" and length == 0:
        expected = ["m", "before", "last"]
    wanted = {} if length is None else {"historyLength": length}
    client = EndingClient(dialect)
    sent = await client.send("answers", **wanted)
    found = [sent, await client.task("GetTask", id=sent["id"], **wanted)]
    if dialect.version == "1.0":
        found += (await client.result("ListTasks", contextId="c", **wanted))["tasks"]
    for task in found:
        assert ids_of(task) == expected
        assert task["status"]["message"]["messageId"] == "last"
