"""Composition of the parts that run turns: stores, agents, runner, worker, and local queues."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from uuid import uuid4

from msgspec import Struct

from aion_core import log
from aion_core.bootstrap.agent_environment import agent_environment
from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.clock import Clock, SystemClock
from aion_core.engine.agent import Agent
from aion_core.engine.limits.limits import Limits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.sweep import Sweep
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.loader import AgentReplies, LazyAgent
from aion_core.settings import Settings

if TYPE_CHECKING:
    from aion_core.push.delivery import PushDelivery

logger = logging.getLogger(__name__)

B_co = TypeVar("B_co", covariant=True)

SWEEP_SECONDS = 60.0
"""Seconds between two sweeps, as in the template's schedule."""


class BackgroundConsumer(Protocol):
    """Protocol for a consumer of a local queue, which passes each message to the registered handler."""

    async def run(self) -> None:
        """Receive messages until `stop` is called or this coroutine is cancelled."""
        ...

    def stop(self) -> None:
        """Stop receiving messages."""
        ...

    async def join(self) -> None:
        """Wait until all received messages are handled."""
        ...


class LocalQueue(Protocol[B_co]):
    """Protocol for a queue in this process, which takes the place of SQS in a single-process deployment."""

    def handled_by(self, handle: Callable[[B_co], Awaitable[None]]) -> Sequence[BackgroundConsumer]:
        """Register the function that handles messages. Return the consumers that the caller must run, if any."""
        ...


class Background:
    """Background work of a single-process server: turns, push deliveries and sweeps."""

    def __init__(self, sweep: Callable[[], Awaitable[object]], clock: Clock, *, lease_seconds: float) -> None:
        self._sweep, self._clock, self._lease_seconds = sweep, clock, lease_seconds
        self.consumers: Sequence[BackgroundConsumer] = ()
        """Consumers of the local queues. Empty if the queues pass each message to its handler when it is sent."""
        self.deadline = Deadline()
        """Deadline of running turns, by default never. A server that can be stopped replaces it before it serves."""

    async def run(self) -> None:
        """Consume the queues until cancelled. Sweep at once, then after a lease's duration, then once a minute."""
        await asyncio.gather(self._sweep_each_minute(), *(consumer.run() for consumer in self.consumers))

    def stop(self) -> None:
        """Stop receiving messages from the queues, so that no further turn starts."""
        for consumer in self.consumers:
            consumer.stop()

    async def join(self) -> None:
        """Wait until all turns and deliveries from queues have ended."""
        await asyncio.gather(*(consumer.join() for consumer in self.consumers))

    async def _sweep_each_minute(self) -> None:
        # Sweep at once, because timers may have expired while no server was running. Sweep again after a lease's
        # duration, because a killed server may have left a lease without a wake-up message.
        for pause in chain((min(self._lease_seconds, SWEEP_SECONDS),), repeat(SWEEP_SECONDS)):
            try:
                await self._sweep()
            except Exception:  # catch every exception, because the next sweep repeats the work
                logger.exception("A sweep has failed.")
            await self._clock.sleep(pause)


class Engine(Struct, frozen=True):
    """Services of a process that runs turns."""

    clock: Clock
    configs: Mapping[str, AgentConfig]
    limits: Limits | None
    stores: Stores
    agents: Mapping[str, LazyAgent]
    worker: Worker
    renew_secrets: Callable[[], None]
    """Function that reads the agents' secrets again. It blocks."""
    background: Background | None = None
    """Local queues and sweeps of a single-process deployment, None on AWS."""


def build_engine(settings: Settings, telemetry: Telemetry) -> Engine:
    """Return the services for running turns.

    Raises ConfigurationError with the name of the setting or the line of aion.yaml.
    """
    declared = read_deployment_config(settings.config)
    configs = declared.agents
    clock = SystemClock()
    # Set the agents' environment variables first, because an agent's code may read them when it is imported.
    environment = agent_environment(declared, settings, clock)
    environment.apply()
    stores = build_stores(settings, clock)
    agents = build_agents(configs, declared.folder, stores.agents, declared.roots)

    def refreshed(agent_id: str) -> Agent:
        environment.refresh_if_due()
        return agents[agent_id]

    runner = TaskRunner(
        stores.tasks,
        refreshed if environment.has_secrets else agents.__getitem__,
        clock,
        stores.work_queue,
        lease_seconds=settings.lease_seconds,
        max_tries=settings.max_tries,
        reveal_errors=settings.reveal_errors,
        conversations=Conversations(stores.tasks, stores.task_list),
        replies=AgentReplies(agents),
        answers={agent_id: config.answer for agent_id, config in configs.items()},
        metrics=telemetry.metrics,
        traces=telemetry.traces,
    )
    worker = Worker(stores.tasks, runner, stores.work_queue, clock)
    background = None
    if settings.store != "dynamodb":
        background = _background(settings, stores, worker, clock, telemetry)
    return Engine(clock, configs, declared.limits, stores, agents, worker, environment.refresh, background)


def _background(settings: Settings, stores: Stores, worker: Worker, clock: Clock, telemetry: Telemetry) -> Background:
    """Return the background work of a single-process server, with a consumer for each local queue."""
    push = stores.push
    assert push is not None  # noqa: S101  # a local deployment always has push notifications
    sweep = Sweep(stores.tasks, stores.work_queue, push.configs, push.queue, metrics=telemetry.metrics)
    background = Background(sweep.once, clock, lease_seconds=settings.lease_seconds)

    async def run_turn(wake_up: WakeUp) -> None:
        # Set the log labels outside of the block, because the queue logs a failure of this function after the block.
        log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
        with log.request(str(uuid4())):
            await telemetry.flushed(worker.handle(wake_up, deadline=background.deadline))

    @cache
    def delivery() -> "PushDelivery":
        # Import this and its HTTP client only on first use, because most tasks have no webhook.
        from aion_core.bootstrap.push import push_delivery

        # Let a stopping process release its claims, because the next process waits for the end of a claim.
        return push_delivery(
            settings, stores.tasks, push, clock, telemetry, stops=lambda: background.deadline.now.is_set()
        )

    async def deliver(wake_up: PushWakeUp) -> None:
        log.note(task_id=wake_up.task.task_id)
        with log.request(str(uuid4())):
            await telemetry.flushed(delivery().deliver(wake_up))

    turns, deliveries = (
        cast("LocalQueue[WakeUp]", stores.work_queue),
        cast("LocalQueue[PushWakeUp]", push.queue),
    )
    background.consumers = [*turns.handled_by(run_turn), *deliveries.handled_by(deliver)]
    return background


def build_agents(
    configs: Mapping[str, AgentConfig],
    folder: Path,
    dependencies: AgentDependencies,
    roots: Sequence[Path] = (),
) -> dict[str, LazyAgent]:
    """Return the agents by id. Each agent's code is imported on first use."""
    return {agent_id: LazyAgent(agent_id, config, folder, dependencies, roots) for agent_id, config in configs.items()}
