"""Resumed streams: the items after Last-Event-ID, or the current task."""

import asyncio
from typing import Any

import pytest

from aion_core.tasks.call import CallContext
from tests.support.agents.scripted import LeaseHeld
from tests.support.requests import request
from tests.support.service import http, parts, send


async def held() -> tuple[Any, LeaseHeld, str, "asyncio.Task[Any]"]:
    agent = LeaseHeld()
    made = parts(agent)
    sending = asyncio.create_task(made.service.send(CallContext("owner", "test"), request()))
    await agent.spoke.wait()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    return made, agent, key.task_id, sending


async def heard_from(made: Any, task_id: str, last: str) -> list[str]:
    call = CallContext("owner", "test", last_event_id=last)
    return [spoken.id async for batch in made.service.subscribe(call, task_id) for spoken in batch if spoken.id]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("", ["2", "2.1.0", "2.1.1", "3"]),
        ("1", ["2", "2.1.0", "2.1.1", "3"]),
        ("2", ["2.1.0", "2.1.1", "3"]),
        ("2.1.0", ["2.1.1", "3"]),
        ("2.0.7", ["2.1.0", "2.1.1", "3"]),
        ("99", ["2", "2.1.0", "2.1.1", "3"]),
        ("garbage", ["2", "2.1.0", "2.1.1", "3"]),
        ("2.1", ["2", "2.1.0", "2.1.1", "3"]),
        ("-1", ["2", "2.1.0", "2.1.1", "3"]),
        ("0", ["2", "2.1.0", "2.1.1", "3"]),
        ("²", ["2", "2.1.0", "2.1.1", "3"]),
        ("9" * 40, ["2", "2.1.0", "2.1.1", "3"]),
    ],
    ids=[
        "none",
        "old",
        "newest",
        "within",
        "an older fence",
        "future",
        "garbage",
        "half",
        "negative",
        "zero",
        "digit",
        "huge",
    ],
)
async def test_what_follows_the_last_id(last: str, expected: list[str]) -> None:
    """For any Last-Event-ID the reader receives a part of the log without gap or repeat."""
    made, agent, task_id, sending = await held()
    hearing = asyncio.create_task(heard_from(made, task_id, last))
    await asyncio.sleep(0.4)
    agent.go.set()
    assert await hearing == expected
    await sending


async def test_last_event_id_works_after_the_end() -> None:
    """A reader without the last event receives it; a reader of the whole task gets an error."""
    agent = LeaseHeld()
    agent.go.set()
    async with http(parts(agent).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
        for method in ("SubscribeToTask", "tasks/resubscribe"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task["id"]}}
            rest = await client.post("/", json=body, headers={"Last-Event-ID": "2"})
            assert rest.headers["content-type"].startswith("text/event-stream")
            ids = [line.removeprefix("id: ") for line in rest.text.splitlines() if line.startswith("id: ")]
            assert ids == ["2.1.0", "2.1.1", "3"]
            all_heard = await client.post("/", json=body, headers={"Last-Event-ID": "3"})
            assert all_heard.json()["error"]["code"] == -32004
