"""Services for the operator's commands, built from the settings of a deployment."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from msgspec import Struct

from aion_core.auth.api_keys import ApiKeys
from aion_core.bootstrap.stores import QUEUES_FILE, build_resources, build_stores
from aion_core.clock import Clock, SystemClock
from aion_core.engine.agent import Agent
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.queues import PushQueue
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.service import TaskService
from aion_core.engine.task_store import TaskStore
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from aion_core.trace.store import TraceStore
from aion_tools.operator.dead_letters import DeadLetters
from aion_tools.operator.inspection import Inspection


class Operator(Struct, frozen=True):
    """Services for inspecting and cancelling a deployment's tasks."""

    clock: Clock
    tasks: TaskStore
    task_list: TaskList
    service: TaskService
    push_configs: PushConfigs | None
    """Clients' push configs; None for a deployment without push notifications."""
    inspection: Inspection
    traces: TraceStore
    """Recorded steps of turns, in the table of a development server; other tables have none."""


class PushOperator(Struct, frozen=True):
    """Services for inspecting a deployment's push notifications, without decrypting webhook credentials."""

    clock: Clock
    configs: PushConfigs
    queue: PushQueue | None
    """Queue of push deliveries; None if the settings name no queue, so that only the sweep finds due deliveries."""
    task_list: TaskList
    inspection: Inspection


def build_operator(settings: Settings) -> Operator:
    """Return the task services of the deployment named by the settings."""
    clock = SystemClock()
    stores = build_stores(settings, clock)
    worker = Worker(
        stores.tasks, TaskRunner(stores.tasks, _no_agent, clock, stores.work_queue), stores.work_queue, clock
    )
    service = TaskService(stores.tasks, worker, stores.work_queue, clock)
    configs = stores.push.configs if stores.push is not None else None
    inspection = Inspection(stores.resources.table, stores.resources.blobs, clock)
    traces = TraceStore(stores.resources.table, clock)
    return Operator(clock, stores.tasks, stores.task_list, service, configs, inspection, traces)


def build_push_operator(settings: Settings) -> PushOperator:
    """Return the push services of a deployment. Its table is the only required setting."""
    clock = SystemClock()
    resources = build_resources(settings, clock)
    table, retention = resources.table, timedelta(days=settings.retention_days)
    configs = PushConfigs(table, None, clock, retention=retention)
    inspection = Inspection(table, resources.blobs, clock)
    return PushOperator(clock, configs, resources.push_queue, TaskList(table, clock), inspection)


def build_dead_letters(settings: Settings, queue: str) -> DeadLetters:
    """Return the dead letters of the queue for turns (`task`) or for push notifications (`push`)."""
    if settings.store == "sqlite":
        from aion_core.local.sqlite.message_queue import open_queues
        from aion_tools.operator.sqlite_dead_letters import SQLiteDeadLetters

        return SQLiteDeadLetters(open_queues(settings.sqlite_folder / QUEUES_FILE), queue, SystemClock())
    from aion_core.aws.client import AwsClient
    from aion_tools.operator.sqs_dead_letters import READERS, SQSDeadLetters

    url = settings.task_queue_url if queue == "task" else settings.push_queue_url
    return SQSDeadLetters(AwsClient("sqs", ThreadPoolExecutor(READERS)), queue_url=url)


def build_keys(settings: Settings) -> ApiKeys:
    """Return the store of the deployment's API keys. The table is the only required setting."""
    clock = SystemClock()
    return ApiKeys(build_resources(settings, clock).table, clock)


def _no_agent(agent_id: str) -> Agent:
    """Raise ConfigurationError in place of loading an agent, because operator commands never run agents."""
    raise ConfigurationError(f"This process does not run the agent {agent_id!r}.")
