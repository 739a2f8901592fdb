"""Long-term memories to test with: in memory, and on DynamoDB on an engine, each beside its task store."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from aion_core.aws.client import Calls
from aion_core.aws.long_term_memory import DynamoDBLongTermMemory
from aion_core.memory.long_term_memory import MemoryLongTermMemory, MemoryRecords
from aion_core.ports import Clock, LongTermMemory, TaskStore
from tests.support.engines import Stack
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore, dynamodb_store


class Memories(Protocol):
    """A task store, and memories that write under its fences."""

    tasks: TaskStore

    def memory(self, **options: Any) -> LongTermMemory:
        """A memory of its own, as each turn has one, on items that all of them share."""


class MemoryMemories:
    def __init__(self, clock: Clock) -> None:
        self.tasks = MemoryTaskStore(clock, lease_seconds=LEASE_SECONDS)
        self._records, self._clock = MemoryRecords(), clock

    def memory(self, **options: Any) -> MemoryLongTermMemory:
        return MemoryLongTermMemory(self._records, self.tasks, self._clock, **options)


class DynamoDBMemories:
    """`client` is the memories' own: a test may listen to it or come between."""

    def __init__(self, stack: Stack, clock: Clock) -> None:
        self.tasks = dynamodb_store(stack, clock)
        self.table: str = stack.environment("ApiFunction")["AION_TABLE"]
        self.client = stack.client("dynamodb")
        self._dynamodb = Calls("dynamodb", ThreadPoolExecutor(16), client=self.client)
        self._clock = clock

    def memory(self, **options: Any) -> DynamoDBLongTermMemory:
        return DynamoDBLongTermMemory(self._dynamodb, self._clock, table=self.table, **options)
