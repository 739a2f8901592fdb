"""Turns of an ADK agent that are canceled, or fail: how they end, and what they leave to the next one."""

import asyncio
import threading
from typing import Any

import httpx
import pytest
from google.adk.agents import LlmAgent
from google.adk.sessions import InMemorySessionService

from aion.adk import get_aion_context
from tests.support.adk import ask, call, said, saying, served, texts
from tests.support.service import http, parts, send

DIALECT = "SendMessage"


async def begun(client: httpx.AsyncClient, text: str = "hi") -> dict[str, Any]:
    """The task of a message that nobody waits for."""
    request = send(text)
    request["params"]["configuration"] = {"returnImmediately": True}
    task: dict[str, Any] = (await client.post("/", json=request)).json()["result"]["task"]
    return task


async def canceled(client: httpx.AsyncClient, task: dict[str, Any]) -> str:
    request = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task["id"]}}
    return str((await client.post("/", json=request)).json()["result"]["status"]["state"])


async def test_a_canceled_turn_stops_its_tools_and_the_next_turns_model_finds_them_answered() -> None:
    """DESIGN, CancelTask; section 3: open tool calls are answered "canceled"."""
    running, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    model = saying(["I wait.", call("wait", "call-1")], ["What else?"])
    root = LlmAgent(name="root", model=model, tools=[wait])
    sessions = InMemorySessionService()
    async with http(parts(served(root, sessions), lease_seconds=0.3).app()) as client:
        task = await begun(client)
        await running.wait()
        assert await canceled(client, task) == "TASK_STATE_CANCELED"
        await asyncio.wait_for(stopped.wait(), 10)
        other = await ask(client, DIALECT, "and?", message_id="m-2", contextId=task["contextId"])
    assert said(other) == "What else?"
    assert texts(model.seen[-1])[1:] == [
        "model: I wait.",
        "model: wait({})",
        "user: wait -> {'error': 'canceled'}",
        "user: and?",
    ]


async def test_a_synchronous_tool_blocks_nobody_and_what_it_says_after_its_turn_goes_nowhere() -> None:
    """DESIGN, CancelTask: it runs in a thread, which is left to end."""
    running, go, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[str] = []

    def block() -> str:
        """Block."""
        context = get_aion_context()
        running.set()
        go.wait(20)
        try:
            asyncio.run(context.thread.reply("Too late."))
        except BaseException as error:
            raised.append(type(error).__name__)
        ended.set()
        return "done"

    root = LlmAgent(name="root", model=saying([call("block")], ["Next."]), tools=[block])
    async with http(parts(served(root), lease_seconds=0.3).app()) as client:
        task = await begun(client)
        while not running.is_set():
            # The loop is free.
            await asyncio.sleep(0.01)
        assert await canceled(client, task) == "TASK_STATE_CANCELED"
        answer = asyncio.create_task(ask(client, DIALECT, "and?", message_id="m-2", contextId=task["contextId"]))
        assert said(await answer) == "Next."
        go.set()
        while not ended.is_set():
            await asyncio.sleep(0.01)
        get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        assert "Too late." not in (await client.post("/", json=get)).text
    assert raised == ["CancelledError"]


async def test_a_tool_that_raises_fails_the_turn_and_the_next_ones_model_finds_it_answered() -> None:
    """Section 3: after a turn that failed the thread holds complete messages only."""

    async def fail() -> str:
        """Fail."""
        raise ValueError("the secret")

    async def wait() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"

    model = saying([call("fail", "call-1"), call("wait", "call-2")], ["What else?"])
    root = LlmAgent(name="root", model=model, tools=[fail, wait])
    async with http(parts(served(root)).app()) as client:
        failed = await ask(client, DIALECT)
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        assert "secret" not in str(failed)
        other = await ask(client, DIALECT, "and?", message_id="m-2", contextId=failed["contextId"])
    assert said(other) == "What else?"
    assert texts(model.seen[-1])[1:] == [
        "model: fail({})",
        "model: wait({})",
        "user: fail -> {'error': 'canceled'}",
        "user: wait -> {'error': 'canceled'}",
        "user: and?",
    ]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
async def test_a_tool_that_would_end_the_process_fails_its_turn(ending: type[BaseException]) -> None:
    async def leave() -> str:
        """Leave."""
        raise ending

    root = LlmAgent(name="root", model=saying([call("leave")], ["Still here."]), tools=[leave])
    async with http(parts(served(root)).app()) as client:
        failed = await ask(client, DIALECT)
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        other = await ask(client, DIALECT, "and?", message_id="m-2", contextId=failed["contextId"])
    assert said(other) == "Still here."


async def test_two_messages_at_once_are_answered_one_after_the_other_and_history_is_whole() -> None:
    """Double texting: the second waits for the first."""
    model = saying(["One."], ["Two."])
    sessions = InMemorySessionService()
    async with http(parts(served(LlmAgent(name="root", model=model), sessions)).app()) as client:
        asked = [
            ask(client, DIALECT, text, message_id=f"m-{text}", contextId="my-context") for text in ("first", "second")
        ]
        tasks = await asyncio.gather(*asked)
    assert sorted(str(said(task)) for task in tasks) == ["One.", "Two."]
    assert len(texts(model.seen[0])) == 1
    assert texts(model.seen[1])[1] == "model: One."


async def test_two_people_who_talk_to_one_agent_share_nothing() -> None:
    """Section 3: `user_id` is the authenticated owner, the session its context's."""
    from aion_core.ports import ContextKey, Turn, TurnRequest
    from aion_core.protocol.types import Message, Part, Role, Task
    from tests.support.adk import agent, says

    sessions = InMemorySessionService()
    root = agent(lambda ctx: says(str(dict(ctx.session.state)), state_delta={"user:name": ctx.session.user_id}))
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
