"""Copies of one message, sent concurrently to several processes, create one task and run one turn."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.stack.stack import LocalStack
from tests.support.e2e.api_process import api_process
from tests.support.service import send

CONFIG = Path(__file__).parents[2] / "support" / "agents" / "counting.yaml"


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("counted") / "runs"


@pytest.fixture(scope="module")
def urls(stack: LocalStack, counted: Path) -> Iterator[list[str]]:
    environ = {"COUNTED_IN": str(counted), "AION_LEASE_SECONDS": "60"}
    with api_process(stack, CONFIG, **environ) as one, api_process(stack, CONFIG, **environ) as two:
        yield [one.url, two.url]


def task_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the task of a response, streamed or not."""
    if answer.headers["content-type"].startswith("application/json"):
        body = answer.json()
        result = body["result"]
        return dict(result.get("task", result))
    results = [
        json.loads(line.removeprefix("data: "))["result"]
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    first = results[0].get("task", results[0])
    last = results[-1].get("statusUpdate", results[-1])
    return {"id": first["id"], "status": last["status"]}


async def all_at_once(urls: list[str], bodies: list[dict[str, Any]]) -> list[httpx.Response]:
    async with httpx.AsyncClient(timeout=60) as client:
        return await asyncio.gather(*(client.post(urls[n % 2], json=body) for n, body in enumerate(bodies)))


async def test_sixteen_copies_of_message_run_one_turn(urls: list[str], counted: Path) -> None:
    """Send the copies to two processes: in both protocol versions, blocking and streaming."""
    methods = ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"]
    bodies = [send("count", message_id="m-16", contextId="c-16", method=methods[n // 2 % 4]) for n in range(16)]
    tasks = [task_of(answer) for answer in await all_at_once(urls, bodies)]
    assert len({task["id"] for task in tasks}) == 1
    assert {task["status"]["state"] for task in tasks} == {"TASK_STATE_COMPLETED", "completed"}
    assert len({task["status"]["message"]["messageId"] for task in tasks}) == 1
    assert len(counted.read_text().splitlines()) == 1


async def test_messages_of_one_context_run_serially(urls: list[str], counted: Path) -> None:
    before = len(counted.read_text().splitlines()) if counted.exists() else 0
    bodies = [send("count", message_id=f"n-{n}", contextId="c-6") for n in range(6)]
    tasks = [task_of(answer) for answer in await all_at_once(urls, bodies)]
    assert len({task["id"] for task in tasks}) == 6
    assert {task["status"]["state"] for task in tasks} == {"TASK_STATE_COMPLETED"}
    assert len(counted.read_text().splitlines()) == before + 6
