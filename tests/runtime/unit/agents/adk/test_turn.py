"""Turns of an ADK agent: cancellation, failure, callbacks and recording."""

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types as genai

from aion.adk import get_aion_context
from aion_core.agents.adk.waits.turn_waits import turn_waits
from aion_core.errors import CANCELED_ITSELF
from tests.support.adk import (
    DIALECTS,
    CrashingSessions,
    answer_text,
    ask,
    ask_parts,
    call,
    earlier,
    llm_agent,
    scripted_model,
    served,
    stream,
    task_of,
    text_event,
    texts,
    yielding_agent,
)
from tests.support.rows import each_row
from tests.support.service import http, parts, send

DIALECT = "SendMessage"


async def start_task(client: httpx.AsyncClient, text: str = "hi") -> dict[str, Any]:
    """Return the task of a message sent with `returnImmediately`."""
    request = send(text)
    request["params"]["configuration"] = {"returnImmediately": True}
    task: dict[str, Any] = (await client.post("/", json=request)).json()["result"]["task"]
    return task


async def cancel_task(client: httpx.AsyncClient, task: dict[str, Any]) -> str:
    request = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task["id"]}}
    return str((await client.post("/", json=request)).json()["result"]["status"]["state"])


async def test_timers_of_code_keep_no_ended_turn() -> None:
    """A timer keeps the context variables of its code. That of a request's limit waits for minutes, also if it is canceled."""
    kept: list[weakref.ref[Any]] = []

    async def note(callback_context: CallbackContext) -> None:
        asyncio.get_running_loop().call_later(600, gc.collect)
        waits = turn_waits.get()
        assert waits is not None
        turn = waits.stored.__self__  # type: ignore[attr-defined]
        kept.extend(map(weakref.ref, (turn, callback_context._invocation_context)))

    root = llm_agent(["Done."], before_agent_callback=note)
    async with http(parts(served(root)).app()) as client:
        assert answer_text(await ask(client, DIALECT)) == "Done."
        for _ in range(100):
            await asyncio.sleep(0)
    gc.collect()
    assert len(kept) == 2
    assert not any(each() for each in kept)


