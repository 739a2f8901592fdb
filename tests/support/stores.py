"""Task stores for tests: over the memory table, and over DynamoDB on the embedded stack."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from aion_core.aws.blobs import S3Blobs
from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import Clock, SystemClock
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.task_store import TaskStore
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.memory.cipher import MemoryCipher
from aion_core.table import item, keys
from aion_core.table.keys import TaskKey
from aion_core.table.port import Table
from aion_tools.stack.stack import LocalStack
from tests.support.databases import ReachableStack
from tests.support.faulty_table import FaultyTable
from tests.support.strict import StrictTokens, refuse_empty_keys

LEASE_SECONDS = 30.0
_s3_clients: WeakKeyDictionary[ReachableStack, Any] = WeakKeyDictionary()
CIPHER = MemoryCipher()
"""Cipher of all stores in a test run, so that each store decrypts the content of another."""


class MemoryTaskStore(TaskStore):
    """Task store over its own memory table."""

    def __init__(self, clock: Clock, **options: Any) -> None:
        self.table, self.clock = FaultyTable(clock), clock
        super().__init__(self.table, MemoryBlobs(), clock, **{"cipher": CIPHER, **options})

    def task_keys(self) -> list[TaskKey]:
        """Return the keys of all tasks, in no guaranteed order."""
        found = map(item.key_of, self.table.items())
        return [keys.task_of(key) for key in found if key.partition.startswith(keys.TASKS) and key.sort == keys.HEAD]


class MemoryTaskList(TaskList):
    """Task lists in the table of a MemoryTaskStore."""

    def __init__(self, store: MemoryTaskStore) -> None:
        super().__init__(store.table, store.clock)


class MemoryPushConfigs(PushConfigs):
    """Push configs in the table of a MemoryTaskStore."""

    def __init__(self, store: MemoryTaskStore, clock: Clock, **options: Any) -> None:
        super().__init__(store.table, CIPHER, clock, **options)


def dynamodb_table(stack: ReachableStack, *, workers: int = 16, clock: Clock | None = None) -> DynamoDBTable:
    """Return the stack's table, in which each test has its own owners. On moto, tokens expire by `clock`."""
    client = stack.client("dynamodb")
    refuse_empty_keys(client)
    if isinstance(stack, LocalStack):
        StrictTokens(client, clock or SystemClock())
    calls = AwsClient("dynamodb", ThreadPoolExecutor(workers), client=client)
    return DynamoDBTable(calls, name=stack.environment("ApiFunction")["AION_TABLE"])


def stack_blobs(stack: ReachableStack) -> S3Blobs:
    """Return the stack's bucket; all stores share one client, whose creation takes 5 ms of CPU."""
    if stack not in _s3_clients:
        _s3_clients[stack] = stack.client("s3")
    calls = AwsClient("s3", ThreadPoolExecutor(16), client=_s3_clients[stack])
    return S3Blobs(calls, bucket=stack.environment("ApiFunction")["AION_BUCKET"])


def table_of(stack: ReachableStack | None, clock: Clock) -> Table:
    """Return the stack's table with a new client; without a stack a new table in memory."""
    return FaultyTable(clock) if stack is None else dynamodb_table(stack)


def store_of(table: Table, stack: ReachableStack | None, clock: Clock, **options: Any) -> TaskStore:
    """Return a task store over the table; its blobs are in the stack's bucket, or in memory."""
    blobs = MemoryBlobs() if stack is None else stack_blobs(stack)
    return TaskStore(table, blobs, clock, **{"lease_seconds": LEASE_SECONDS, "cipher": CIPHER, **options})


def dynamodb_store(stack: ReachableStack, clock: Clock, **options: Any) -> TaskStore:
    """Return a task store on the stack's table."""
    return store_of(dynamodb_table(stack), stack, clock, **options)


def dynamodb_list(stack: ReachableStack, clock: Clock) -> TaskList:
    """Return the task lists in the stack's table."""
    return TaskList(dynamodb_table(stack, workers=4), clock)


_owners = itertools.count()


def new_owner() -> str:
    """Return a new owner."""
    return f"owner-{next(_owners)}"
