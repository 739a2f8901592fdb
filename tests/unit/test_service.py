"""Promises of the service under timeouts, foreign callers and lost leases."""

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
    """Streams a chunk, waits for `go`, and answers."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.spoke = asyncio.Event()

    def load(self) -> None:
        """Import nothing."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        yield Chunk("word", "call")
        self.spoke.set()
        await self.go.wait()
        yield Reply(Message(message_id="a", parts=[Part(text="answer")]))


def request(**configuration: Any) -> SendMessageRequest:
    message = Message(message_id="m-1", context_id="c", role=Role.ROLE_USER, parts=[Part(text="hi")])
    return SendMessageRequest(message=message, configuration=configuration)


async def test_return_immediately_returns_working_task() -> None:
    """The turn continues after the response."""
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


async def test_blocking_send_returns_current_task_after_wait() -> None:
    """After `blocking_wait`."""
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


async def test_task_requires_its_owner_and_agent() -> None:
    agent = LeaseHeld()
    agent.go.set()
    service = parts(agent).service
    task = await service.send(CallContext("owner", "test"), request())
    for stranger in (CallContext("other", "test"), CallContext("owner", "another")):
        with pytest.raises(TaskNotFound):
            await service.get(stranger, task.id)
        with pytest.raises(TaskNotFound):
            _ = [batch async for batch in service.subscribe(stranger, task.id)]


async def test_send_returns_end_of_another_holder() -> None:
    """The first holder is slow and loses its lease; its caller receives the recorded end of the task."""
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


async def test_stream_of_idle_task_ends() -> None:
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
    """Streaming without the card's capability, and a webhook without push notifications."""
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
async def test_message_without_json_form_is_refused(part: str) -> None:
    body = json.dumps(send()).replace('{"text": "hi"}', part)
    async with http(parts(LeaseHeld()).app()) as client:
        answer = await client.post("/", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["code"] == -32602
