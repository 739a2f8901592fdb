"""Costs of hostile request bodies in four dialects: bytes of the response, processor time, delay of other requests."""

import asyncio
import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, product
from types import FrameType
from typing import Any

import pytest
from a2a.compat.v0_3 import proto_utils
from google.protobuf import json_format
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from starlette.types import ASGIApp

from aion_core.protocol.types import Message
from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.runtime.protocol.hostile_bodies import (
    FULL,
    LARGEST,
    LARGEST_NAMES,
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
    large_body,
    largest_bodies,
    row,
    usual_bodies,
)
from tests.support.agents.scripted import GatedAgent
from tests.support.asgi import call
from tests.support.service import parts, send

TWO_DIALECTS = DIALECTS[0], DIALECTS[-1]
"""Dialects that have neither a version nor a binding in common; `make test-deep` tests all dialects."""


def large_messages(*names: str) -> pytest.MarkDecorator:
    """Parametrize by large message and dialect; each test builds one message, because all together have 100 MB.

    `make test` sends each message in one of two dialects.
    """
    return pytest.mark.parametrize(
        ("name", "dialect"),
        [
            pytest.param(name, each, id=f"{name}, {each.name}", marks=[pytest.mark.deep] * (each != usual))
            for each, (name, usual) in product(DIALECTS, zip(names, cycle(TWO_DIALECTS)))
        ],
    )


CPU_MARGIN = 2
"""Factor for a busy machine, and for the conversions of v0.3's SDK."""


async def printed_costs(bodies: Iterable[HostileBody]) -> tuple[list[Cost], float]:
    found, usual = await costs_of(hostile_app(), bodies)
    slowest = sorted(found, key=lambda cost: cost.cpu_seconds, reverse=True)[:30]
    print(f"{len(found)} bodies, {sum(cost.cpu_seconds for cost in found):.1f} s; usual message: {usual * 1000:.1f} ms")
    print("The slowest:", *map(row, slowest), sep="\n")
    return found, usual


async def test_responses_to_hostile_bodies_are_small() -> None:
    found, _ = await printed_costs([*hostile_bodies(SIZES[0]), *full_bodies()])
    assert len(found) >= 140
    check_answers(found)


def check_answers(found: list[Cost]) -> None:
    assert [row(cost) for cost in found if len(cost.answer) > allowed_bytes(cost)] == []
    assert [row(cost) for cost in found if cost.status >= 500] == []


@pytest.mark.deep
async def test_hostile_bodies_take_bounded_cpu_time() -> None:
    found, usual = await printed_costs([*full_bodies(), *hostile_bodies(*SIZES, LARGEST)])
    check_answers(found)
    slow = [cost for cost in found if cost.cpu_seconds - usual > CPU_MARGIN * allowed_cpu_seconds(cost.body)]
    assert [row(cost) for cost in slow] == []


# ── Other requests ────────────────────────────────────────────────────────────────────────────────────────────────────

MOST_CALLS = 100_000
"""Maximum number of function calls in a step of the event loop: a conversion of 5,000 JSON lists to protobuf makes
45,000."""

LONGEST_STEP = 12
"""Maximum processor time of a step of the event loop, as a multiple of `conversion_seconds`."""


def conversion_seconds() -> float:
    """Return the processor time in which this machine now converts 5,000 JSON lists to a protobuf message."""
    times = []
    for _ in range(3):
        since = time.thread_time()
        ParseDict({"a": [[[[]]]] * 1250}, Struct())
        times.append(time.thread_time() - since)
    return statistics.median(times)


async def longest_step(app: ASGIApp, body: HostileBody, measure: Callable[[], float]) -> float:
    """Send the body. Return the largest increase of the measure between two iterations of the event loop."""
    sending = asyncio.create_task(cost_of(app, body))
    longest, before = 0.0, measure()
    while not sending.done():
        await asyncio.sleep(0)
        longest, before = max(longest, measure() - before), measure()
    return longest


async def most_calls(app: ASGIApp, body: HostileBody) -> float:
    """Send the body. Return the largest number of function calls between two iterations of the loop, in its thread."""
    number = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal number
        number += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        return await longest_step(app, body, lambda: number)
    finally:
        sys.setprofile(None)


async def warm_app() -> ASGIApp:
    """Return an app after its first requests, which import modules."""
    app = hostile_app()
    for body in usual_bodies():
        await cost_of(app, body)
    return app


@pytest.mark.deep
async def test_hostile_request_body_does_not_block_event_loop_for_long() -> None:
    app = await warm_app()
    bodies = [*full_bodies(TWO_DIALECTS), *largest_bodies(TWO_DIALECTS)]
    calls = {body.name: await most_calls(app, body) for body in bodies}
    print(*(f"{name:62} {number:7.0f} calls" for name, number in calls.items()), sep="\n")
    assert [(name, number) for name, number in calls.items() if number > MOST_CALLS] == []


