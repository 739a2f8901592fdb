"""Sweep in a single-process server, which runs it without a schedule of AWS."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.bootstrap import background, build_app
from aion_core.push import poster
from aion_core.push.delivery import PushDelivery
from aion_core.settings import Settings
from tests.runtime.unit.push.pushing import ids
from tests.support.clock import ManualClock
from tests.support.receiver import answers, receiving
from tests.support.service import http

GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("says", lambda _: {"messages": [AIMessage("hi")]}).add_edge(START, "says")
"""
WORKING = "TASK_STATE_WORKING"
AGENT = """
aion:
  agents:
    echo: {path: "retried.py:graph", name: Echo, capabilities: {push_notifications: true}}
"""


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_sweep_retries_turn_without_wake_up_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: str
) -> None:
    """A retry beyond the queue's longest delay has no wake-up message: only the sweep can start it."""
    monkeypatch.setattr(background, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(poster, "LONGEST_DELAY", 0.0)
    defaults = PushDelivery.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "retry_seconds", (0.1, 0.1, 0.1))
    (tmp_path / "retried.py").write_text(GRAPH)
    (tmp_path / "aion.yaml").write_text(AGENT)
    here = {
        "AION_STORE": store,
        "AION_SQLITE_FOLDER": str(tmp_path / "store"),
        "AION_PUSH_HTTP": "true",
        "AION_PUSH_NETWORKS": "127.0.0.1/32",
    }
    app = build_app(Settings.from_environ({**here, "AION_CONFIG": str(tmp_path / "aion.yaml"), "AION_AUTH": "off"}))
    async with receiving(answers(503), answers(503), answers(200)) as receiver, http(app) as client:
        async with app.router.lifespan_context(app):
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
            config = {"id": "p", "url": receiver.url()}
            params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
            answer = (await client.post("http://localhost/", json=asked)).json()
            task = answer["result"]["task"]
            await receiver.heard(4)
        await asyncio.sleep(0.2)
    assert receiver.ids == ids(task, 2, 2, 2, 3)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_app_runs_turns_in_second_event_loop(tmp_path: Path, store: str) -> None:
    """Tests of users serve one app several times, each time in a new event loop, as Starlette's TestClient does."""
    (tmp_path / "retried.py").write_text(GRAPH)
    (tmp_path / "aion.yaml").write_text(AGENT)
    here = {"AION_STORE": store, "AION_SQLITE_FOLDER": str(tmp_path / "store"), "AION_AUTH": "off"}
    app = build_app(Settings.from_environ({**here, "AION_CONFIG": str(tmp_path / "aion.yaml")}))

    async def call(client: httpx.AsyncClient, method: str, **params: Any) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await client.post("http://localhost/", json=asked)).json()["result"]

    async def serve(message_id: str) -> str:
        message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        async with http(app) as client, app.router.lifespan_context(app), asyncio.timeout(60):
            sent = await call(client, "SendMessage", message=message, configuration={"returnImmediately": True})
            while (task := await call(client, "GetTask", id=sent["task"]["id"]))["status"]["state"] == WORKING:
                await asyncio.sleep(0.01)
        return str(task["status"]["state"])

    assert [asyncio.run(serve(f"m-{number}")) for number in range(2)] == ["TASK_STATE_COMPLETED"] * 2


async def test_failed_sweep_is_repeated_until_server_ends() -> None:
    clock, made = ManualClock(), list[float]()

    def sweep() -> Awaitable[object]:
        made.append(clock.now().timestamp())
        raise RuntimeError("not now")

    running = asyncio.create_task(background.Background(sweep, clock, lease_seconds=20).run())
    await _until(clock, 10, lambda: False)
    await _until(clock, 10, lambda: False)
    assert len(made) == 1
    await _until(clock, 10, lambda: False)
    for _ in range(3):
        await _until(clock, 60, lambda: False)
    assert [round(at - made[0]) for at in made] == [0, 20, 80, 140, 200]
    running.cancel()
    await _until(clock, 60, running.done)
    assert len(made) == 5


async def _until(clock: ManualClock, seconds: float, done: Callable[[], bool]) -> None:
    await asyncio.sleep(0)
    clock.move(seconds)
    for _ in range(5):
        if done():
            return
        await asyncio.sleep(0)
