"""A message whose context is at work is never lost: it waits, is refused, or takes the place of what runs."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from aion_core.clock import SystemClock
from aion_core.errors import ContextBusy
from aion_core.ports import Log, TaskKey, WhenBusy
from aion_core.protocol.types import TaskState
from aion_core.tasks.call import CallContext
from tests.support.agents.scripted import Asking, LeaseHeld
from tests.support.requests import request
from tests.support.service import Parts, parts
from tests.support.stores import MemoryTaskStore

COMPLETED, CANCELED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED


async def running(policy: WhenBusy) -> tuple[Parts, LeaseHeld, CallContext, "asyncio.Task[object]", str]:
    """An agent at work on `one`, and the task of it."""
    agent = LeaseHeld()
    made = parts(agent, double_texting=policy, lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(made.service.send(call, request("one")))
    await agent.spoke.wait()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    return made, agent, call, sending, key.task_id


async def test_it_waits_and_is_answered_in_a_task_of_its_own() -> None:
    made, agent, call, first, _ = await running(WhenBusy.ENQUEUE)
    second = asyncio.create_task(made.service.send(call, request("two", message_id="m-2")))
    await asyncio.sleep(0.05)
    assert agent.asked == ["one"]
    agent.go.set()
    one, two = await first, await second
    assert one.id != two.id  # type: ignore[attr-defined]
    assert two.status.message.parts[0].text == "answer to two"


async def test_a_message_to_the_task_at_work_is_answered_in_it() -> None:
    """The task does not end before all that it was asked is answered."""
    made, agent, call, first, task_id = await running(WhenBusy.ENQUEUE)
    second = asyncio.create_task(made.service.send(call, request("two", message_id="m-2", task_id=task_id)))
    await asyncio.sleep(0.05)
    third = await made.service.send(call, request("three", message_id="m-3", task_id=task_id, return_immediately=True))
    assert third.id == task_id
    assert third.status.state == TaskState.TASK_STATE_WORKING
    agent.go.set()
    one, two = await first, await second
    assert one == two
    assert two.status.state == COMPLETED
    assert two.status.message.parts[0].text == "answer to three"
    said = [message.parts[0].text for message in two.history]
    assert said == ["one", "answer to one", "two", "answer to two", "three"]
    assert agent.asked == ["one", "two", "three"]


async def test_a_repeat_of_a_message_that_waits_is_one_message() -> None:
    """R52, D17."""
    made, agent, call, first, task_id = await running(WhenBusy.ENQUEUE)
    again = request("two", message_id="m-2", task_id=task_id)
    repeats = [asyncio.create_task(made.service.send(call, again)) for _ in range(3)]
    await asyncio.sleep(0.05)
    agent.go.set()
    await asyncio.gather(first, *repeats)
    assert agent.asked == ["one", "two"]


async def test_it_is_refused_and_nothing_is_left_of_it() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.REJECT)
    for refused in (request("two", message_id="m-2"), request("two", message_id="m-2", task_id=task_id)):
        with pytest.raises(ContextBusy):
            await made.service.send(call, refused)
    agent.go.set()
    await first
    again = await made.service.send(call, request("two", message_id="m-2"))
    assert again.status.message.parts[0].text == "answer to two", "the same message is welcome afterwards"


async def test_it_takes_the_place_of_the_task_that_runs() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.INTERRUPT)
    agent.spoke.clear()
    second = asyncio.create_task(made.service.send(call, request("two", message_id="m-2")))
    await agent.spoke.wait()
    agent.go.set()
    assert (await first).status.state == CANCELED  # type: ignore[attr-defined]
    assert (await second).status.message.parts[0].text == "answer to two"
    assert (await made.service.get(call, task_id)).status.message.parts[0].text == "Canceled by a newer message."


async def test_it_takes_the_place_of_the_turn_that_runs_in_the_same_task() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.INTERRUPT)
    agent.spoke.clear()
    second = asyncio.create_task(made.service.send(call, request("two", message_id="m-2", task_id=task_id)))
    await agent.spoke.wait()
    async with asyncio.timeout(10):
        while not agent.stopped:
            await asyncio.sleep(0.05)
    agent.go.set()
    one, two = await first, await second
    assert one == two
    assert two.status.state == COMPLETED
    assert [message.parts[0].text for message in two.history] == ["one", "two"]
    assert two.status.message.parts[0].text == "answer to two"
    assert agent.stopped == 1


async def test_a_message_that_names_no_task_makes_its_own_where_the_question_was_just_answered() -> None:
    """D17, section 3: it was about to be taken for an answer, and another message was faster."""

    class Slow(MemoryTaskStore):
        """Lets the other answer in, between the look at the context and the follow-up."""

        between: "Coroutine[Any, Any, object] | None" = None

        async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
            if (between := self.between) is not None:
                self.between = None
                await between
            return await super().log(key, after=after)

    store = Slow(SystemClock())
    made = parts(Asking(), store)
    call = CallContext("owner", "test")
    asking = await made.service.send(call, request("a"))
    store.between = made.service.send(CallContext("owner", "test"), request("yes", message_id="m-2", task_id=asking.id))
    other = await made.service.send(call, request("another thing", message_id="m-3"))
    assert other.id != asking.id
    assert (await made.service.get(call, asking.id)).status.message.parts[0].text == "yes it is"