async def test_cancel_stops_running_adk_tool_and_records_canceled_result() -> None:
    """Cancel during a tool call: the tool stops, and the next turn's model receives the result "canceled" for it."""
    running, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait forever."""
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = scripted_model(["I wait.", call("wait", "call-1")], ["What else?"])
    root = LlmAgent(name="root", model=model, tools=[wait])
    sessions = InMemorySessionService()
    async with http(parts(served(root, sessions), lease_seconds=0.3).app()) as client:
        task = await start_task(client)
        await running.wait()
        assert await cancel_task(client, task) == "TASK_STATE_CANCELED"
        await asyncio.wait_for(stopped.wait(), 60)
        other = await ask(client, DIALECT, "and?", message_id="m-2", contextId=task["contextId"])
    assert answer_text(other) == "What else?"
    assert texts(model.seen[-1])[1:] == [
        "model: I wait.",
        "model: wait({})",
        "user: wait -> {'error': 'canceled'}",
        "user: and?",
    ]


async def test_blocking_tool_does_not_delay_cancel() -> None:
    """A tool that blocks its thread does not delay a cancel; its reply after the cancel is dropped."""
    running, go, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[str] = []

    def block() -> str:
        context = get_aion_context()
        running.set()
        go.wait(60)
        try:
            asyncio.run(context.thread.reply("Too late."))
        except BaseException as error:
            raised.append(type(error).__name__)
        ended.set()
        return "done"

    root = LlmAgent(name="root", model=scripted_model([call("block")], ["Next."]), tools=[block])
    async with http(parts(served(root), lease_seconds=0.3).app()) as client:
        task = await start_task(client)
        while not running.is_set():
            # Wait in the event loop, because the running tool must not block the loop.
            await asyncio.sleep(0.01)
        assert await cancel_task(client, task) == "TASK_STATE_CANCELED"
        answer = asyncio.create_task(ask(client, DIALECT, "and?", message_id="m-2", contextId=task["contextId"]))
        assert answer_text(await answer) == "Next."
        go.set()
        while not ended.is_set():
            await asyncio.sleep(0.01)
        get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        assert "Too late." not in (await client.post("/", json=get)).text
    assert raised == ["CancelledError"]


async def test_synchronous_tools_of_one_message_run_one_after_another() -> None:
    """Two calls put an item each into the same key of the state: both items are there. They have one thread."""
    threads: list[str] = []

    def add(item: str, tool_context: ToolContext) -> str:
        threads.append(threading.current_thread().name)
        cart = tool_context.state.get("cart", [])
        time.sleep(0.05)
        tool_context.state["cart"] = [*cart, item]
        return f"{len(cart) + 1} items"

    def show(tool_context: ToolContext) -> Any:
        return tool_context.state["cart"]

    both = [call("add", "c-1", item="apples"), call("add", "c-2", item="pears")]
    model = scripted_model(both, [call("show", "c-3")], ["Done."])
    root = LlmAgent(name="root", model=model, tools=[add, show])
    sessions = InMemorySessionService()
    async with http(parts(served(root, sessions)).app()) as client:
        assert answer_text(await ask(client, DIALECT, "go")) == "Done."
    assert len(set(threads)) == 1
    assert threading.main_thread().name not in threads
    assert texts(model.seen[-1])[-1] == "user: show -> {'result': ['apples', 'pears']}"


async def test_adk_tool_calls_of_failed_turn_get_results() -> None:
    """Fail a turn during tool calls: the next turn's model receives the result "canceled" for each of them."""

    async def fail() -> str:
        raise ValueError("the secret")

    async def wait() -> str:
        """Wait forever."""
        await asyncio.Event().wait()
        return "never"

    model = scripted_model([call("fail", "call-1"), call("wait", "call-2")], ["What else?"])
    root = LlmAgent(name="root", model=model, tools=[fail, wait])
    async with http(parts(served(root)).app()) as client:
        failed = await ask(client, DIALECT)
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        assert "secret" not in str(failed)
        other = await ask(client, DIALECT, "and?", message_id="m-2", contextId=failed["contextId"])
    assert answer_text(other) == "What else?"
    assert texts(model.seen[-1])[1:] == [
        "model: fail({})",
        "model: wait({})",
        "user: fail -> {'error': 'canceled'}",
        "user: wait -> {'error': 'canceled'}",
        "user: and?",
    ]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
async def test_tool_exiting_process_fails_only_its_turn(ending: type[BaseException]) -> None:
    async def leave() -> str:
        raise ending

    root = LlmAgent(name="root", model=scripted_model([call("leave")], ["Still here."]), tools=[leave])
    async with http(parts(served(root)).app()) as client:
        failed = await ask(client, DIALECT)
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        other = await ask(client, DIALECT, "and?", message_id="m-2", contextId=failed["contextId"])
    assert answer_text(other) == "Still here."


async def test_concurrent_messages_of_a_context_run_in_order() -> None:
    """Send two messages at once: the second turn starts after the first, and sees its answer."""
    model = scripted_model(["One."], ["Two."])
    sessions = InMemorySessionService()
    async with http(parts(served(LlmAgent(name="root", model=model), sessions)).app()) as client:
        asked = [
            ask(client, DIALECT, text, message_id=f"m-{text}", contextId="my-context") for text in ("first", "second")
        ]
        tasks = await asyncio.gather(*asked)
    assert sorted(str(answer_text(task)) for task in tasks) == ["One.", "Two."]
    assert len(texts(model.seen[0])) == 1
    assert texts(model.seen[1])[1] == "model: One."


