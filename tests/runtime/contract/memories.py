"""Long-term memories for tests: over the memory table, and over DynamoDB on a database, each beside its task store."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import Clock
from aion_core.engine.task_store import TaskStore
from aion_core.state.long_term_memory import LongTermMemory
from aion_core.table.port import Table
from tests.support.databases import Stack
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore, dynamodb_store


class Memories:
    """Task store and long-term memories in one table. A memory write is refused if the turn's fence is outdated."""

    def __init__(self, tasks: TaskStore, table: Table, clock: Clock) -> None:
        self.tasks, self.table, self._clock = tasks, table, clock

    def memory(self, **options: Any) -> LongTermMemory:
        """Return a long-term memory for one turn."""
        return LongTermMemory(self.table, self._clock, **options)


def memory_memories(clock: Clock) -> Memories:
    tasks = MemoryTaskStore(clock, lease_seconds=LEASE_SECONDS)
    return Memories(tasks, tasks.table, clock)


class DynamoDBMemories(Memories):
    """Memories with their own `client`, so that a test may observe the client or inject failures."""

    def __init__(self, stack: Stack, clock: Clock) -> None:
        self.table_name = stack.environment("ApiFunction")["AION_TABLE"]
        self.client = stack.client("dynamodb")
        table = DynamoDBTable(AwsClient("dynamodb", ThreadPoolExecutor(16), client=self.client), name=self.table_name)
        super().__init__(dynamodb_store(stack, clock), table, clock)
