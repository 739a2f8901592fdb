"""The stores and queues of a deployment: on AWS, or in memory."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from aion_core.ports import (
    ApiKeys,
    Bells,
    Blobs,
    Cipher,
    Clock,
    PushBells,
    PushConfigs,
    RateLimits,
    TaskList,
    TaskStore,
)
from aion_core.ports.table import Table
from aion_core.settings import Settings
from aion_core.tasks.notifications import CommitNotifier

if TYPE_CHECKING:
    from aion_core.agents.loader import AdapterFactory


@dataclass(frozen=True, slots=True)
class Push:
    """The push configs, and the queue of wake-up messages for their delivery."""

    configs: PushConfigs
    bells: PushBells
    opens: bool
    """True if this function has the key to encrypted configs: one that only enqueues has not."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of a deployment."""

    tasks: TaskStore
    bells: Bells
    task_list: TaskList
    adapters: "Callable[[], Mapping[str, AdapterFactory]]"
    """Returns the adapters that make agents of a framework's objects, by their kind."""
    api_keys: "Callable[[], ApiKeys]"
    rate_limits: "Callable[[], RateLimits]"
    """Return the API keys and the rate limits: made where they are needed."""
    push: Push | None
    """None if push notifications cannot be delivered."""


def build_stores(settings: Settings, clock: Clock) -> Stores:
    """Return the stores that the settings name."""
    if settings.store == "memory":
        from aion_core.memory.blobs import MemoryBlobs
        from aion_core.memory.cipher import MemoryCipher
        from aion_core.memory.queues import MemoryBells, MemoryPushBells
        from aion_core.memory.table import MemoryTable

        return _stores(
            settings,
            clock,
            MemoryTable(clock),
            MemoryBlobs(),
            MemoryCipher(),
            MemoryBells(clock),
            MemoryPushBells(clock),
        )
    from aion_core.aws.blobs import S3Blobs
    from aion_core.aws.client import Calls
    from aion_core.aws.dynamodb_table import DynamoDBTable
    from aion_core.aws.queues import SQSBells, SQSPushBells

    executor = ThreadPoolExecutor(settings.store_calls, thread_name_prefix="aws")
    calls = {name: Calls(name, executor, timeout=settings.store_timeout) for name in ("dynamodb", "s3", "sqs")}
    queue_url = settings.push_queue_url
    return _stores(
        settings,
        clock,
        DynamoDBTable(calls["dynamodb"], name=settings.table),
        S3Blobs(calls["s3"], bucket=settings.bucket),
        _cipher(settings, executor, clock),
        SQSBells(calls["sqs"], queue_url=settings.task_queue_url),
        SQSPushBells(calls["sqs"], queue_url=queue_url) if queue_url else None,
    )


def _stores(
    settings: Settings,
    clock: Clock,
    table: Table,
    blobs: Blobs,
    cipher: Cipher | None,
    bells: Bells,
    push_bells: PushBells | None,
) -> Stores:
    """Return the stores over the table; without `push_bells` no push notification is delivered."""
    from aion_core.stores.push_configs import TablePushConfigs
    from aion_core.stores.task_list import TableTaskList
    from aion_core.stores.task_store import TableTaskStore

    lease_seconds, retention = settings.lease_seconds, timedelta(days=settings.retention_days)
    tasks = TableTaskStore(
        table,
        blobs,
        clock,
        lease_seconds=lease_seconds,
        retention=retention,
        cipher=cipher,
        notifier=CommitNotifier(push_bells),
    )
    push = None
    if push_bells is not None:
        configs = TablePushConfigs(table, cipher, clock, lease_seconds=lease_seconds, retention=retention)
        push = Push(configs, push_bells, opens=cipher is not None)

    def adapters() -> "Mapping[str, AdapterFactory]":
        from aion_core.bootstrap.adapters import build_adapters

        return build_adapters(tasks, table, blobs, cipher, clock, retention=retention)

    def api_keys() -> ApiKeys:
        from aion_core.stores.api_keys import TableApiKeys

        return TableApiKeys(table, clock)

    def rate_limits() -> RateLimits:
        from aion_core.stores.limits import TableRateLimits

        return TableRateLimits(table, clock, retention=retention)

    return Stores(tasks, bells, TableTaskList(table, clock), adapters, api_keys, rate_limits, push)


def _cipher(settings: Settings, executor: ThreadPoolExecutor, clock: Clock) -> Cipher | None:
    """Return the cipher, None without a key."""
    if not settings.kms_key:
        return None
    from aion_core.aws.cipher import KMSCipher
    from aion_core.aws.client import Calls

    return KMSCipher(Calls("kms", executor, timeout=settings.store_timeout), clock, key=settings.kms_key)
