"""The agents, their runner, and the worker that runs turns for wake-up messages, in whichever function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import uuid4

from aion_core import log
from aion_core.agents.config import AgentConfig, read_deployment_config
from aion_core.agents.frameworks import AgentDependencies
from aion_core.agents.loader import LazyAgent
from aion_core.bootstrap.background import Background, LocalQueue
from aion_core.bootstrap.environment import agent_environment
from aion_core.bootstrap.operations import Operations
from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.clock import SystemClock
from aion_core.ports import Agent, Clock, Limits, PushWakeUp, WakeUp
from aion_core.settings import Settings
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.runner import TaskRunner, Worker
from aion_core.tasks.sweep import Sweep


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts that run turns."""

    clock: Clock
    configs: Mapping[str, AgentConfig]
    limits: Limits | None
    stores: Stores
    agents: Mapping[str, Agent]
    worker: Worker
    background: Background | None = None
    """The queues and sweeps of a process that is a whole deployment; None on AWS."""


def build_engine(settings: Settings, operations: Operations) -> Engine:
    """Return the parts that run turns; raises ConfigurationError that names the setting or the line of aion.yaml."""
    declared = read_deployment_config(settings.config)
    configs = declared.agents
    clock = SystemClock()
    # First: agents' code reads its keys when it is imported.
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
        replies={agent_id: config.reply for agent_id, config in configs.items()},
        answers={agent_id: config.answer for agent_id, config in configs.items()},
        metrics=operations.metrics,
        traces=operations.traces,
    )
    worker = Worker(stores.tasks, runner, stores.work_queue, clock)
    background = None
    if settings.store != "dynamodb":
        background = _background(settings, stores, worker, clock, operations)
    return Engine(clock, configs, declared.limits, stores, agents, worker, background)


def _background(settings: Settings, stores: Stores, worker: Worker, clock: Clock, operations: Operations) -> Background:
    """Return what consumes the queues of this process, and sweeps in it."""
    from aion_core.bootstrap.push import push_delivery

    assert stores.push is not None  # noqa: S101  # its resources have a queue and a cipher
    delivery = push_delivery(settings, stores.tasks, stores.push, clock, operations)
    sweep = Sweep(stores.tasks, stores.work_queue, stores.push.configs, stores.push.queue, metrics=operations.metrics)
    background = Background(sweep.once, clock)

    async def run_turn(wake_up: WakeUp) -> None:
        # For the line about a failure, too, which is written outside of the block.
        log.note(context_id=wake_up.context.context_id, agent=wake_up.context.agent)
        with log.request(str(uuid4())):
            await operations.flushed(worker.handle(wake_up, deadline=background.deadline))

    async def deliver(wake_up: PushWakeUp) -> None:
        log.note(task_id=wake_up.task.task_id)
        with log.request(str(uuid4())):
            await operations.flushed(delivery.deliver(wake_up))

    turns, deliveries = (
        cast("LocalQueue[WakeUp]", stores.work_queue),
        cast("LocalQueue[PushWakeUp]", stores.push.queue),
    )
    background.consumers = [*turns.handled_by(run_turn), *deliveries.handled_by(deliver)]
    return background


def build_agents(
    configs: Mapping[str, AgentConfig],
    folder: Path,
    dependencies: AgentDependencies,
    roots: Sequence[Path] = (),
) -> dict[str, LazyAgent]:
    """Return the agents by their ids; their code is imported when it is needed."""
    return {agent_id: LazyAgent(agent_id, config, folder, dependencies, roots) for agent_id, config in configs.items()}
