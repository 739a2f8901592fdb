"""Number of DynamoDB requests of operations, counted by a botocore hook.

SubscribeToTask is absent, because its number grows with the time of the subscription: it reads the log again and again.
"""

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from a2a.types.a2a_pb2 import SendMessageConfiguration
from uuid_utils.compat import uuid7

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import SystemClock
from aion_core.engine.call import CallContext
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.queues import WakeUp
from aion_core.engine.records import Delta
from aion_core.engine.task import projection
from aion_core.engine.task_store import TaskStore
from aion_core.protocol.types import ListTasksRequest, Message, Part, Role, SendMessageRequest, Task, TaskState
from aion_core.table.keys import ContextKey
from tests.support.agents.counting import talking
from tests.support.agents.scripted import AskingAgent, GatedAgent
from tests.support.databases import Stack
from tests.support.service import parts, send_task
from tests.support.stores import new_owner, stack_blobs

READS = {"GetItem", "Query"}


class CountedStore:
    """Store that counts its DynamoDB requests, including retries."""

    def __init__(self, stack: Stack) -> None:
        self.requests: Counter[str] = Counter()
        client = stack.client("dynamodb")
        client.meta.events.register("before-send.dynamodb.*", self._count)
        calls = AwsClient("dynamodb", ThreadPoolExecutor(16), client=client)
        table = DynamoDBTable(calls, name=stack.environment("ApiFunction")["AION_TABLE"])
        self.table = table
        self.store = TaskStore(table, stack_blobs(stack), SystemClock())

    def _count(self, event_name: str, **_: object) -> None:
        self.requests[event_name.rpartition(".")[2]] += 1

    @property
    def writes(self) -> int:
        return sum(count for operation, count in self.requests.items() if operation not in READS)


def request(**message: Any) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(message_id=str(uuid7()), role=Role.ROLE_USER, parts=[Part(text="talk")], **message)
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("a_second", "at_most"),
    [
        pytest.param(0, 20, id="in one burst"),
        pytest.param(60, 75, id="60 chunks a second", marks=pytest.mark.deep),
    ],
)
async def test_streaming_thousand_chunks_makes_few_dynamodb_requests(
    stack: Stack, a_second: float, at_most: float
) -> None:
    counted = CountedStore(stack)
    service = parts(talking(1000, a_second), counted.store).service
    call = CallContext(new_owner(), "test")
    begun = time.monotonic()
    heard = [spoken.payload async for batch in service.stream(call, request()) for spoken in batch]
    # Allow more requests on a slow machine, because the service writes a batch of deltas at fixed intervals.
    seconds = time.monotonic() - begun
    at_most = max(at_most, at_most * seconds * a_second / 1000, 5 * seconds)
    print(f"1000 chunks, {a_second or 'all'} a second: {dict(counted.requests)}")
    # Do not count UpdateItem requests, because they only renew the lease, every ten seconds.
    assert counted.writes - counted.requests["UpdateItem"] <= at_most
    chunks = [what.text for what in heard if isinstance(what, Delta)]
    assert chunks == [*(f"word{number:04d} " for number in range(1000)), ""]
    task = await service.get(call, heard[0].id)  # type: ignore[union-attr]  # the first item is the task
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert not task.artifacts
    stored = projection.with_message_once(task)
    assert len(stored.SerializeToString()) < 2 * len("".join(chunks)), "the answer once, and no deltas"


async def test_streaming_hundred_chunks_costs_twelve_requests(stack: Stack) -> None:
    """Stream at 100 words a second: the twelve requests write the log and the chunks, and renew the lease."""
    counted = CountedStore(stack)
    service = parts(talking(100, 100), counted.store).service
    begun = time.monotonic()
    async for _ in service.stream(CallContext(new_owner(), "test"), request()):
        pass
    seconds = max(1.0, time.monotonic() - begun)
    print(f"100 chunks in {seconds:.1f} s: {dict(counted.requests)}")
    # Allow five more requests for each second after the first: in each second, a turn writes deltas four times and
    # checks its lease once.
    assert sum(counted.requests.values()) <= 12 + 5 * (seconds - 1)


@pytest.mark.parametrize(("context_id", "at_most"), [("", 2), ("given", 3)])
async def test_blocking_send_makes_at_most_three_dynamodb_requests(stack: Stack, context_id: str, at_most: int) -> None:
    counted = CountedStore(stack)
    service = parts(talking(1), counted.store).service
    begun = time.monotonic()
    task = await service.send(CallContext(new_owner(), "test"), request(context_id=context_id))
    # Allow one more request for each second, because the turn checks its lease each second.
    checks = int(time.monotonic() - begun)
    assert isinstance(task, Task)
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    deltas = counted.requests["PutItem"]
    assert sum(counted.requests.values()) - deltas <= at_most + checks


