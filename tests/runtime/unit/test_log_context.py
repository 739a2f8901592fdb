"""Ids in the log lines of concurrent turns, of the heartbeat thread, and of a canceled request."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aion_core import log
from aion_core.engine.agent import Chunk, Emission, Reply, TurnRequest
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.engine.records import Lease, Turn
from aion_core.engine.runner import renewal
from aion_core.engine.runner.heartbeat import Heartbeat
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.queues import MemoryWorkQueue
from aion_core.protocol.types import Message, Part, Role
from aion_core.table.keys import ContextKey
from aion_core.telemetry import Metric
from aion_core.web.app import build_app
from aion_core.web.app_parts import Instruments, ServedAgent, SharedServices
from aion_core.web.cards.agent_cards import AgentCards
from tests.support.clock import ManualClock
from tests.support.metrics import MemoryMetrics
from tests.support.service import http, parts, send

AGENTS = "an.authors.agent"


class Meets:
    """Agent that logs, waits until a concurrent turn has logged too, and logs a second line."""

    def __init__(self) -> None:
        self._both = asyncio.Barrier(2)

    def load(self) -> None:
        pass

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        for _ in range(3):
            logging.getLogger(AGENTS).warning(asked.task.id)
            await self._both.wait()
        yield Reply(Message(role=Role.ROLE_AGENT, parts=[Part(text="met")]))


class Hangs:
    """Agent that emits a chunk and then never ends."""

    def __init__(self) -> None:
        self.spoke = asyncio.Event()

    def load(self) -> None:
        pass

    def profile(self) -> AgentProfile:
        return UNKNOWN

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("a", "m-1")
        self.spoke.set()
        await asyncio.Event().wait()


async def test_log_lines_of_concurrent_turns_have_right_task_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Run two turns in one process, as a self-hosted server does: each line has the ids of its own turn."""
    log.install()
    async with http(parts(Meets()).app()) as client:
        requests = (client.post("/", json=send("hi", message_id=f"m-{n}")) for n in range(2))
        tasks = {answer.json()["result"]["task"]["id"] for answer in await asyncio.gather(*requests)}
    said = [record for record in caplog.records if record.name == AGENTS]
    assert len(said) == 6
    assert {record.getMessage() for record in said} == tasks
    assert all(log.labels_of(record)["task_id"] == record.getMessage() for record in said)
    requests_of = {task: {log.labels_of(r)["correlation_id"] for r in said if r.getMessage() == task} for task in tasks}
    assert [len(ids) for ids in requests_of.values()] == [1, 1]
    assert len(set().union(*requests_of.values())) == 2


async def test_log_line_of_heartbeat_thread_has_task_id(caplog: pytest.LogCaptureFixture, clock: ManualClock) -> None:
    log.install()
    refused = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Refuses:
        def renew(self, lease: Lease) -> bool:
            loop.call_soon_threadsafe(refused.set)
            raise StoreUnavailable("throttled")

    store: Any = Refuses()
    lease = Lease(ContextKey("o", "a", "c-1"), Turn("turn-1", "t-1", 1), "holder", 1)
    with log.request("r-1"), log.about(task_id="t-1"):
        async with (
            asyncio.timeout(60),
            Heartbeat(
                LeaseTerm(store, lease, clock, seconds=30),
                MemoryWorkQueue(clock),
                renew_seconds=0.01,
                wake_up_seconds=1,
            ),
        ):
            await refused.wait()
            while not (told := [record for record in caplog.records if record.name == renewal.__name__]):
                await asyncio.sleep(0.01)
    assert log.labels_of(told[0]) == {"correlation_id": "r-1", "task_id": "t-1"}
    assert told[0].threadName == "lease-turn-1"


async def test_canceled_request_flushes_metrics() -> None:
    """Cancel the app's call, as the runtime loop does shortly before the deadline: the metrics are still written."""
    metrics, agent = MemoryMetrics(), Hangs()
    made = parts(agent, metrics=metrics)
    served = {"test": ServedAgent(agent, AgentCards.of(made.card))}
    app = build_app(
        SharedServices(made.service, made.lister, made.conversations), served, instruments=Instruments(metrics)
    )
    async with asyncio.timeout(60), http(app) as client:
        request = asyncio.create_task(client.post("/", json=send("hi", method="SendStreamingMessage")))
        await agent.spoke.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert metrics.values[Metric.STREAM_DELTAS] == [1]
    assert Metric.TURNS not in metrics.values, "whoever goes on with it will end it"
    assert metrics.unflushed == 0