@pytest.mark.deep
async def test_hostile_bodies_block_event_loop_only_briefly() -> None:
    app = await warm_app()
    gc.freeze()  # exclude the objects of the test session from garbage collections, which would take 0.1 s
    steps = {
        body.name: await longest_step(app, body, time.thread_time) / conversion_seconds()
        for body in [*full_bodies(DIALECTS), *largest_bodies(DIALECTS)]
    }
    print(*(f"{name:62} {step:5.1f} conversions" for name, step in steps.items()), sep="\n")
    assert [(name, step) for name, step in steps.items() if step > LONGEST_STEP] == []


@large_messages(*FULL, *LARGEST_NAMES)
async def test_large_request_body_does_not_delay_health_checks_or_streams(
    name: str, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large body waits for the only, busy, thread; the event loop still serves health checks and a stream."""
    monkeypatch.setattr("aion_core.web.sse.KEEP_ALIVE_SECONDS", 0.001)
    agent, busy, comments = GatedAgent(), threading.Event(), asyncio.Semaphore(0)
    streaming, app = parts(agent).app(), hostile_app()
    content, headers = json.dumps(send(method="SendStreamingMessage")).encode(), {"content-type": "application/json"}
    stream = asyncio.create_task(call(streaming, "POST", "/", content, headers, heard=comments.release))
    await agent.spoke.wait()
    with ThreadPoolExecutor(1) as threads:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(threads)
        blocking = loop.run_in_executor(None, busy.wait)
        try:
            hostile = asyncio.create_task(cost_of(app, large_body(name, dialect)))
            assert (await call(app, "GET", "/health")).status == 200
            for usual in usual_bodies():
                assert not (await cost_of(app, usual)).is_error
            while not comments.locked():
                await comments.acquire()  # discard the comments so far
            for _ in range(3):
                await comments.acquire()
            assert not hostile.done()
        finally:
            busy.set()
            agent.go.set()
        await blocking
        assert (await hostile).status < 500
        assert (await stream).status == 200


# ── Texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class CountedSearch:
    """Pattern of protobuf's parser that counts the searched characters."""

    def __init__(self, pattern: Any) -> None:
        self._pattern, self.characters = pattern, 0

    def search(self, text: str) -> Any:
        self.characters += len(text)
        return self._pattern.search(text)


async def test_protobuf_searches_at_most_two_megabytes_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protobuf searches texts for lone surrogates, at 25 ms for each MB."""
    protobuf: Any = json_format
    counted = CountedSearch(protobuf._UNPAIRED_SURROGATE_PATTERN)
    monkeypatch.setattr(protobuf, "_UNPAIRED_SURROGATE_PATTERN", counted)
    app = hostile_app()
    for body in largest_bodies(TWO_DIALECTS):
        counted.characters = 0
        await cost_of(app, body)
        assert counted.characters <= 2 * 1024 * 1024 + 1000, body.name


# ── Conversions ───────────────────────────────────────────────────────────────────────────────────────────────────────


class CountedConversions:
    """Sizes of the values converted by protobuf's JSON and v0.3's SDK; a value counts once, with its members."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        self.written: list[int] = []
        self._within = threading.local()
        protobuf: Any = json_format
        self._count(patch, protobuf._Parser, "ConvertMessage", self.read, lambda _parser, _value, read, *_: read)
        self._count(patch, protobuf._Printer, "_MessageToJsonObject", self.written, lambda _, written: written)
        self._count(patch, proto_utils, "dict_to_struct", self.read, None)

    def _count(self, patch: pytest.MonkeyPatch, owner: Any, name: str, sizes: list[int], message_of: Any) -> None:
        original = getattr(owner, name)

        def counting(*args: Any) -> Any:
            outermost = not getattr(self._within, "converts", False)
            self._within.converts = True
            try:
                converted = original(*args)
            finally:
                self._within.converts = not outermost
            if outermost:
                sizes.append((message_of(*args) if message_of else converted).ByteSize())
            return converted

        patch.setattr(owner, name, counting)


@large_messages(*FULL)
async def test_large_message_is_parsed_once_and_converted_to_json_twice(
    name: str, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is read once, and converted to JSON for the model's input and for the response only."""
    app = hostile_app()
    with monkeypatch.context() as patched:
        counted = CountedConversions(patched)
        answer = await cost_of(app, large_body(name, dialect))
    assert not answer.is_error
    size = ParseDict(FULL[name], Message()).ByteSize()
    assert sum(counted.read) < 1.5 * size
    assert sum(counted.written) < 2.5 * size
