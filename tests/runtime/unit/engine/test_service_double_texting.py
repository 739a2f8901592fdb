"""Messages to a busy context: queued, refused, or replacing the running turn."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from aion_core.clock import SystemClock
from aion_core.engine.agent import Emission, TurnRequest
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.call import CallContext
from aion_core.engine.records import Log
from aion_core.errors import ContextBusy, InputNotRequired
from aion_core.protocol.types import TaskState
from aion_core.table.keys import TaskKey
from tests.support.agents.scripted import AskingAgent, GatedAgent
from tests.support.clock import settle
from tests.support.histories import messages_of
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import ServiceParts, parts, send_task
from tests.support.stores import MemoryTaskStore

COMPLETED, CANCELED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED


async def running(policy: WhenBusy) -> tuple[ServiceParts, GatedAgent, CallContext, "asyncio.Task[object]", str]:
    """Start the turn of message `one`; return the service, its agent, the call, the pending send, and the task's id."""
    agent = GatedAgent()
    made = parts(agent, double_texting=policy, lease_seconds=3)
    call = CallContext("owner", "test")
    sending = asyncio.create_task(send_task(made.service, call, request("one")))
    await agent.spoke.wait()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    return made, agent, call, sending, key.task_id


async def test_queued_message_gets_its_own_task() -> None:
    made, agent, call, first, _ = await running(WhenBusy.ENQUEUE)
    second = asyncio.create_task(send_task(made.service, call, request("two", message_id="m-2")))
    await settle()
    assert agent.asked == ["one"]
    agent.go.set()
    one, two = await first, await second
    assert one.id != two.id  # type: ignore[attr-defined]
    assert two.status.message.parts[0].text == "answer to two"


async def test_message_to_running_task_is_answered_in_that_task() -> None:
    """Send a second message to a running task: the task ends only after both answers."""
    made, agent, call, first, task_id = await running(WhenBusy.ENQUEUE)
    second = asyncio.create_task(send_task(made.service, call, request("two", message_id="m-2", task_id=task_id)))
    await settle()
    third = await send_task(
        made.service, call, request("three", message_id="m-3", task_id=task_id, return_immediately=True)
    )
    assert third.id == task_id
    assert third.status.state == TaskState.TASK_STATE_WORKING
    agent.go.set()
    one, two = await first, await second
    assert one == two
    assert two.status.state == COMPLETED
    assert two.status.message.parts[0].text == "answer to three"
    said = [message.parts[0].text for message in messages_of(two)]
    assert said == ["one", "answer to one", "two", "answer to two", "three", "answer to three"]
    assert agent.asked == ["one", "two", "three"]


async def test_repeated_queued_message_runs_once() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.ENQUEUE)
    again = request("two", message_id="m-2", task_id=task_id)
    repeats = [asyncio.create_task(send_task(made.service, call, again)) for _ in range(3)]
    await settle()
    agent.go.set()
    await asyncio.gather(first, *repeats)
    assert agent.asked == ["one", "two"]


async def test_rejected_message_may_be_sent_again_later() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.REJECT)
    for refused in (request("two", message_id="m-2"), request("two", message_id="m-2", task_id=task_id)):
        with pytest.raises(ContextBusy):
            await send_task(made.service, call, refused)
    agent.go.set()
    await first
    again = await send_task(made.service, call, request("two", message_id="m-2"))
    assert again.status.message.parts[0].text == "answer to two", "the same message is welcome afterwards"


async def test_interrupting_message_cancels_running_task() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.INTERRUPT)
    agent.spoke.clear()
    second = asyncio.create_task(send_task(made.service, call, request("two", message_id="m-2")))
    await agent.spoke.wait()
    agent.go.set()
    assert (await first).status.state == CANCELED  # type: ignore[attr-defined]
    assert (await second).status.message.parts[0].text == "answer to two"
    assert (await made.service.get(call, task_id)).status.message.parts[0].text == "Canceled by a newer message."


