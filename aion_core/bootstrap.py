"""The one place where parts meet: settings → adapters → services."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aion_core.agents.config import AgentConfig, read_config
from aion_core.agents.loader import AdapterFactory, Found, LoadedAtFirstTurn
from aion_core.aws.queues import bell_of as bell_of
from aion_core.clock import SystemClock
from aion_core.memory.queues import MemoryBells
from aion_core.ports import Agent, Bells, Clock, TaskList, TaskStore
from aion_core.protocol.card import build_card
from aion_core.protocol.types import AgentCard, AgentSkill
from aion_core.settings import Settings
from aion_core.tasks.sweep import Sweep

if TYPE_CHECKING:
    from fastapi import FastAPI

    from aion_core.tasks.worker import Worker


def build_app(settings: Settings | None = None) -> "FastAPI":
    """Return the ASGI app with all it needs, made once per execution environment.

    Raises ConfigurationError that names the setting or the line of aion.yaml.
    """
    # Off unless tracing is on: the SDK's spans cost every request. It is read at the first a2a import.
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    from aion_core.tasks.listing import TaskLister
    from aion_core.tasks.service import TaskService
    from aion_core.web.app import Served
    from aion_core.web.app import build_app as build_web_app

    settings = settings or Settings.from_environ()
    engine = build_engine(settings)
    service = TaskService(
        engine.stores.tasks,
        engine.worker,
        engine.stores.bells,
        engine.clock,
        blocking_wait=settings.blocking_wait,
        double_texting={agent_id: config.double_texting for agent_id, config in engine.configs.items()},
    )
    served = {
        agent_id: Served(engine.agents[agent_id], _card(agent_id, config, settings.base_url, at_root=position == 0))
        for position, (agent_id, config) in enumerate(engine.configs.items())
    }
    return build_web_app(service, TaskLister(engine.stores.tasks, engine.stores.task_list), served)


def build_worker(settings: Settings | None = None) -> "Worker":
    """Return what answers bells with turns, made once per execution environment; raises as `build_app` does."""
    return build_engine(settings or Settings.from_environ()).worker


def build_sweep(settings: Settings | None = None) -> Sweep:
    """Return what finds overdue work, made once per execution environment; it loads no agent and no framework."""
    settings = settings or Settings.from_environ()
    stores = build_stores(settings, SystemClock())
    return Sweep(stores.tasks, stores.bells)


@dataclass(frozen=True, slots=True)
class Engine:
    """What runs turns, in whichever function."""

    clock: Clock
    configs: Mapping[str, AgentConfig]
    stores: "Stores"
    agents: Mapping[str, Agent]
    worker: "Worker"


def build_engine(settings: Settings) -> Engine:
    """Return what runs turns; raises ConfigurationError that names the setting or the line of aion.yaml."""
    from aion_core.tasks.history import ContextHistory
    from aion_core.tasks.runner import TaskRunner
    from aion_core.tasks.worker import Worker

    configs = read_config(settings.config)
    clock = SystemClock()
    stores = build_stores(settings, clock)
    agents = build_agents(configs, settings.config.resolve().parent, stores.adapters)
    runner = TaskRunner(
        stores.tasks,
        agents.__getitem__,
        clock,
        stores.bells,
        lease_seconds=settings.lease_seconds,
        max_tries=settings.max_tries,
        reveal_errors=settings.reveal_errors,
        history=ContextHistory(stores.tasks, stores.task_list).of,
    )
    worker = Worker(stores.tasks, runner, stores.bells, clock)
    if isinstance(stores.bells, MemoryBells):
        stores.bells.answered_by(worker.answer)
    return Engine(clock, configs, stores, agents, worker)


@dataclass(frozen=True, slots=True)
class Stores:
    """Where a deployment keeps what has to last."""

    tasks: TaskStore
    bells: Bells
    task_list: TaskList
    adapters: Mapping[str, AdapterFactory]
    """What makes an agent of a framework's object, by its kind; what the framework keeps lies where the tasks are."""


