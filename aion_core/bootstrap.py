"""The one place where parts meet: settings → adapters → services."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aion_core import log
from aion_core.agents.cards import extended_card, public_card
from aion_core.agents.config import AgentConfig, default_agent, read_config, read_limits
from aion_core.agents.loader import AdapterFactory, Found, LoadedAtFirstTurn
from aion_core.agents.security import declared_securities
from aion_core.auth import fronts
from aion_core.auth.declaration import Security
from aion_core.aws.queues import bell_of as bell_of
from aion_core.aws.queues import push_bell_of as push_bell_of
from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError
from aion_core.memory.queues import MemoryBells, MemoryPushBells
from aion_core.ports import (
    Agent,
    ApiKeys,
    Bells,
    Cipher,
    Clock,
    PushBells,
    PushConfigs,
    RateLimits,
    TaskList,
    TaskStore,
)
from aion_core.protocol.card import KEYS_PATH
from aion_core.protocol.types import AgentCard
from aion_core.settings import Settings
from aion_core.tasks.ringing import RingingStore
from aion_core.tasks.sweep import Sweep

if TYPE_CHECKING:
    from fastapi import FastAPI

    from aion_core.auth.guard import Guard
    from aion_core.protocol.keys import Key
    from aion_core.push.configs import PushRegistry
    from aion_core.push.delivery import PushDelivery
    from aion_core.push.guard import Allowed
    from aion_core.tasks.worker import Worker


def build_app(settings: Settings | None = None) -> "FastAPI":
    """Return the ASGI app with all it needs, made once per execution environment.

    Raises ConfigurationError that names the setting or the line of aion.yaml.
    """
    _before_all()
    from aion_core.tasks.conversations import Conversations
    from aion_core.tasks.listing import TaskLister
    from aion_core.tasks.service import TaskService
    from aion_core.web.app import Counted, Served
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
        replies={agent_id: config.reply for agent_id, config in engine.configs.items()},
    )
    key = card_key(settings)

    def signed(card: AgentCard) -> AgentCard:
        if key is None:
            return card
        from aion_core.protocol.signing import sign_card

        return sign_card(card, key)

    securities = who_may_call(engine.configs, settings)
    default = default_agent(engine.configs)
    served = {}
    for agent_id, config in engine.configs.items():
        security, at_root = securities.get(agent_id), agent_id == default
        delivers = engine.stores.push is not None and engine.stores.push.opens
        card = public_card(agent_id, config, settings.base_url, at_root=at_root, delivers=delivers, security=security)
        extended = extended_card(card, config, security)
        served[agent_id] = Served(engine.agents[agent_id], signed(card), signed(extended) if extended else None)
    limits = read_limits(settings.config)
    counted = Counted(limits, build_rate_limits(settings, engine.clock), engine.clock) if limits else None
    tasks = engine.stores.tasks, engine.stores.task_list
    lister, conversations = TaskLister(*tasks), Conversations(*tasks)
    return build_web_app(
        service,
        lister,
        conversations,
        served,
        default=default,
        keys=[key.shown()] if key else [],
        registry=_push_registry(settings, engine),
        guards=build_guards(securities, settings, engine.clock) if securities else None,
        loopback_only=not settings.auth,
        counted=counted,
    )


def _before_all() -> None:
    """Settle what libraries read as they are imported, and what is logged."""
    # Off unless tracing is on: the SDK's spans cost every request. It is read at the first a2a import.
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    # ADK puts each prompt and answer into its spans, unless it is told not to (R13).
    os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")
    log.install()


def _push_registry(settings: Settings, engine: "Engine") -> "PushRegistry | None":
    """Return what keeps push configs, where they can be delivered."""
    stores = engine.stores
    if stores.push is None or not stores.push.opens:
        return None
    from aion_core.push.configs import PushRegistry

    events = {agent_id: config.push.events for agent_id, config in engine.configs.items()}
    allowed = _allowed(settings)
    return PushRegistry(stores.push.configs, stores.push.bells, stores.tasks, stores.task_list, allowed, events=events)


def build_worker(settings: Settings | None = None) -> "Worker":
    """Return what answers bells with turns, made once per execution environment; raises as `build_app` does."""
    _before_all()
    return build_engine(settings or Settings.from_environ()).worker


def build_sweep(settings: Settings | None = None) -> Sweep:
    """Return what finds overdue work, made once per execution environment; it loads no agent and no framework."""
    _before_all()
    settings = settings or Settings.from_environ()
    stores = build_stores(settings, SystemClock())
    return Sweep(stores.tasks, stores.bells, *((stores.push.configs, stores.push.bells) if stores.push else ()))


def build_push(settings: Settings | None = None) -> "PushDelivery":
    """Return what delivers push notifications, made once per execution environment; it loads no agent and no framework.

    Raises ConfigurationError that names the setting.
    """
    _before_all()
    settings = settings or Settings.from_environ()
    clock = SystemClock()
    stores = build_stores(settings, clock)
    if stores.push is None or not stores.push.opens:
        missing = "AION_KMS_KEY" if settings.push_queue_url else "AION_PUSH_QUEUE_URL"
        raise ConfigurationError(f"The environment variable {missing} is missing, which push notifications need.")
    return _push_delivery(settings, stores.tasks, stores.push, clock)


def _push_delivery(settings: Settings, tasks: TaskStore, push: "Push", clock: Clock) -> "PushDelivery":
    from aion_core.push.client import PinnedWebhookClient
    from aion_core.push.delivery import PushDelivery
    from aion_core.push.posts import render

    webhooks = PinnedWebhookClient(_allowed(settings), clock)
    return PushDelivery(tasks, push.configs, push.bells, webhooks, render, clock)


def _allowed(settings: Settings) -> "Allowed":
    from aion_core.push.guard import Allowed

    return Allowed.beside(
        settings.base_url,
        http=settings.push_http,
        ports=settings.push_ports,
        hosts=settings.push_hosts,
        networks=settings.push_networks,
    )


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
        replies={agent_id: config.reply for agent_id, config in configs.items()},
        answers={agent_id: config.answer for agent_id, config in configs.items()},
    )
    worker = Worker(stores.tasks, runner, stores.bells, clock)
    if isinstance(stores.bells, MemoryBells):
        stores.bells.answered_by(worker.answer)
    if stores.push is not None and isinstance(stores.push.bells, MemoryPushBells):
        stores.push.bells.answered_by(_push_delivery(settings, stores.tasks, stores.push, clock).answer)
    return Engine(clock, configs, stores, agents, worker)


@dataclass(frozen=True, slots=True)
class Push:
    """Who is told of tasks, and what wakes those who tell them."""

    configs: PushConfigs
    bells: PushBells
    opens: bool
    """Whether this function has the key to what is sealed: one that only rings has not."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Where a deployment keeps what has to last."""

    tasks: TaskStore
    bells: Bells
    task_list: TaskList
    adapters: Mapping[str, AdapterFactory]
    """What makes an agent of a framework's object, by its kind; what the framework keeps lies where the tasks are."""
    push: Push | None
    """None where push notifications cannot be delivered."""


