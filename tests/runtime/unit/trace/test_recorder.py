"""Recorder of a turn's steps: times, bounds, writes, and failures that cost no turn."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from aion_core.errors import StoreUnavailable
from aion_core.table.keys import TaskKey
from aion_core.trace.content import LONGEST
from aion_core.trace.recorder import LIVE_SECONDS, MOST_CONTENT, MOST_STEPS, TurnTrace, steps_logger
from aion_core.trace.step import Kind, Step, TracedTurn
from aion_core.trace.store import TraceStore
from tests.support.clock import ManualClock, settle
from tests.support.traces import KeptTraces, tree

TURN = TracedTurn(TaskKey("o", "t"), "c", "weather", "turn-1", 3)


def kept() -> tuple[KeptTraces, ManualClock, TurnTrace]:
    clock = ManualClock()
    traces = KeptTraces(clock)
    return traces, clock, traces.tracer.recorder(TURN)


async def test_step_has_its_times_and_place() -> None:
    traces, clock, trace = kept()
    async with trace.recording():
        trace.begin("n", Kind.NODE, "ask")
        trace.pass_through("chain", "n")
        trace.begin("m", Kind.MODEL, "acme-1", parent="chain", provider="acme")
        clock.move(0.2)
        trace.first_chunk("m")
        clock.move(0.3)
        trace.first_chunk("m")
        trace.end("m", tokens=(5, 7))
        trace.end("chain")
        trace.end("n")
        trace.note(Kind.TAKEOVER, "try 2")
    steps = await traces.steps()
    assert tree(steps) == ["agent weather", "  node ask", "    model acme-1", "  takeover try 2"]
    model = steps[2]
    assert (round(model.ms or 0), round(model.first_ms or 0)) == (500, 200)
    assert (model.input_tokens, model.output_tokens, model.provider) == (5, 7, "acme")
    assert [step.ms for step in steps if step.kind is Kind.TAKEOVER] == [0]


async def test_short_turn_is_written_once_after_its_end() -> None:
    traces, _, trace = kept()
    async with trace.recording():
        for number in range(20):
            trace.begin(number, Kind.TOOL, "t", arguments={"n": number})
            trace.end(number, result=number)
        await settle()
        assert await traces.pages() == [], "no step waits for the store"
    assert len(await traces.pages()) == 1


async def test_long_turn_is_readable_while_it_runs() -> None:
    traces, clock, trace = kept()
    async with trace.recording():
        trace.begin("t", Kind.TOOL, "slow")
        await settle()
        await clock.passes(LIVE_SECONDS + 0.1)
        assert [(step.name, step.ms) for step in await traces.steps()] == [("weather", None), ("slow", None)]
        await clock.passes(3 * LIVE_SECONDS)
        assert len(await traces.pages()) == 1, "nothing has changed"
        trace.end("t", result="done")
    assert [step.ms is not None for step in await traces.steps()] == [True, True]
    assert len(await traces.pages()) == 2


async def test_stored_trace_expires_after_a_day() -> None:
    traces, clock, trace = kept()
    async with trace.recording():
        pass
    clock.move(24 * 3600 - 5)
    assert await traces.store.read(TURN.task)
    clock.move(10)
    assert await traces.store.read(TURN.task) == []


async def test_each_try_of_a_turn_has_its_own_trace() -> None:
    traces, _, first = kept()
    second = traces.tracer.recorder(TracedTurn(TURN.task, "c", "weather", "turn-1", 4))
    for trace in (second, first):
        async with trace.recording():
            trace.begin("n", Kind.NODE, f"in {trace.turn.fence}")
    assert [[step.name for step in each.steps] for each in await traces.tries()] == [
        ["weather", "in 3"],
        ["weather", "in 4"],
    ]


async def test_tries_and_their_pages_are_read_in_order() -> None:
    """Each step ends two pages after its beginning, also on the tenth page; and the tenth try is after the ninth."""
    traces, *_ = kept()
    for fence in (10, 9):
        trace = traces.tracer.recorder(TracedTurn(TURN.task, "c", "weather", "turn-1", fence))
        async with trace.recording():
            for number in range(12):
                trace.begin(number, Kind.TOOL, str(number))
                trace.end(number - 2)
                await trace.flush()
    tries = await traces.tries()
    assert [each.fence for each in tries] == [9, 10]
    for each in tries:
        assert [step.name for step in each.steps if step.ms is None] == ["10", "11"]


async def test_trace_is_bounded_in_steps_and_content() -> None:
    traces, _, trace = kept()
    async with trace.recording():
        for number in range(MOST_STEPS + 10):
            trace.begin(number, Kind.TOOL, "t", arguments="x" * LONGEST)
        trace.begin("within", Kind.MODEL, "m", parent=MOST_STEPS + 5)
        for number in range(MOST_STEPS + 10):
            trace.end(number, result="y" * LONGEST)
    (stored,) = await traces.tries()
    assert (len(stored.steps), stored.dropped) == (MOST_STEPS, 12)
    assert MOST_CONTENT <= sum(len(step.arguments) + len(step.result) for step in stored.steps) < MOST_CONTENT + LONGEST
    (item,) = (await traces.table.scan()).items
    assert len(item["steps"]) < 300_000, "far below an item's limit of 400 KB"


class BrokenStore(TraceStore):
    """Store whose table is away."""

    async def write(self, turn: TracedTurn, page: int, steps: Sequence[Step], dropped: int = 0) -> None:
        raise StoreUnavailable("away")


async def test_failing_recorder_raises_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    clock = ManualClock()

    def spans(turn: TracedTurn, steps: Sequence[Step]) -> None:
        raise RuntimeError("no spans")

    trace = TurnTrace(TURN, clock, BrokenStore(KeptTraces(clock).table, clock), spans)
    with caplog.at_level(logging.WARNING):
        async with trace.recording():
            trace.begin("t", Kind.TOOL, "odd", arguments={"value": Unreadable()})
            trace.end("t", result=Unreadable())
            trace.end("unknown")
            trace.begin([], Kind.TOOL, "key without a hash")  # type: ignore[arg-type]
            trace.first_chunk([])  # type: ignore[arg-type]
            trace.pass_through([], None)  # type: ignore[arg-type]
    assert [record.message for record in caplog.records] == ["A step of the turn could not be traced."]


async def test_failure_of_turn_names_line_of_author() -> None:
    traces, _, trace = kept()
    async with trace.recording():
        try:
            raise ValueError("no rate")
        except ValueError as error:
            trace.failure = error
            line = f"test_recorder.py:{error.__traceback__.tb_lineno}" if error.__traceback__ else ""
    (step,) = await traces.steps()
    assert (step.error, step.result, step.where) == ("ValueError", "no rate", line)


async def test_recorder_lets_errors_and_cancellation_of_the_turn_pass() -> None:
    traces, _, trace = kept()

    async def canceled() -> None:
        async with trace.recording():
            trace.begin("t", Kind.TOOL, "slow")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await canceled()
    assert [(step.name, step.ms is None) for step in await traces.steps()] == [("weather", False), ("slow", True)]


async def test_ended_step_is_a_line_of_the_log_if_wanted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, steps_logger.name):
        _, _, trace = kept()
        async with trace.recording():
            trace.begin("t", Kind.TOOL, "weather", arguments={"city": "Rome"})
            trace.end("t", result="sunny")
    assert [record.message for record in caplog.records] == [
        'tool weather 0 ms {"city": "Rome"} → sunny',
        "agent weather 0 ms",
    ]