async def test_owners_do_not_share_adk_state() -> None:
    """ADK's `user_id` is the authenticated owner, and each context has its own session."""
    from aion_core.engine.agent import TurnRequest
    from aion_core.engine.records import Turn
    from aion_core.protocol.types import Message, Part, Role, Task
    from aion_core.table.keys import ContextKey
    from tests.support.adk import text_event

    sessions = InMemorySessionService()
    root = yielding_agent(
        lambda ctx: text_event(str(dict(ctx.session.state)), state_delta={"user:name": ctx.session.user_id})
    )
    adk = served(root, sessions)

    async def turn(owner: str, number: int) -> str:
        message = Message(message_id=f"m-{number}", role=Role.ROLE_USER, parts=[Part(text="hi")])
        task = Task(id="t-1", context_id="context", history=[message])
        asked = TurnRequest(
            ContextKey(owner, "agent", f"context-{number}"), Turn(f"turn-{number}", "t-1", 1), 1, task, message
        )
        return [emission async for emission in adk.run(asked)][-1].message.parts[0].text  # type: ignore[union-attr]

    assert await turn("ann", 1) == "{}"
    assert await turn("bob", 2) == "{}"
    assert await turn("ann", 3) == "{'user:name': 'ann'}"


# ── Context, callbacks and recording ──────────────────────────────────────────────────────────────────────────────────


def look() -> str:
    return "a file"


class InboxAgent(BaseAgent):
    """Agent that answers with its inbox."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        inbox = ctx.a2a_inbox
        files = [part.filename for part in inbox.message.parts if part.filename]
        yield text_event(f"{self.name} {inbox.task.id == get_aion_context().inbox.task.id} {files} {inbox.metadata}")


async def test_adk_callbacks_and_tools_can_read_a2a_inbox(dialect: str) -> None:
    seen: dict[str, str] = {}

    def before(callback_context: Any) -> None:
        seen["callback"] = callback_context._invocation_context.a2a_inbox.message.message_id

    def look(tool_context: ToolContext) -> str:
        seen["tool"] = tool_context._invocation_context.a2a_inbox.message.message_id  # type: ignore[attr-defined]
        return "looked"

    helper = llm_agent([call("look")], ["done"], name="helper", tools=[look], before_agent_callback=before)
    root = SequentialAgent(
        name="root",
        sub_agents=[
            LoopAgent(name="loop", max_iterations=1, sub_agents=[helper]),
            ParallelAgent(name="both", sub_agents=[InboxAgent(name="own")]),
        ],
    )
    async with http(parts(served(root)).app()) as client:
        task = await ask_parts(client, dialect, {"text": "hi"}, {"url": "https://example.org/a", "filename": "a"})
    assert answer_text(task) == "own True ['a'] {}"
    assert seen == {"callback": "m-1", "tool": "m-1"}


async def test_tool_of_adk_agent_tool_receives_aion_context(dialect: str) -> None:
    """An AgentTool runs under a separate ADK Runner: the tool gets the context from a context variable."""

    def message_id(tool_context: ToolContext) -> str:
        """Return the id of the turn's message."""
        context = get_aion_context()
        assert context.message is not None
        return context.message.id

    inner = llm_agent(
        [call("message_id")], [lambda request: texts(request.contents)[-1]], name="inner", tools=[message_id]
    )
    root = llm_agent(
        [call("inner", request="go")], [lambda request: texts(request.contents)[-1]], tools=[AgentTool(agent=inner)]
    )
    async with http(parts(served(root)).app()) as client:
        assert "'m-1'" in str(answer_text(await ask(client, dialect)))


async def test_internal_adk_events_are_logged_but_not_streamed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aion_core.internal")
    root = llm_agent([call("look", "call-1")], ["Fine."], tools=[look])
    async with http(parts(served(root)).app()) as client:
        frames = await stream(client)
    logged = [record.internal for record in caplog.records if hasattr(record, "internal")]
    kinds = [event["kind"].removeprefix("internal:") for event in logged]
    assert [kind for kind in kinds if kind != "checkpoint"] == ["llm-call", "tool-start", "tool-complete", "llm-call"]
    assert "checkpoint" in kinds
    started = next(event for event in logged if event["kind"] == "internal:tool-start")
    assert (started["toolName"], started["toolCallId"]) == ("look", "call-1")
    assert "internal:" not in str(frames)


