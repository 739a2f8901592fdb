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
from aion_core.engine.agent import Agent, CallsRemoteAgents
from aion_core.engine.agent_options import AnswerAs
from aion_core.engine.limits.limits import Limits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.callbacks import RemoteCallbacks
from aion_core.engine.remote_calls.cancellation import Canceled, RemoteCancellations
from aion_core.engine.remote_calls.records import CallToCancel
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.lazy_agent import AgentReplies, LazyAgent
from aion_core.protocol.types import Task
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds


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
        refreshed if environment.has_secrets else agents.__getitem__,
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

    async def cancel_remote(call: CallToCancel) -> Canceled:
        if call.call.agent and call.call.remote not in remotes:
            agent = await agents[call.context.agent].loaded()
            return await agent.cancel_remote(call) if isinstance(agent, CallsRemoteAgents) else Canceled.NEVER
        # Import late, because most processes cancel no call.
        from aion_core.delegation.cancel import cancel_remote_task

        async with remotes.client(call.call.remote) as client:
            return await cancel_remote_task(client, call, now=milliseconds(clock.now()))

    cancellations = RemoteCancellations(
        stores.tasks.remote_calls, cancel_remote, stores.tasks.note_unreached, stores.work_queue, clock
    )

    async def look_by_agent(context: ContextKey, task: TaskKey, call: AwaitedCall) -> Task:
        deployed = agents.get(context.agent)
        agent = await deployed.loaded() if deployed is not None else None
        stored = {each.key: each for each in await stores.tasks.remote_calls.of_task(task)}.get(call.key)
        if not isinstance(agent, CallsRemoteAgents) or stored is None:
            raise ConfigurationError(f"The agent {context.agent!r} does not make the call {call.key!r} any more.")
        return await agent.look_at_remote(context, task, stored)

    async def look(context: ContextKey, task: TaskKey, calls: Sequence[AwaitedCall]) -> bool:
        # Import late, because most processes await no call.
        from aion_core.delegation.looks import have_answers

        if environment.has_secrets:
            environment.refresh_if_due()
        found = remotes.client, stores.tasks.remote_calls, context, task, calls
        return await have_answers(*found, own_look=look_by_agent)

    worker = Worker(stores.tasks, runner, stores.work_queue, clock, cancellations, look)
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
