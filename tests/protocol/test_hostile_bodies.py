"""Costs of hostile request bodies in four dialects: bytes of the response, processor time, delay of other requests."""

import asyncio
import json
import statistics
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value
from starlette.types import ASGIApp

from aion_core.protocol import types
from aion_core.web.request_body import MAX_VALUES
from tests.protocol.hostile_bodies import (
    LARGEST,
    SIZES,
    Cost,
    HostileBody,
    allowed_bytes,
    allowed_cpu_seconds,
    cost_of,
    costs_of,
    full_bodies,
    hostile_app,
    hostile_bodies,
    largest_bodies,
    row,
    usual_bodies,
    without_collections,
)
from tests.support.agents.scripted import GatedAgent
from tests.support.asgi import call
from tests.support.service import parts, send

CPU_MARGIN = 2
"""Factor for a busy machine, and for the conversions of v0.3's SDK."""


async def printed_costs(bodies: Iterable[HostileBody]) -> tuple[list[Cost], float]:
    found, usual = await costs_of(hostile_app(), bodies)
    slowest = sorted(found, key=lambda cost: cost.cpu_seconds, reverse=True)[:30]
    print(f"{len(found)} bodies, {sum(cost.cpu_seconds for cost in found):.1f} s; usual message: {usual * 1000:.1f} ms")
    print("The slowest:", *map(row, slowest), sep="\n")
    return found, usual


async def test_responses_to_hostile_bodies_are_small() -> None:
    found, _ = await printed_costs([*hostile_bodies(*SIZES), *full_bodies()])
    assert len(found) >= 200
    assert [row(cost) for cost in found if len(cost.answer) > allowed_bytes(cost)] == []
    assert [row(cost) for cost in found if cost.status >= 500] == []


@pytest.mark.deep
async def test_hostile_bodies_take_bounded_cpu_time() -> None:
    found, usual = await printed_costs([*full_bodies(), *hostile_bodies(*SIZES, LARGEST)])
    assert [row(cost) for cost in found if len(cost.answer) > allowed_bytes(cost)] == []
    slow = [cost for cost in found if cost.cpu_seconds - usual > CPU_MARGIN * allowed_cpu_seconds(cost.body)]
    assert [row(cost) for cost in slow] == []


# ── Other requests ────────────────────────────────────────────────────────────────────────────────────────────────────

LONGEST_STEP = 8
"""Maximum processor time of a step of the event loop, in times of one conversion of a full message."""


def conversion_seconds() -> float:
    """Return the processor time to convert lists with the maximum number of values to a protobuf message once."""
    times = []
    for _ in range(5):
        since = time.thread_time()
        ParseDict([[[[]]]] * (MAX_VALUES // 4), Value())  # type: ignore[arg-type]  # a Value takes a list
        times.append(time.thread_time() - since)
    return statistics.median(times)


async def longest_step(app: ASGIApp, body: HostileBody) -> float:
    """Send the body. Return the longest processor time between two iterations of the event loop, in its thread."""
    sending = asyncio.create_task(cost_of(app, body))
    longest, before = 0.0, time.thread_time()
    while not sending.done():
        await asyncio.sleep(0)
        longest, before = max(longest, time.thread_time() - before), time.thread_time()
    return longest


async def test_hostile_bodies_take_short_loop_steps() -> None:
    app = hostile_app()
    for body in usual_bodies():
        await cost_of(app, body)  # the first requests import modules
    with without_collections():
        allowed = LONGEST_STEP * conversion_seconds()
        steps = {body.name: await longest_step(app, body) for body in [*full_bodies(), *largest_bodies()]}
    print(*(f"{name:62} {seconds * 1000:7.1f} ms" for name, seconds in steps.items()), sep="\n")
    assert [(name, seconds) for name, seconds in steps.items() if seconds > allowed] == []


@pytest.mark.parametrize("body", [pytest.param(body, id=body.name) for body in [*full_bodies(), *largest_bodies()]])
async def test_large_body_delays_neither_health_nor_heartbeats(
    body: HostileBody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads are busy, so the body waits for a thread. The event loop serves a health check and a stream."""
    monkeypatch.setattr("aion_core.web.sse.HEARTBEAT_SECONDS", 0.001)
    agent, busy, heartbeats = GatedAgent(), threading.Event(), asyncio.Semaphore(0)
    app = parts(agent).app()
    content = json.dumps(send(method="SendStreamingMessage")).encode()
    headers = {"content-type": "application/json"}
    stream = asyncio.create_task(call(app, "POST", "/", content, headers, heard=heartbeats.release))
    await agent.spoke.wait()
    with ThreadPoolExecutor(1) as threads:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(threads)
        blocking = loop.run_in_executor(None, busy.wait)
        try:
            hostile = asyncio.create_task(cost_of(app, body))
            assert (await call(app, "GET", "/health")).status == 200
            while not heartbeats.locked():
                await heartbeats.acquire()  # those before the body
            for _ in range(3):
                await heartbeats.acquire()
            assert not hostile.done()
        finally:
            busy.set()
            agent.go.set()
        await blocking
        assert (await hostile).status < 500
        assert (await stream).status == 200


# ── Conversions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body", [pytest.param(body, id=body.name) for body in full_bodies() if "metadata" not in body.name]
)
async def test_message_is_converted_once_per_use(body: HostileBody, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's input and the response need JSON of the message. Nothing else converts it."""
    sizes: list[int] = []

    def counting(message: Message) -> Any:
        sizes.append(message.ByteSize())
        return MessageToDict(message)

    app = hostile_app()
    with monkeypatch.context() as patched:
        patched.setattr(types, "MessageToDict", counting)
        answer = await cost_of(app, body)
    assert not answer.is_error
    assert len([size for size in sizes if size > max(sizes) / 2]) <= 2