async def test_interrupting_message_replaces_turn_of_same_task() -> None:
    made, agent, call, first, task_id = await running(WhenBusy.INTERRUPT)
    agent.spoke.clear()
    second = asyncio.create_task(send_task(made.service, call, request("two", message_id="m-2", task_id=task_id)))
    await agent.spoke.wait()
    async with asyncio.timeout(60):
        while not agent.stopped:
            await settle()
    agent.go.set()
    one, two = await first, await second
    assert one == two
    assert two.status.state == COMPLETED
    assert [message.parts[0].text for message in messages_of(two)] == ["one", "two", "answer to two"]
    assert two.status.message.parts[0].text == "answer to two"
    assert agent.stopped == 1


@each_row("policy", WhenBusy)
@each_row("names_task", [True, False])
@each_row("of_part", [True, False])
async def test_answer_during_turn_is_refused(policy: WhenBusy, names_task: bool, of_part: bool) -> None:
    made, agent, call, first, task_id = await running(policy)
    late = request("no", message_id="m-2", task_id=task_id if names_task else "")
    (late.message.parts[0] if of_part else late.message).metadata.update({"interruptId": "i-1"})
    with pytest.raises(InputNotRequired, match="answered already"):
        await send_task(made.service, call, late)
    agent.go.set()
    await first
    assert agent.asked == ["one"]
    assert agent.stopped == 0


async def test_repeated_answer_without_task_id_returns_its_task() -> None:
    made, call = parts(AskingAgent()), CallContext("owner", "test")
    asking = await send_task(made.service, call, request("a"))
    answer = request("yes", message_id="m-2")
    answer.message.metadata.update({"interruptId": "i-1"})
    assert (await send_task(made.service, call, answer)).id == asking.id
    assert (await send_task(made.service, call, answer)).status.state == COMPLETED
    answer.message.message_id = "m-3"
    with pytest.raises(InputNotRequired):
        await send_task(made.service, call, answer)


async def test_second_answer_without_task_id_creates_new_task() -> None:
    """Another message answers the interrupt first: a later answer without a taskId starts a task."""

    class SlowTexting(MemoryTaskStore):
        """Task store that sends the other answer after the context was read, before the follow-up is written."""

        between: "Coroutine[Any, Any, object] | None" = None

        async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
            if (between := self.between) is not None:
                self.between = None
                await between
            return await super().log(key, after=after)

    store = SlowTexting(SystemClock())
    made = parts(AskingAgent(), store)
    call = CallContext("owner", "test")
    asking = await send_task(made.service, call, request("a"))
    store.between = send_task(
        made.service, CallContext("owner", "test"), request("yes", message_id="m-2", task_id=asking.id)
    )
    other = await send_task(made.service, call, request("another thing", message_id="m-3"))
    assert other.id != asking.id
    assert (await made.service.get(call, asking.id)).status.message.parts[0].text == "yes it is"


@pytest.mark.parametrize("names_task", [True, False])
async def test_second_answer_waits_while_first_answer_runs(names_task: bool) -> None:
    """Begin the turn of another answer after this answer has found the task interrupted."""

    class GatedAnswers(AskingAgent):
        go = asyncio.Event()

        async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
            if asked.turn.message_generation > 1:
                await self.go.wait()
            async for emission in super().run(asked):
                yield emission

    class OvertakenStore(MemoryTaskStore):
        """Task store that starts the other answer just before it stores this one."""

        between: Callable[[], "asyncio.Task[object]"] | None = None

        async def follow_up(self, *arguments: Any, **options: Any) -> Any:
            if (between := self.between) is not None:
                self.between = None
                between()
                await settle()
            return await super().follow_up(*arguments, **options)

    agent, store = GatedAnswers(), OvertakenStore(SystemClock())
    made, call = parts(agent, store), CallContext("owner", "test")
    asking = await send_task(made.service, call, request("a"))
    first = send_task(made.service, CallContext("owner", "test"), request("yes", message_id="m-2", task_id=asking.id))
    store.between = lambda: asyncio.create_task(first)
    late = request("no", message_id="m-3", context_id=asking.context_id, task_id=asking.id if names_task else "")
    second = asyncio.create_task(send_task(made.service, call, late))
    await settle()
    agent.go.set()
    assert ((await second).id == asking.id) is names_task
    said = [message.parts[0].text for message in (await made.service.get(call, asking.id)).history]
    assert ("no" in said) is names_task
