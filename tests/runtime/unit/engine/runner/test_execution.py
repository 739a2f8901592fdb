"""Metrics of turns and sweeps: each is counted once, with durations by the engine's clock."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from aion_core.engine.agent import Chunk, Emission, InputRequired, Paused, Reply, TurnRequest
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.sweep import Sweep
from aion_core.local.memory.queues import MemoryPushQueue, MemoryWorkQueue
from aion_core.protocol.types import Message, Part, Role
from aion_core.telemetry import Metric
from tests.support.clock import ManualClock
from tests.support.conversation import MANY
from tests.support.metrics import MemoryMetrics
from tests.support.pushes import a_config, on_table
from tests.support.rows import each_row
from tests.support.service import ServiceParts, http, parts, send


def said(text: str) -> Message:
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)])


class StreamingTurnAgent:
    """Agent that waits two seconds, emits three chunks at intervals of a second, and answers."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def load(self) -> None:
        pass

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        for seconds, word in ((2, "a"), (1, "b"), (1, "c")):
            self._clock.move(seconds)
            yield Chunk(word, "m-1")
        self._clock.move(0.5)
        yield Reply(said("abc"))


class FailingAgent:
    def load(self) -> None:
        pass

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        raise RuntimeError("no")
        yield Reply(None)


class DrainingAgent:
    """Agent that drains in its first attempt and answers in the second."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self.runs = clock, 0

    def load(self) -> None:
        pass

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.runs += 1
        self._clock.move(40)
        yield Paused() if self.runs == 1 else Reply(said("done"))


async def answered(made: ServiceParts) -> None:
    """Send a non-blocking message and wait for the end of its turn."""
    request = send("hi")
    request["params"]["configuration"] = {"returnImmediately": True}
    async with asyncio.timeout(60), http(made.app()) as client:
        answer = (await client.post("/", json=request)).json()
        assert "result" in answer, answer
        await made.work_queue.quiet()


async def test_each_metric_of_turn_is_recorded_once(clock: ManualClock) -> None:
    """Stream chunks in a turn: they add nothing to the metrics of the turn."""
    metrics = MemoryMetrics()
    await answered(parts(StreamingTurnAgent(clock), clock=clock, metrics=metrics))
    # Allow a millisecond, because a message's time has a resolution of a millisecond.
    assert metrics.values.pop(Metric.TURN_LAG) == [pytest.approx(0, abs=1)]
    assert dict(metrics.values) == {
        Metric.STREAM_DELTAS: [3],
        Metric.FIRST_TOKEN_TIME: [2000.0],
        Metric.TURNS: [1],
        Metric.TURN_DURATION: [4500.0],
    }
    assert set().union(*metrics.agents.values()) == {"test"}


async def test_failed_turn_adds_to_turn_and_failure_metrics(clock: ManualClock) -> None:
    metrics = MemoryMetrics()
    await answered(parts(FailingAgent(), clock=clock, metrics=metrics))
    assert (metrics.total(Metric.TURNS), metrics.total(Metric.TURNS_FAILED)) == (1, 1)
    assert Metric.FIRST_TOKEN_TIME not in metrics.values


async def test_log_line_of_turn_end_writes_task_state_with_hyphen(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Asks(FailingAgent):
        async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
            yield InputRequired(said("Which?"))

    caplog.set_level(logging.INFO, "aion_core.engine.runner")
    async with http(parts(Asks(), clock=clock).app()) as client:
        await client.post("/", json=send())
    [ended] = [record for record in caplog.records if record.message == "A turn has ended."]
    assert ended.__dict__["state"] == "input-required"


async def test_metrics_count_handed_off_turn_once(clock: ManualClock) -> None:
    metrics, agent = MemoryMetrics(), DrainingAgent(clock)
    made = parts(agent, clock=clock, metrics=metrics)
    await answered(made)
    assert agent.runs == 2
    assert metrics.values[Metric.TURNS] == [1]
    assert metrics.values[Metric.TURN_DURATION] == [pytest.approx(80_000, abs=1)]
    assert len(metrics.values[Metric.TURN_LAG]) == 1, "it began once"
    assert Metric.TURN_RETRIES not in metrics.values, "a handoff is no failure"


async def test_sweep_metric_does_not_count_planned_push_retries(clock: ManualClock) -> None:
    """A webhook that is down for an hour causes planned retries, which must not trigger SweepFoundWorkAlarm."""
    push, metrics = on_table(None, clock), MemoryMetrics()
    begun = await push.chat.store.create(replace(push.chat.message("m-1"), push=a_config()), holder="h")
    assert isinstance(begun, TurnStarted)
    claim = await push.claimed()
    due = clock.now() + timedelta(hours=1)
    await push.configs.fail(claim, failure="HTTP 500", next_at=due, due_at=due)
    sweep = Sweep(push.chat.store, MemoryWorkQueue(clock), push.configs, MemoryPushQueue(clock), metrics=metrics)
    clock.move(30)
    await push.chat.store.pause(begun.lease, made_progress=True)
    for generation in await push.events_with_timers():
        await push.configs.clear(push.key(), generation)
    await sweep.once()
    before = metrics.total(Metric.SWEEP_FOUND), metrics.total(Metric.SWEEP_ENQUEUED)
    clock.move(3600)
    for timer in await push.chat.store.expired_timers(limit=MANY):
        assert await push.chat.store.claim(timer)
    await sweep.once()
    assert (metrics.total(Metric.SWEEP_FOUND), metrics.total(Metric.SWEEP_ENQUEUED)) == (before[0], before[1] + 1)


async def test_turn_completes_without_configured_metrics(clock: ManualClock) -> None:
    await answered(parts(StreamingTurnAgent(clock), clock=clock))


@each_row("metric", Metric)
def test_only_duration_metrics_are_in_milliseconds(metric: Metric) -> None:
    times = {"TurnDuration", "FirstTokenTime", "TurnLag", "PushLag"}
    assert metric.in_milliseconds == (metric.value in times)