async def test_worker_without_turn_to_run_makes_at_most_two_requests(stack: Stack) -> None:
    """Wake a worker for a context that is unknown, idle or interrupted, or whose turn already runs."""
    counted = CountedStore(stack)
    made = parts(talking(1), counted.store)
    owner = new_owner()
    await made.service.send(CallContext(owner, "test"), request(context_id="rests"))
    agent = GatedAgent()
    # Use a separate counter for the running turn, because this turn checks its lease each second.
    held = parts(agent, CountedStore(stack).store)
    sending = asyncio.create_task(held.service.send(CallContext(owner, "test"), request(context_id="runs")))
    asks = parts(AskingAgent(), counted.store)
    await asks.service.send(CallContext(owner, "test"), request(context_id="asks"))
    await agent.spoke.wait()
    for context_id in ("unknown", "rests", "asks", "runs"):
        counted.requests.clear()
        await made.worker.handle(WakeUp(ContextKey(owner, "test", context_id)))
        assert sum(counted.requests.values()) <= 2, context_id
    agent.go.set()
    await sending


async def test_nonblocking_send_costs_one_request(stack: Stack) -> None:
    """One DynamoDB transaction stores the task. The wake-up message goes to SQS, so it does not count."""
    counted = CountedStore(stack)
    made = parts(talking(1), counted.store)
    made.work_queue.handled_by(_nobody)
    send = SendMessageRequest(
        message=request().message, configuration=SendMessageConfiguration(return_immediately=True)
    )
    await made.service.send(CallContext(new_owner(), "test"), send)
    assert sum(counted.requests.values()) == 1


async def _nobody(wake_up: WakeUp) -> None:
    """Do nothing."""


async def test_get_task_costs_one_query(stack: Stack) -> None:
    counted = CountedStore(stack)
    made, call = parts(talking(1), counted.store), CallContext(new_owner(), "test")
    task = await send_task(made.service, call, request())
    counted.requests.clear()
    await made.service.get(call, task.id)
    assert counted.requests == {"Query": 1}


@pytest.mark.parametrize(("page_size", "listed"), [(50, 3), (2, 2)])
async def test_page_of_tasks_costs_one_query_per_task_and_two(stack: Stack, page_size: int, listed: int) -> None:
    """Read the index, count the tasks, and load each task of the page. A process reads the tokens' secret only once."""
    counted = CountedStore(stack)
    made, call = parts(talking(1), counted.store), CallContext(new_owner(), "test")
    for _ in range(3):
        await send_task(made.service, call, request())
    task_list = TaskList(counted.table, SystemClock())
    await task_list.secret()
    counted.requests.clear()
    page = await TaskLister(counted.store, task_list).list_tasks(call, ListTasksRequest(page_size=page_size))
    assert len(page.tasks) == listed
    assert counted.requests == {"Query": 2 + listed}


async def test_cancellation_costs_one_transaction_and_three_reads(stack: Stack) -> None:
    """Cancel a task that waits for its client: read its head and its context, cancel it, and read it for the answer."""
    counted = CountedStore(stack)
    made, call = parts(AskingAgent(), counted.store), CallContext(new_owner(), "test")
    task = await send_task(made.service, call, request())
    counted.requests.clear()
    await made.service.cancel(call, task.id)
    assert counted.requests == {"GetItem": 2, "TransactWriteItems": 1, "Query": 1}


async def test_cancellation_of_running_task_costs_the_same(stack: Stack) -> None:
    counted, agent, call = CountedStore(stack), GatedAgent(), CallContext(new_owner(), "test")
    # Use a separate counter for the running turn, because this turn checks its lease each second.
    running = parts(agent, CountedStore(stack).store).service.stream(call, request())
    task = (await anext(running))[0].payload
    await agent.spoke.wait()
    canceled = await parts(agent, counted.store).service.cancel(call, task.id)  # type: ignore[union-attr]
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
    assert counted.requests == {"GetItem": 2, "TransactWriteItems": 1, "Query": 1}
    agent.go.set()
    async for _ in running:
        pass


async def test_event_cost_is_independent_of_task_length(stack: Stack) -> None:
    """Compare the first and the last of many event writes: no write contains the whole task, so none grows."""
    sizes: dict[int, int] = {}
    counted = CountedStore(stack)

    def measure(event_name: str, request: object, **_: object) -> None:
        body = getattr(request, "body", b"")
        if event_name.endswith("TransactWriteItems"):
            sizes[len(sizes)] = len(body)

    stored: Any = counted.store._table
    stored._calls._client.meta.events.register("before-send.dynamodb.*", measure)
    service = parts(talking(1), counted.store).service
    call = CallContext(new_owner(), "test")
    for _ in range(12):
        await service.send(call, request(context_id="one"))
    creates, appends = list(sizes.values())[0::2], list(sizes.values())[1::2]
    assert max(creates[1:]) - min(creates[1:]) < 64
    assert max(appends) - min(appends) < 64