async def test_adk_agent_continues_only_after_its_event_is_recorded() -> None:
    """Yield an event: when the agent continues, the task's log already contains it."""
    seen: list[list[str]] = []

    async def recorded() -> list[str]:
        (key,) = made.store.task_keys()  # type: ignore[attr-defined]
        log = await made.store.log(key)
        assert log is not None
        return [entry.event.artifact.name for entry in log.events if hasattr(entry.event, "artifact")]

    class Saves(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            where = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
            for name in ("one", "two"):
                part = genai.Part(text=name)
                version = await ctx.artifact_service.save_artifact(**where, filename=name, artifact=part)
                event = text_event(artifact_delta={name: version})
                yield event.model_copy(update={"author": self.name})
                seen.append(
                    [*await recorded(), *(event.id for event in ctx.session.events[-1:] if event.author != self.name)]
                )

    made = parts(served(Saves(name="saves")))
    async with http(made.app()) as client:
        await ask(client, "SendMessage")
    assert seen == [["one"], ["one", "two"]]


async def cancels() -> str:
    """Raise CancelledError without a cancel of the task, as a library's cancel scope may do."""
    raise asyncio.CancelledError


def asks_model(request: Any) -> Any:
    raise asyncio.CancelledError


def yields_canceled(ctx: Any) -> Event:
    raise asyncio.CancelledError


CANCELING: dict[str, Callable[[], Any]] = {
    "tool": lambda: llm_agent(["Let me see.", call("cancels")], ["Never."], tools=[cancels]),
    "model": lambda: llm_agent(["Let me see.", asks_model]),
    "sub-agent": lambda: SequentialAgent(name="root", sub_agents=[llm_agent(["Let me see.", asks_model], name="sub")]),
    "custom agent": lambda: yielding_agent(text_event("Let me see."), yields_canceled),
    "workflow": lambda: Workflow(name="root", edges=[("START", yields_canceled)]),
}


@each_row("place", CANCELING)
async def test_agent_canceling_itself_fails_its_turn(place: str) -> None:
    """An agent raises CancelledError itself: ADK then ends without an error, but the adapter fails the turn at once."""
    async with http(parts(served(CANCELING[place]())).app()) as client:
        task = await ask(client, DIALECT)
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_FAILED", CANCELED_ITSELF)


async def test_partial_text_of_canceled_parallel_agent_is_dropped() -> None:
    """One parallel branch fails, and ADK cancels the other in the middle of its text: this text is dropped."""
    spoke = asyncio.Event()

    class Speaks(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            half = text_event("Half a sen", partial=True)
            yield half.model_copy(update={"author": self.name, "branch": ctx.branch})
            spoke.set()
            await asyncio.Event().wait()

    class Fails(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            await spoke.wait()
            raise ValueError
            yield

    root = ParallelAgent(name="root", sub_agents=[Speaks(name="speaks"), Fails(name="fails")])
    async with http(parts(served(root)).app()) as client:
        task = await ask(client, DIALECT)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_FAILED", ["hi"])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_agent_finds_request_metadata_where_adk_puts_it(dialect: str) -> None:
    """As behind ADK's own A2A server. The server's reserved keys are not in it, and only the user's event stores it."""
    seen: list[Any] = []

    def before(callback_context: Any) -> None:
        seen.append((callback_context.run_config.custom_metadata or {}).get("a2a_metadata"))

    def wait() -> None:
        """Wait for the user."""

    model = scripted_model([call("wait", "call-1")], ["Hello Bob."], ["Hello."])
    tools: list[Any] = [LongRunningFunctionTool(func=wait)]
    root = LlmAgent(name="root", model=model, tools=tools, before_agent_callback=before)
    sessions = CrashingSessions()
    async with http(parts(served(root, sessions)).app()) as client:
        request = send(method=dialect)
        request["params"]["metadata"] = {"user_name": "Alice", "age": 7, "aion:tenant": "x"}
        asked = task_of((await client.post("/", json=request)).json())
        request = send("yes", method=dialect, message_id="m-2", taskId=asked["id"])
        request["params"]["metadata"] = {"user_name": "Bob"}
        assert answer_text(task_of((await client.post("/", json=request)).json())) == "Hello Bob."
        await ask(client, dialect, "and?", message_id="m-3", contextId=asked["contextId"])
    assert seen == [{"user_name": "Alice", "age": 7}, {"user_name": "Bob"}, None]
    stored = [event.author for event in sessions.stored() if "a2a_metadata" in (event.custom_metadata or {})]
    assert stored == ["user", "user"]