def build_agents(
    configs: Mapping[str, AgentConfig], folder: Path, adapters: Mapping[str, AdapterFactory]
) -> dict[str, Agent]:
    """Return the agents by their ids; their code is imported when it is needed."""
    return {agent_id: LoadedAtFirstTurn(agent_id, config, folder, adapters) for agent_id, config in configs.items()}


def build_stores(settings: Settings, clock: Clock) -> Stores:
    """Return the stores that the settings name."""
    return _memory_stores(settings, clock) if settings.store == "memory" else _aws_stores(settings, clock)


def _memory_stores(settings: Settings, clock: Clock) -> Stores:
    from aion_core.memory.push_configs import MemoryPushConfigs
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
        from aion_core.agents.adk.agent import AdkAgent
        from aion_core.checkpointing.turn import Fence
        from aion_core.memory.artifacts import MemoryArtifacts
        from aion_core.memory.sessions import MemorySessionRecords, MemorySessions

        records, artifacts = MemorySessionRecords(), MemoryArtifacts(clock)
        return AdkAgent(
            found.agent,
            lambda asked: MemorySessions(records, tasks, clock, fence=Fence(asked.context, asked.fence)),
            lambda asked: artifacts,
            name=config.name,
            resume=config.resume,
            configuration=config.configuration,
            module=found.module,
        )

    adapters: dict[str, AdapterFactory] = {
        "langgraph": langgraph,
        "adk": adk,
        "executor": _executor_adapter(tasks),
    }
    push = Push(MemoryPushConfigs(tasks, clock, lease_seconds=settings.lease_seconds), MemoryPushBells(clock), True)
    return Stores(RingingStore(tasks, push.bells), MemoryBells(clock), MemoryTaskList(tasks), adapters, push)


