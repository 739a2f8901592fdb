"""Where a deployment keeps what has to last, and what wakes its functions: on AWS, or in memory."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from aion_core.ports import (
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
from aion_core.settings import Settings
from aion_core.tasks.ringing import RingingStore

if TYPE_CHECKING:
    from aion_core.agents.loader import AdapterFactory


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
    adapters: "Callable[[], Mapping[str, AdapterFactory]]"
    """Returns what makes an agent of a framework's object, by its kind; what that keeps lies where the tasks are."""
    api_keys: "Callable[[], ApiKeys]"
    rate_limits: "Callable[[], RateLimits]"
    """Return where the API keys are, and what counts how much each caller asks for: made where they are asked for."""
    push: Push | None
    """None where push notifications cannot be delivered."""


def build_stores(settings: Settings, clock: Clock) -> Stores:
    """Return the stores that the settings name."""
    return _memory_stores(settings, clock) if settings.store == "memory" else _aws_stores(settings, clock)


def _memory_stores(settings: Settings, clock: Clock) -> Stores:
    from aion_core.memory.push_configs import MemoryPushConfigs
    from aion_core.memory.queues import MemoryBells, MemoryPushBells
    from aion_core.memory.task_list import MemoryTaskList
    from aion_core.memory.task_store import MemoryTaskStore

    tasks = MemoryTaskStore(clock, lease_seconds=settings.lease_seconds)

    def adapters() -> "Mapping[str, AdapterFactory]":
        from aion_core.bootstrap.adapters import memory_adapters

        return memory_adapters(tasks, clock)

    def api_keys() -> ApiKeys:
        from aion_core.memory.api_keys import MemoryApiKeys

        return MemoryApiKeys(clock)

    def rate_limits() -> RateLimits:
        from aion_core.memory.limits import MemoryRateLimits

        return MemoryRateLimits(clock)

    push = Push(MemoryPushConfigs(tasks, clock, lease_seconds=settings.lease_seconds), MemoryPushBells(clock), True)
    return Stores(
        RingingStore(tasks, push.bells),
        MemoryBells(clock),
        MemoryTaskList(tasks),
        adapters,
        api_keys,
        rate_limits,
        push,
    )


def _aws_stores(settings: Settings, clock: Clock) -> Stores:
    from aion_core.aws.blobs import S3Blobs
    from aion_core.aws.client import Calls
    from aion_core.aws.queues import SQSBells, SQSPushBells
    from aion_core.aws.task_list import DynamoDBTaskList
    from aion_core.aws.task_store import DynamoDBTaskStore

    executor = ThreadPoolExecutor(settings.store_calls, thread_name_prefix="aws")
    timeout = settings.store_timeout
    dynamodb = Calls("dynamodb", executor, timeout=timeout)
    s3, sqs = Calls("s3", executor, timeout=timeout), Calls("sqs", executor, timeout=timeout)
    blobs = S3Blobs(s3, bucket=settings.bucket)
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
    push = None
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

    def adapters() -> "Mapping[str, AdapterFactory]":
        from aion_core.bootstrap.adapters import aws_adapters

        return aws_adapters(settings, tasks, dynamodb, s3, blobs, cipher, clock)

    def api_keys() -> ApiKeys:
        from aion_core.aws.api_keys import DynamoDBApiKeys

        return DynamoDBApiKeys(dynamodb, clock, table=settings.table)

    def rate_limits() -> RateLimits:
        from aion_core.aws.limits import DynamoDBRateLimits

        return DynamoDBRateLimits(dynamodb, clock, table=settings.table, retention=retention)

    bells = SQSBells(sqs, queue_url=settings.task_queue_url)
    task_list = DynamoDBTaskList(dynamodb, clock, table=settings.table)
    return Stores(tasks, bells, task_list, adapters, api_keys, rate_limits, push)


def _cipher(settings: Settings, executor: ThreadPoolExecutor, clock: Clock) -> Cipher | None:
    """Return what seals; None where no key is named."""
    if not settings.kms_key:
        return None
    from aion_core.aws.cipher import KMSCipher
    from aion_core.aws.client import Calls

    return KMSCipher(Calls("kms", executor, timeout=settings.store_timeout), clock, key=settings.kms_key)
