"""Task stores to test with: memory, and DynamoDB on the embedded stack."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aion_core.aws.blobs import S3Blobs
from aion_core.aws.client import Calls
from aion_core.aws.task_list import DynamoDBTaskList
from aion_core.aws.task_store import DynamoDBTaskStore
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Clock, PushBells, TaskStore
from aion_core.tasks.ringing import RingingStore
from tests.support.engines import Stack

LEASE_SECONDS = 30.0


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
