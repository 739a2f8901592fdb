"""What the service promises its callers beyond the happy way."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from aion_core.errors import TaskNotFound
from aion_core.ports import Chunk, Cursor, Emission, Reply, TaskKey, TurnRequest, TurnStarted
from aion_core.ports.table import Change, Update
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest, TaskState, TaskStatusUpdateEvent
from aion_core.stores.keys import context_key
from aion_core.tasks import lifecycle, subscription
from aion_core.tasks.call import CallContext
from aion_core.tasks.subscription import SharedReads
from tests.support.clock import ManualClock
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore


class LeaseHeld:
    """Speaks a word, waits to be let go, and answers."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.spoke = asyncio.Event()

    def load(self) -> None:
        """Nothing to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("word", "call")
        self.spoke.set()
        await self.go.wait()
        yield Reply(Message(message_id="a", parts=[Part(text="answer")]))


def request(**configuration: Any) -> SendMessageRequest:
    message = Message(message_id="m-1", context_id="c", role=Role.ROLE_USER, parts=[Part(text="hi")])
    return SendMessageRequest(message=message, configuration=configuration)


async def test_a_send_that_does_not_wait_answers_working_and_runs_on() -> None:
    """R21, D12."""
    agent = LeaseHeld()
    made = parts(agent)
    service = made.service
    call = CallContext("owner", "test")
    task = await service.send(call, request(return_immediately=True))
    assert task.status.state == TaskState.TASK_STATE_WORKING
    assert not call.background, "another function runs it"
    agent.go.set()
    await made.work_queue.quiet()
    assert (await service.get(call, task.id)).status.state == TaskState.TASK_STATE_COMPLETED


async def test_a_send_that_waits_long_enough_answers_with_the_task_as_it_stands() -> None:
    """R20: `blocking_wait`."""
    agent, clock = LeaseHeld(), ManualClock()
    service = parts(agent, clock=clock).service
    call = CallContext("owner", "test")
    sending = asyncio.create_task(service.send(call, request()))
    await agent.spoke.wait()
    clock.move(239)
    await asyncio.sleep(0)
    assert not sending.done()
    clock.move(2)
    assert (await sending).status.state == TaskState.TASK_STATE_WORKING
    agent.go.set()
    await asyncio.wait(call.background)


async def test_a_task_is_known_to_its_owner_and_its_agent_only() -> None:
    agent = LeaseHeld()
    agent.go.set()
    service = parts(agent).service
    task = await service.send(CallContext("owner", "test"), request())
    for stranger in (CallContext("other", "test"), CallContext("owner", "another")):
        with pytest.raises(TaskNotFound):
            await service.get(stranger, task.id)
        with pytest.raises(TaskNotFound):
            _ = [batch async for batch in service.subscribe(stranger, task.id)]


async def test_an_answer_is_the_logs_where_another_holder_has_ended_the_turn() -> None:
    """The first holder is slow, loses its lease, and its caller is told how the task really ended."""
    clock = ManualClock()
    store = MemoryTaskStore(clock, lease_seconds=30)
    agent = LeaseHeld()
    service = parts(agent, store, clock, lease_seconds=0.03).service
    call = CallContext("owner", "test")
    sending = asyncio.create_task(service.send(call, request()))
    await agent.spoke.wait()
    (key,) = store.task_keys()
    head = await store.head(key)
    assert head is not None
    context = head.context
    await store.table.write(Update(context_key(context), Change({"until": 0})))
    heir = await store.begin(context, holder="heir")
    assert isinstance(heir, TurnStarted)
    status = lifecycle.status_at(TaskState.TASK_STATE_COMPLETED, clock.now())
    status.message.CopyFrom(Message(message_id="heirs", parts=[Part(text="by the heir")]))
    await store.finish(heir.lease, heir.head, TaskStatusUpdateEvent(status=status))
    for _ in range(200):
        clock.move(0.3)
        await asyncio.sleep(0.005)
        if sending.done():
            break
    task = await sending
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert task.status.message.parts[0].text == "by the heir"


async def test_a_reader_of_a_task_that_says_nothing_is_let_go() -> None:
    clock = ManualClock()
    store = MemoryTaskStore(clock)
    service = parts(LeaseHeld(), store, clock).service
    call = CallContext("owner", "test")
    task = await service.send(call, request(return_immediately=True))

    async def read() -> None:
        async for _ in subscription.tail(SharedReads(store, clock), TaskKey("owner", task.id), clock, after=Cursor()):
            pass

    reading = asyncio.create_task(read())
    for _ in range(600):
        clock.move(1)
        for _ in range(8):
            await asyncio.sleep(0)
        if reading.done():
            break
    assert reading.done()
    for work in call.background:
        work.cancel()


async def test_what_is_not_offered_is_refused() -> None:
    """R3, R95: streaming that the card does not offer, a webhook that nobody would call."""
    made = parts(LeaseHeld())
    made.streaming = False
    async with http(made.app()) as client:
        for method in ("SendStreamingMessage", "message/stream"):
            assert (await client.post("/", json=send(method=method))).json()["error"]["code"] == -32004
        body = send()
        body["params"]["configuration"] = {"taskPushNotificationConfig": {"url": "https://x.test/"}}
        assert (await client.post("/", json=body)).json()["error"]["code"] == -32003


@pytest.mark.parametrize(
    "part",
    ['{"data": {"x": 1e999}}', '{"text": "x", "metadata": {"x": -1e999}}', '{"raw": "!!!"}', '{"raw": "A"}'],
)
async def test_what_could_not_be_told_again_is_not_taken(part: str) -> None:
    body = json.dumps(send()).replace('{"text": "hi"}', part)
    async with http(parts(LeaseHeld()).app()) as client:
        answer = await client.post("/", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["code"] == -32602