def _aws_stores(settings: Settings, clock: Clock) -> Stores:
    from aion_core.aws.blobs import S3Blobs
    from aion_core.aws.client import WORKERS, Calls
    from aion_core.aws.queues import SQSBells, SQSPushBells
    from aion_core.aws.task_list import DynamoDBTaskList
    from aion_core.aws.task_store import DynamoDBTaskStore

    executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="aws")
    dynamodb = Calls("dynamodb", executor)
    blobs = S3Blobs(Calls("s3", executor), bucket=settings.bucket)
    retention = timedelta(days=settings.retention_days)
    cipher = _cipher(settings, executor, clock)
    tasks: TaskStore = DynamoDBTaskStore(
        dynamodb,
        blobs,
        clock,
        table=settings.table,
        lease_seconds=settings.lease_seconds,
        retention=retention,
        cipher=cipher,
    )
    sqs, push = Calls("sqs", executor), None
    if settings.push_queue_url:
        from aion_core.aws.push_configs import DynamoDBPushConfigs

        configs = DynamoDBPushConfigs(
            dynamodb,
            cipher,
            clock,
            table=settings.table,
            lease_seconds=settings.lease_seconds,
            retention=retention,
        )
        push = Push(configs, SQSPushBells(sqs, queue_url=settings.push_queue_url), opens=cipher is not None)
        tasks = RingingStore(tasks, push.bells)

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

    def adk(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.adk.agent import AdkAgent
        from aion_core.aws.artifacts import S3Artifacts
        from aion_core.aws.sessions import DynamoDBSessions
        from aion_core.checkpointing.turn import Fence

        if cipher is None:
            raise ConfigurationError(
                "An ADK agent's sessions are sealed, and AION_KMS_KEY, the KMS key to seal them with, is missing."
            )
        artifacts = S3Artifacts(Calls("s3", executor), clock, bucket=settings.bucket)
        return AdkAgent(
            found.agent,
            lambda asked: DynamoDBSessions(
                dynamodb,
                blobs,
                cipher,
                clock,
                table=settings.table,
                fence=Fence(asked.context, asked.fence),
                retention=retention,
            ),
            lambda asked: artifacts,
            name=config.name,
            resume=config.resume,
            configuration=config.configuration,
            module=found.module,
        )

    bells = SQSBells(sqs, queue_url=settings.task_queue_url)
    adapters: dict[str, AdapterFactory] = {
        "langgraph": langgraph,
        "adk": adk,
        "executor": _executor_adapter(tasks),
    }
    return Stores(tasks, bells, DynamoDBTaskList(dynamodb, clock, table=settings.table), adapters, push)


def _cipher(settings: Settings, executor: ThreadPoolExecutor, clock: Clock) -> Cipher | None:
    """Return what seals; None where no key is named."""
    if not settings.kms_key:
        return None
    from aion_core.aws.cipher import KMSCipher
    from aion_core.aws.client import Calls

    return KMSCipher(Calls("kms", executor), clock, key=settings.kms_key)


def _executor_adapter(tasks: TaskStore) -> AdapterFactory:
    def executor(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.executor.agent import ExecutorAgent

        return ExecutorAgent(
            found.agent, tasks, name=config.name, resume=config.resume, configuration=config.configuration
        )

    return executor


def who_may_call(configs: Mapping[str, AgentConfig], settings: Settings) -> dict[str, Security]:
    """Return who may call each agent; {} where everybody may: on a developer's machine.

    Raises ConfigurationError where a deployment declares nothing, or what cannot be (R96).
    """
    if not settings.auth:
        return {}
    declared = declared_securities(configs)
    if not declared and settings.store == "memory":
        return {}
    return fronts.settled(declared, configs.keys(), settings.fronts)


def build_guards(securities: Mapping[str, Security], settings: Settings, clock: Clock) -> "dict[str, Guard]":
    """Return what admits callers to each agent; raises ConfigurationError that names what is missing for it."""
    from aion_core.auth.verifiers import build_guards as build

    return build(
        securities,
        clock=clock,
        api_keys=lambda: build_api_keys(settings, clock),
        users=lambda: basic_users(settings),
    )


def build_api_keys(settings: Settings, clock: Clock) -> ApiKeys:
    """Return where the API keys are."""
    if settings.store == "memory":
        from aion_core.memory.api_keys import MemoryApiKeys

        return MemoryApiKeys(clock)
    from aion_core.aws.api_keys import DynamoDBApiKeys
    from aion_core.aws.client import Calls

    return DynamoDBApiKeys(
        Calls("dynamodb", ThreadPoolExecutor(4, thread_name_prefix="keys")), clock, table=settings.table
    )


def build_rate_limits(settings: Settings, clock: Clock) -> RateLimits:
    """Return what counts how much each caller asks for."""
    if settings.store == "memory":
        from aion_core.memory.limits import MemoryRateLimits

        return MemoryRateLimits(clock)
    from aion_core.aws.client import Calls
    from aion_core.aws.limits import DynamoDBRateLimits

    dynamodb = Calls("dynamodb", ThreadPoolExecutor(4, thread_name_prefix="limits"))
    return DynamoDBRateLimits(dynamodb, clock, table=settings.table)


def basic_users(settings: Settings) -> dict[str, str]:
    """Return the users' hashes by their names; raises ConfigurationError that names where they lie."""
    from aion_core.auth.basic import users_in

    if not settings.basic_users_secret and not settings.basic_users_file:
        raise ConfigurationError(
            "aion.yaml declares HTTP Basic, and AION_BASIC_USERS_SECRET, which names the secret with the users, is missing."
        )
    where = "AION_BASIC_USERS_SECRET" if settings.basic_users_secret else "AION_BASIC_USERS_FILE"
    text, source = _secret_or_file(settings.basic_users_secret, settings.basic_users_file, where)
    return users_in(text, source)


def _secret_or_file(secret: str, file: str, variable: str) -> tuple[str, str]:
    """Return the text of the secret, or of the file where there is none, and what to call it.

    Raises ConfigurationError.
    """
    if secret:
        from aion_core.aws.client import Calls
        from aion_core.aws.secrets import read_secret

        with ThreadPoolExecutor(1) as executor:
            return read_secret(Calls("secretsmanager", executor), secret), f"the secret {secret} ({variable})"
    try:
        return Path(file).read_text(encoding="utf-8"), f"{file} ({variable})"
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} ({variable}) cannot be read: {error}.") from error


def card_key(settings: Settings) -> "Key | None":
    """Return the key that signs the cards, where there is one; raises ConfigurationError that names where it lies."""
    if not settings.card_key_file and not settings.card_key_secret:
        return None
    from aion_core.protocol.keys import signing_key

    where = "AION_CARD_KEY_SECRET" if settings.card_key_secret else "AION_CARD_KEY_FILE"
    text, source = _secret_or_file(settings.card_key_secret, settings.card_key_file, where)
    # Where nobody has put the public key elsewhere, this server shows it.
    url = settings.card_key_url or f"{settings.base_url}{KEYS_PATH}"
    return signing_key(text, source, key_id=settings.card_key_id, url=url)
