"""Tables and task stores to test with: in memory, and in DynamoDB on a stack."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aion_core.aws.blobs import S3Blobs
from aion_core.aws.client import Calls
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.aws.task_list import DynamoDBTaskList
from aion_core.aws.task_store import DynamoDBTaskStore
from aion_core.memory.blobs import MemoryBlobs
from aion_core.memory.table import MemoryTable
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Blobs, Clock, PushBells, TaskStore
from aion_core.ports.table import Table
from aion_core.stores.task_store import TableTaskStore
from aion_core.tasks.ringing import RingingStore
from tests.support.engines import Stack

LEASE_SECONDS = 30.0


def table_of(stack: Stack | None, clock: Clock) -> Table:
    """The stack's table, over a client of its own; without a stack a new table in memory."""
    if stack is None:
        return MemoryTable(clock)
    dynamodb = Calls("dynamodb", ThreadPoolExecutor(16), client=stack.client("dynamodb"))
    return DynamoDBTable(dynamodb, name=stack.environment("ApiFunction")["AION_TABLE"])


def task_store(table: Table, clock: Clock, *, stack: Stack | None = None, **options: Any) -> TableTaskStore:
    """A task store over the table; its blobs are in the stack's bucket, or in memory."""
    blobs: Blobs = MemoryBlobs()
    if stack is not None:
        s3 = Calls("s3", ThreadPoolExecutor(16), client=stack.client("s3"))
        blobs = S3Blobs(s3, bucket=stack.environment("ApiFunction")["AION_BUCKET"])
    return TableTaskStore(table, blobs, clock, **{"lease_seconds": LEASE_SECONDS, **options})


def dynamodb_store(stack: Stack, clock: Clock, **options: Any) -> DynamoDBTaskStore:
    """A store on the stack's table; the tests keep apart by their owners."""
    executor = ThreadPoolExecutor(16)
    environment = stack.environment("ApiFunction")
    return DynamoDBTaskStore(
        Calls("dynamodb", executor, client=stack.client("dynamodb")),
        S3Blobs(Calls("s3", executor, client=stack.client("s3")), bucket=environment["AION_BUCKET"]),
        clock,
        table=environment["AION_TABLE"],
        **{"lease_seconds": LEASE_SECONDS, **options},
    )


def memory_store(clock: Clock, **options: Any) -> MemoryTaskStore:
    """A task store in memory."""
    return MemoryTaskStore(clock, **options)


def notifying_store(clock: Clock, bells: PushBells) -> TaskStore:
    """A task store in memory that wakes push delivery after each commit."""
    return RingingStore(memory_store(clock), bells)


def dynamodb_list(stack: Stack, clock: Clock) -> DynamoDBTaskList:
    """The lists of the tasks in the stack's table."""
    dynamodb = Calls("dynamodb", ThreadPoolExecutor(4), client=stack.client("dynamodb"))
    return DynamoDBTaskList(dynamodb, clock, table=stack.environment("ApiFunction")["AION_TABLE"])


_owners = itertools.count()


def new_owner() -> str:
    """An owner that no other test has."""
    return f"owner-{next(_owners)}"
