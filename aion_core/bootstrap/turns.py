"""Composition of the parts that run turns: stores, agents, runner, worker."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from aion_core.bootstrap.agent_environment import agent_environment
from aion_core.bootstrap.background import Background, build_background
from aion_core.bootstrap.remotes import build_remotes
from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.bootstrap.tracing import build_tracer
from aion_core.clock import Clock, SystemClock
from aion_core.engine.agent import Agent
from aion_core.engine.agent_options import AnswerAs
from aion_core.engine.limits.limits import Limits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.remote_calls.callbacks import RemoteCallbacks
from aion_core.engine.remote_calls.cancellation import RemoteCancellations
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.lazy_agent import AgentReplies, LazyAgent
from aion_core.loading.outside_turns import OutsideTurns
from aion_core.settings import Settings


class TurnServices(Struct, frozen=True):
    """Services of a process that runs turns."""

    clock: Clock
    configs: Mapping[str, AgentConfig]
    limits: Limits | None
    stores: Stores
    agents: Mapping[str, LazyAgent]
    worker: Worker
    renew_secrets: Callable[[], None]
    """Function that reads the agents' secrets again. It blocks."""
    callbacks: RemoteCallbacks | None = None
    """Callbacks of remote agents; None if no remote agent in aion.yaml is asked for them."""
    background: Background | None = None
    """Local queues and sweeps of a single-process deployment, None on AWS."""


def build_turn_services(settings: Settings, telemetry: Telemetry) -> TurnServices:
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
    remotes = build_remotes(declared.remotes, settings.public_url)
    agents = build_agents(configs, declared.folder, replace(stores.agents, remotes=remotes), declared.roots)

    def refreshed(agent_id: str) -> Agent:
        environment.refresh_if_due()
        return agents[agent_id]

    runner = TaskRunner(
        stores.tasks,
        refreshed,
        clock,
        stores.work_queue,
        lease_seconds=settings.lease_seconds,
        max_tries=settings.max_tries,
        reveal_errors=settings.reveal_errors,
        conversations=Conversations(stores.tasks, stores.task_list),
        replies=AgentReplies(agents),
        answers=answer_forms(configs),
        metrics=telemetry.metrics,
        traces=telemetry.traces,
        tracer=build_tracer(settings, telemetry, stores, clock),
    )

    outside = OutsideTurns(agents, remotes, stores.tasks.remote_calls, clock, environment.refresh_if_due)
    cancellations = RemoteCancellations(
        stores.tasks.remote_calls, outside.cancel, stores.tasks.note_unreached, stores.work_queue, clock
    )
    worker = Worker(stores.tasks, runner, stores.work_queue, clock, cancellations, outside.look, outside.tell_agent)
    background = None
    if settings.store != "dynamodb":
        background = build_background(settings, stores, worker, clock, telemetry)
    callbacks = None
    if any(remote.callback for remote in declared.remotes.values()):
        callbacks = RemoteCallbacks(
            stores.resources.table, stores.work_queue, clock, lease_seconds=settings.lease_seconds
        )
    return TurnServices(
        clock, configs, declared.limits, stores, agents, worker, environment.refresh, callbacks, background
    )


def answer_forms(configs: Mapping[str, AgentConfig]) -> dict[str, AnswerAs]:
    """Return the form of each agent's answer, from the configuration of a deployment."""
    return {agent_id: config.answer or AnswerAs.MESSAGE for agent_id, config in configs.items()}


def build_agents(
    configs: Mapping[str, AgentConfig],
    folder: Path,
    dependencies: AgentDependencies,
    roots: Sequence[Path] = (),
) -> dict[str, LazyAgent]:
    """Return the agents by id. Each agent's code is imported on first use."""
    is_only = len(configs) == 1
    return {
        agent_id: LazyAgent(agent_id, config, folder, dependencies, roots, is_only=is_only)
        for agent_id, config in configs.items()
    }
