"""Cancellation of tasks in each state."""

import asyncio
from typing import Any

import pytest

from aion_core.clock import SystemClock
from aion_core.errors import TaskNotCancelable, TaskNotFound
from aion_core.ports import TaskKey
from aion_core.protocol.types import Task, TaskState
from aion_core.tasks.call import CallContext
from tests.support.agents.scripted import Asking, LeaseHeld, Stubborn
from tests.support.requests import request
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

CANCELED = TaskState.TASK_STATE_CANCELED
COMPLETED = TaskState.TASK_STATE_COMPLETED


async def task_id_of(store: Any) -> str:
    """Return the only task of the store."""
    (key,) = store.task_keys()
    return str(key.task_id)


async def test_cancel_of_running_task_stops_agent() -> None:
    agent = LeaseHeld()
    made = parts(agent, lease_seconds=3)
    sending = asyncio.create_task(made.service.send(CallContext("owner", "test"), request()))
    await agent.spoke.wait()
    elsewhere = CallContext("owner", "test")
    task = await made.service.cancel(elsewhere, await task_id_of(made.store))
    assert task.status.state == CANCELED
    assert task.status.message.parts[0].text == "Canceled."
    assert task.status.HasField("timestamp")
    answer = await asyncio.wait_for(sending, 10)
    assert answer.status.state == CANCELED, "who waited for the answer is told"
    assert agent.stopped == 1
    assert await made.service.get(elsewhere, task.id) == task, "nothing follows"


async def test_cancel_ignores_agent_that_keeps_running() -> None:
    agent = Stubborn()
    made = parts(agent, lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.service.send(call, request()))
    await agent.spoke.wait()
    task = await made.service.cancel(CallContext("owner", "test"), await task_id_of(made.store))
    assert (await asyncio.wait_for(sending, 15)).status.state == CANCELED
    agent.go.set()
    await asyncio.sleep(0.1)
    assert await made.service.get(call, task.id) == task


async def test_cancel_of_queued_task_prevents_its_turn() -> None:
    """It was returned as working, and never ran."""
    agent = LeaseHeld()
    made = parts(agent)
    call = CallContext("owner", "test")
    first = asyncio.create_task(made.service.send(call, request("one", message_id="m-1")))
    await agent.spoke.wait()
    waiting = await made.service.send(call, request("two", message_id="m-2", return_immediately=True))
    canceled = await made.service.cancel(call, waiting.id)
    assert canceled.status.state == CANCELED
    agent.go.set()
    assert (await first).status.state == COMPLETED, "the one that ran goes on under its lease"
    await made.work_queue.quiet()
    assert agent.asked == ["one"]


async def test_message_after_cancel_of_interrupted_task_starts_task() -> None:
    made = parts(Asking())
    call = CallContext("owner", "test")
    asking = await made.service.send(call, request("a"))
    assert asking.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert (await made.service.cancel(call, asking.id)).status.state == CANCELED
    again = await made.service.send(call, request("b", message_id="m-2"))
    assert again.id != asking.id
    assert again.status.state == TaskState.TASK_STATE_INPUT_REQUIRED


async def test_what_waits_behind_a_canceled_task_runs() -> None:
    agent = LeaseHeld()
    made = parts(agent, lease_seconds=3)
    call = CallContext("owner", "test")
    first = asyncio.create_task(made.service.send(call, request("one")))
    await agent.spoke.wait()
    second = await made.service.send(call, request("two", message_id="m-2", return_immediately=True))
    agent.spoke.clear()
    running = next(key.task_id for key in made.store.task_keys() if key.task_id != second.id)  # type: ignore[attr-defined]
    await made.service.cancel(call, running)
    await asyncio.wait_for(agent.spoke.wait(), 5)
    agent.go.set()
    assert (await first).status.state == CANCELED
    await made.work_queue.quiet()
    assert (await made.service.get(call, second.id)).status.state == COMPLETED


async def test_cancel_ten_times_succeeds_once() -> None:
    agent = LeaseHeld()
    made = parts(agent, lease_seconds=3)
    sending = asyncio.create_task(made.service.send(CallContext("owner", "test"), request()))
    await agent.spoke.wait()
    task_id = await task_id_of(made.store)
    answers = await asyncio.gather(
        *(made.service.cancel(CallContext("owner", "test"), task_id) for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(answer, Task) for answer in answers) == 1
    assert sum(isinstance(answer, TaskNotCancelable) for answer in answers) == 9
    await sending


async def test_cancel_requires_own_task_and_agent() -> None:
    agent = LeaseHeld()
    agent.go.set()
    made = parts(Asking())
    task = await made.service.send(CallContext("owner", "test"), request())
    for stranger in (CallContext("other", "test"), CallContext("owner", "another")):
        with pytest.raises(TaskNotFound):
            await made.service.cancel(stranger, task.id)
    head = await made.store.head(TaskKey("owner", task.id))
    assert head is not None
    assert head.state == TaskState.TASK_STATE_INPUT_REQUIRED


@pytest.mark.parametrize(("method", "get"), [("CancelTask", "GetTask"), ("tasks/cancel", "tasks/get")])
async def test_both_dialects_cancel(method: str, get: str) -> None:
    """A2A 3.1.5: TaskNotCancelable (-32002) for an ended task, TaskNotFound (-32001) for an unknown one."""
    clock = SystemClock()
    made = parts(Asking(), MemoryTaskStore(clock), clock)
    async with http(made.app()) as client:
        old = "/" in method
        asked = (await client.post("/", json=send(method="message/send" if old else "SendMessage"))).json()["result"]
        task_id = (asked if old else asked["task"])["id"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": task_id}}
        canceled = (await client.post("/", json=body)).json()["result"]
        assert canceled["status"]["state"] == ("canceled" if old else "TASK_STATE_CANCELED")
        again = (await client.post("/", json=body)).json()["error"]
        assert again["code"] == -32002
        got = (await client.post("/", json={**body, "method": get})).json()["result"]
        assert got == canceled
        body["params"] = {"id": "no-such-task"}
        assert (await client.post("/", json=body)).json()["error"]["code"] == -32001


async def test_stream_ends_with_cancellation() -> None:
    """The last event of the stream is the terminal status."""
    agent = LeaseHeld()
    made = parts(agent, lease_seconds=3)
    heard: list[Any] = []

    async def listen() -> None:
        async for batch in made.service.stream(CallContext("owner", "test"), request()):
            heard.extend(spoken.payload for spoken in batch)

    listening = asyncio.create_task(listen())
    await agent.spoke.wait()
    await made.service.cancel(CallContext("owner", "test"), await task_id_of(made.store))
    await asyncio.wait_for(listening, 10)
    assert heard[-1].status.state == CANCELED
