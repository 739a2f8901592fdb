"""Composition of the stores and queues of a deployment: on AWS, in SQLite files, or in memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from msgspec import Struct

from aion_core.auth.api_keys import ApiKeys
from aion_core.clock import Clock
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.queues import PushQueue, WorkQueue
from aion_core.engine.task_store import TaskStore
from aion_core.engine.wake_ups import CommitNotifier
from aion_core.loading.frameworks import AgentDependencies
from aion_core.settings import Settings
from aion_core.table.blobs import Blobs
from aion_core.table.cipher import Cipher
from aion_core.table.port import Table

TABLE_FILE, BLOBS_FILE, QUEUES_FILE, KEY_FILE = "table.db", "blobs.db", "queues.db", "key"
"""Files of the `sqlite` store. The key encrypts ADK sessions and push configs."""


class PushResources(Struct, frozen=True):
    """Store of push configs, and the queue of push deliveries."""

    configs: PushConfigs
    queue: PushQueue
    opens: bool
    """True if this Lambda function can decrypt push configs. A function that only enqueues deliveries cannot."""


class Resources(Struct, frozen=True):
    """Resources of a deployment, on AWS or local."""

    table: Table
    blobs: Blobs
    work_queue: WorkQueue
    push_queue: PushQueue | None
    """Queue of push deliveries; None without push notifications."""
    cipher: Cipher | None
    """Cipher for sessions and push configs; None without a key in the settings."""


class Stores(Struct, frozen=True):
    """Stores and queues of a deployment."""

    resources: Resources
    tasks: TaskStore
    work_queue: WorkQueue
    task_list: TaskList
    agents: AgentDependencies
    """Stores and services for agents, with their state in the same table."""
    api_keys: Callable[[], ApiKeys]
    rate_limits: Callable[[], RateLimits]
    """Created and imported on first use, like `api_keys`."""
    push: PushResources | None


def build_stores(settings: Settings, clock: Clock) -> Stores:
    """Return the stores of the deployment that the settings describe."""
    resources = build_resources(settings, clock)
    table, blobs, cipher, push_queue = resources.table, resources.blobs, resources.cipher, resources.push_queue
    lease_seconds, retention = settings.lease_seconds, timedelta(days=settings.retention_days)
    push = None
    if push_queue is not None:
        configs = PushConfigs(table, cipher, clock, lease_seconds=lease_seconds, retention=retention)
        push = PushResources(configs, push_queue, opens=cipher is not None)
    tasks = TaskStore(
        table,
        blobs,
        clock,
        lease_seconds=lease_seconds,
        retention=retention,
        cipher=cipher,
        notifier=CommitNotifier(push_queue),
    )

    def api_keys() -> ApiKeys:
        from aion_core.auth.api_keys import ApiKeys

        return ApiKeys(table, clock)

    def rate_limits() -> RateLimits:
        from aion_core.engine.limits.rate_limits import RateLimits

        return RateLimits(table, clock, retention=retention)

    task_list = TaskList(table, clock)
    agents = AgentDependencies(tasks, table, blobs, cipher, clock, retention)
    return Stores(resources, tasks, resources.work_queue, task_list, agents, api_keys, rate_limits, push)


def build_resources(settings: Settings, clock: Clock) -> Resources:
    """Return the table, blobs, queues and cipher of the deployment that the settings describe."""
    return {"dynamodb": _on_aws, "sqlite": _in_files, "memory": _in_memory}[settings.store](settings, clock)


def _on_aws(settings: Settings, clock: Clock) -> Resources:
    from aion_core.aws.blobs import S3Blobs
    from aion_core.aws.client import AwsClient
    from aion_core.aws.dynamodb_table import DynamoDBTable
    from aion_core.aws.queues import SQSPushQueue, SQSWorkQueue

    executor, timeout = ThreadPoolExecutor(settings.store_calls, thread_name_prefix="aws"), settings.store_timeout
    cipher = None
    if settings.kms_key:
        from aion_core.aws.cipher import KMSCipher

        cipher = KMSCipher(AwsClient("kms", executor, timeout=timeout), clock, key=settings.kms_key)
    sqs = AwsClient("sqs", executor, timeout=timeout)
    dynamodb = AwsClient("dynamodb", executor, timeout=timeout, table=settings.table)
    if settings.on_lambda:
        # Create the clients that every function needs in the init phase. Most need S3 and KMS rarely or never.
        dynamodb.open()
        sqs.open()
    return Resources(
        DynamoDBTable(dynamodb, name=settings.table),
        S3Blobs(AwsClient("s3", executor, timeout=timeout), bucket=settings.bucket),
        SQSWorkQueue(sqs, queue_url=settings.task_queue_url),
        SQSPushQueue(sqs, queue_url=settings.push_queue_url) if settings.push_queue_url else None,
        cipher,
    )


def _in_files(settings: Settings, clock: Clock) -> Resources:
    from aion_core.local.key_file import local_key
    from aion_core.local.memory.cipher import MemoryCipher
    from aion_core.local.sqlite.blobs import SQLiteBlobs
    from aion_core.local.sqlite.message_queue import SQLiteQueue, open_queues
    from aion_core.local.sqlite.queues import SQLitePushQueue, SQLiteWorkQueue
    from aion_core.local.sqlite.table import SQLiteTable

    folder = settings.sqlite_folder
    queues = open_queues(folder / QUEUES_FILE)
    return Resources(
        SQLiteTable(folder / TABLE_FILE, clock),
        SQLiteBlobs(folder / BLOBS_FILE, clock, retention=timedelta(days=settings.retention_days)),
        SQLiteWorkQueue(SQLiteQueue(queues, "task", clock), at_once=settings.turns_at_once),
        SQLitePushQueue(SQLiteQueue(queues, "push", clock)),
        MemoryCipher(local_key(folder / KEY_FILE)),
    )


def _in_memory(settings: Settings, clock: Clock) -> Resources:
    from aion_core.local.memory.blobs import MemoryBlobs
    from aion_core.local.memory.cipher import MemoryCipher
    from aion_core.local.memory.queues import MemoryPushQueue, MemoryWorkQueue
    from aion_core.local.memory.table import MemoryTable

    return Resources(MemoryTable(clock), MemoryBlobs(), MemoryWorkQueue(clock), MemoryPushQueue(clock), MemoryCipher())
