"""What runs turns, in whichever function: the agents, their runner, and the worker that answers bells."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aion_core.agents.config import AgentConfig, read_declared
from aion_core.agents.loader import AdapterFactory, LoadedAtFirstTurn
from aion_core.bootstrap.environment import agent_environment
from aion_core.bootstrap.operations import Operations
from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.clock import SystemClock
from aion_core.memory.queues import MemoryBells, MemoryPushBells
from aion_core.ports import Agent, Clock, Limits
from aion_core.settings import Settings
from aion_core.tasks.history import ContextHistory
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.worker import Worker


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs turns, in whichever function."""

    clock: Clock
    configs: Mapping[str, AgentConfig]
    limits: Limits | None
    stores: Stores
    agents: Mapping[str, Agent]
    worker: Worker
    sweeping: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Finds what is overdue, again and again, where no other function of the deployment does; None elsewhere."""


def build_engine(settings: Settings, operations: Operations) -> Engine:
    """Return what runs turns; raises ConfigurationError that names the setting or the line of aion.yaml."""
    declared = read_declared(settings.config)
    configs = declared.agents
    clock = SystemClock()
    # First: agents' code reads its keys when it is imported.
    environment = agent_environment(declared, settings, clock)
    environment.apply()
    stores = build_stores(settings, clock)
    agents = build_agents(configs, declared.folder, stores.adapters(), declared.roots)

    def agent_of(agent_id: str) -> Agent:
        environment.refresh_if_due()
        return agents[agent_id]

    runner = TaskRunner(
        stores.tasks,
        agent_of,
        clock,
        stores.bells,
        lease_seconds=settings.lease_seconds,
        max_tries=settings.max_tries,
        reveal_errors=settings.reveal_errors,
        history=ContextHistory(stores.tasks, stores.task_list).of,
        replies={agent_id: config.reply for agent_id, config in configs.items()},
        answers={agent_id: config.answer for agent_id, config in configs.items()},
        metrics=operations.metrics,
        traces=operations.traces,
    )
    worker = Worker(stores.tasks, runner, stores.bells, clock)
    if isinstance(stores.bells, MemoryBells):
        stores.bells.answered_by(worker.answer)
    if stores.push is not None and isinstance(stores.push.bells, MemoryPushBells):
        from aion_core.bootstrap.push import push_delivery

        stores.push.bells.answered_by(push_delivery(settings, stores.tasks, stores.push, clock, operations).answer)
    sweeping = _sweeping(stores, clock, operations) if settings.store == "memory" else None
    return Engine(clock, configs, declared.limits, stores, agents, worker, sweeping)


def _sweeping(stores: Stores, clock: Clock, operations: Operations) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return the sweep of a process to which no schedule of a deployment's comes: all it knows is in its memory."""
    from aion_core.memory.each_minute import each_minute
    from aion_core.tasks.sweep import Sweep

    configs, bells = (stores.push.configs, stores.push.bells) if stores.push is not None else (None, None)
    sweep = Sweep(stores.tasks, stores.bells, configs, bells, metrics=operations.metrics)
    return lambda: each_minute(sweep.once, clock)


def build_agents(
    configs: Mapping[str, AgentConfig],
    folder: Path,
    adapters: Mapping[str, AdapterFactory],
    roots: Sequence[Path] = (),
) -> dict[str, Agent]:
    """Return the agents by their ids; their code is imported when it is needed."""
    return {
        agent_id: LoadedAtFirstTurn(agent_id, config, folder, adapters, roots) for agent_id, config in configs.items()
    }
