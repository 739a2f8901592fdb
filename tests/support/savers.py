"""Checkpoint savers for tests: over the memory table, and over DynamoDB on a database, each beside its task store."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import EndpointConnectionError

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import Clock
from aion_core.engine.admission import messages
from aion_core.engine.fenced_writes import Fence
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.task_store import TaskStore
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.protocol.types import Message, Part, Role
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.table.blobs import Blobs
from aion_core.table.keys import ContextKey
from aion_core.table.port import Table
from tests.support.clock import ManualClock
from tests.support.databases import ReachableStack
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore, dynamodb_store, new_owner, stack_blobs


class Savers:
    """Task store and checkpoint savers in one table. A checkpoint is refused if the turn's fence is outdated."""

    def __init__(self, tasks: TaskStore, table: Table, blobs: Blobs, clock: Clock) -> None:
        self.tasks, self.table, self.blobs, self._clock = tasks, table, blobs, clock

    def saver(self, **options: Any) -> TableSaver:
        return TableSaver(self.table, self.blobs, self._clock, **options)


def memory_savers(clock: Clock) -> Savers:
    tasks = MemoryTaskStore(clock, lease_seconds=LEASE_SECONDS)
    return Savers(tasks, tasks.table, MemoryBlobs(), clock)


class DynamoDBSavers(Savers):
    """Savers with their own `client`, so that a test may observe the client or inject failures."""

    def __init__(self, stack: ReachableStack, clock: Clock) -> None:
        self.table_name = stack.environment("ApiFunction")["AION_TABLE"]
        self.client = stack.client("dynamodb")
        table = DynamoDBTable(AwsClient("dynamodb", ThreadPoolExecutor(16), client=self.client), name=self.table_name)
        super().__init__(dynamodb_store(stack, clock), table, stack_blobs(stack), clock)


async def begin(tasks: TaskStore, clock: ManualClock) -> TurnStarted:
    """Begin a turn in a new context, with the lease of `holder-1`."""
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="hi")])
    new = messages.new_task(
        message,
        ContextKey(new_owner(), "echo", "c-1"),
        task_id="t-1",
        turn_id="turn-1",
        at=clock.now(),
        context_is_new=False,
    )
    outcome = await tasks.create(new, holder="holder-1")
    assert isinstance(outcome, TurnStarted)
    return outcome


async def taken_over(savers: Savers, clock: ManualClock, begun: TurnStarted) -> TurnStarted:
    """Expire the lease, and begin the turn as `holder-2`."""
    clock.move(LEASE_SECONDS + 1)
    taken = await savers.tasks.begin(begun.lease.context, holder="holder-2")
    assert isinstance(taken, TurnStarted)
    return taken


def fence_of(begun: TurnStarted) -> Fence:
    return Fence(begun.lease.context, begun.lease.fence)


class CuttableConnection:
    """Connection of a client to DynamoDB; a test can let it fail at any request, until `restart`."""

    def __init__(self, client: Any, *, cut_at: int | None = None, cut: Callable[[], None] | None = None) -> None:
        """Call `cut` in place of request `cut_at`, counted from 1, and of all later ones; by default `cut` raises."""
        self._cut = cut or _no_network
        self.restart(cut_at)
        client.meta.events.register("before-call.dynamodb", self._before_call)

    def restart(self, cut_at: int | None = None) -> None:
        """Repair the connection and forget its requests."""
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.is_cut, self._cut_at = False, cut_at

    @property
    def requests(self) -> Counter[str]:
        return Counter(operation for operation, _ in self.bodies)

    @property
    def writes(self) -> int:
        return sum(count for operation, count in self.requests.items() if operation != "Query")

    def _before_call(self, model: Any, params: Any, **_: Any) -> None:
        self.is_cut = self.is_cut or len(self.bodies) + 1 == self._cut_at
        if self.is_cut:
            self._cut()
        self.bodies.append((model.name, json.loads(params["body"])))


def _no_network() -> None:
    raise EndpointConnectionError(endpoint_url="http://nowhere")