def build_agents(
    configs: Mapping[str, AgentConfig], folder: Path, adapters: Mapping[str, AdapterFactory]
) -> dict[str, Agent]:
    """Return the agents by their ids; their code is imported when it is needed."""
    return {agent_id: LoadedAtFirstTurn(agent_id, config, folder, adapters) for agent_id, config in configs.items()}


def build_stores(settings: Settings, clock: Clock) -> Stores:
    """Return the stores that the settings name."""
    return _memory_stores(settings, clock) if settings.store == "memory" else _aws_stores(settings, clock)


def _memory_stores(settings: Settings, clock: Clock) -> Stores:
    from aion_core.memory.task_list import MemoryTaskList
    from aion_core.memory.task_store import MemoryTaskStore

    tasks = MemoryTaskStore(clock, lease_seconds=settings.lease_seconds)

    def langgraph(found: Found, config: AgentConfig) -> Agent:
        from langgraph.checkpoint.memory import InMemorySaver

        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_core.checkpointing.turn import Fence
        from aion_core.memory.checkpoints import MemorySaver

        threads = InMemorySaver()
        return LangGraphAgent(
            found.agent,
            lambda asked, before_put, types: MemorySaver(
                threads, tasks, fence=Fence(asked.context, asked.fence), before_put=before_put, types=types
            ),
            name=config.name,
            configuration=config.configuration,
            module=found.module,
        )

    def adk(found: Found, config: AgentConfig) -> Agent:
        from google.adk.artifacts import InMemoryArtifactService
        from google.adk.sessions import InMemorySessionService

        from aion_core.agents.adk.agent import AdkAgent

        sessions, artifacts = InMemorySessionService(), InMemoryArtifactService()
        return AdkAgent(
            found.agent, lambda asked: sessions, lambda asked: artifacts, name=config.name, resume=config.resume
        )

    adapters: dict[str, AdapterFactory] = {"langgraph": langgraph, "adk": adk}
    return Stores(tasks, MemoryBells(clock), MemoryTaskList(tasks), adapters)


def _aws_stores(settings: Settings, clock: Clock) -> Stores:
    from aion_core.aws.blobs import S3Blobs
    from aion_core.aws.client import WORKERS, Calls
    from aion_core.aws.queues import SQSBells
    from aion_core.aws.task_list import DynamoDBTaskList
    from aion_core.aws.task_store import DynamoDBTaskStore

    executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="aws")
    dynamodb = Calls("dynamodb", executor)
    blobs = S3Blobs(Calls("s3", executor), bucket=settings.bucket)
    retention = timedelta(days=settings.retention_days)
    tasks = DynamoDBTaskStore(
        dynamodb, blobs, clock, table=settings.table, lease_seconds=settings.lease_seconds, retention=retention
    )

    def langgraph(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_core.aws.checkpoints import DynamoDBSaver
        from aion_core.checkpointing.turn import Fence

        return LangGraphAgent(
            found.agent,
            lambda asked, before_put, types: DynamoDBSaver(
                dynamodb,
                blobs,
                clock,
                table=settings.table,
                fence=Fence(asked.context, asked.fence),
                before_put=before_put,
                retention=retention,
                types=types,
            ),
            name=config.name,
            configuration=config.configuration,
            module=found.module,
        )

    bells = SQSBells(Calls("sqs", executor), queue_url=settings.task_queue_url)
    return Stores(tasks, bells, DynamoDBTaskList(dynamodb, clock, table=settings.table), {"langgraph": langgraph})


def _card(agent_id: str, config: AgentConfig, base_url: str, *, at_root: bool) -> AgentCard:
    return build_card(
        name=config.name or agent_id,
        description=config.description,
        version=config.version,
        url=f"{base_url}/" if at_root else f"{base_url}/agents/{agent_id}/",
        streaming=config.capabilities.streaming,
        skills=[AgentSkill(**skill.model_dump()) for skill in config.skills],
        input_modes=config.input_modes,
        output_modes=config.output_modes,
    )
