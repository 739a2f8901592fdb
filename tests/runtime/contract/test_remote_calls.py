"""Calls of remote agents, on each table: stored under the fence before they are sent, and canceled with their task."""

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.queues import WakeUp
from aion_core.engine.remote_calls.records import CallState, CallToCancel, RemoteCall
from aion_core.engine.sweep import Sweep
from aion_core.engine.turn.end import UNREACHED
from aion_core.errors import LeaseLost
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Part, Role, StreamResponse, Task, TaskStatus
from aion_core.table.payloads import LARGE_BYTES
from tests.support.conversation import CANCELED, COMPLETED, INPUT_REQUIRED, StoreConversation
from tests.support.stores import LEASE_SECONDS


def call(key: str = "ask-0", text: str = "weather?", agent: str = "") -> RemoteCall:
    message = Message(message_id=f"derived-{key}", context_id="remote-c", role=Role.ROLE_USER, parts=[Part(text=text)])
    return RemoteCall(key, "https://weather.example", message, agent)


async def begun(chat: StoreConversation, turn: TurnStarted, *calls: RemoteCall) -> None:
    for each in calls:
        assert await chat.store.remote_calls.begin(turn.lease, each) == each


async def canceled(chat: StoreConversation, *calls: RemoteCall) -> list[CallToCancel]:
    """Start a task with these calls, cancel it, and return the calls to cancel."""
    turn = await chat.starts()
    await begun(chat, turn, *calls)
    await chat.cancels("t-m-1")
    return sorted(await chat.store.remote_calls.to_cancel(turn.head.key), key=lambda each: each.call.key)


@pytest.mark.parametrize("text", ["weather?", "x" * (LARGE_BYTES + 1)], ids=["small", "blob"])
async def test_call_that_begins_again_keeps_its_message(chat: StoreConversation, text: str) -> None:
    turn = await chat.starts()
    first = call(text=text, agent="forecaster")
    await begun(chat, turn, first)
    assert await chat.store.remote_calls.begin(turn.lease, call(text="other words")) == first
    await chat.store.remote_calls.reached(turn.head.key, "ask-0", "remote-t")
    assert await chat.store.remote_calls.of_task(turn.head.key) == [replace(first, remote_task="remote-t")]
    assert (await chat.head("t-m-1")).calls == 1


@pytest.mark.parametrize("text", ["sunny", "x" * (LARGE_BYTES + 1)], ids=["small", "blob"])
async def test_answer_is_kept_with_ended_call(chat: StoreConversation, text: str) -> None:
    turn = await chat.starts()
    await begun(chat, turn, call())
    message = Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text=text)])
    answer = StreamResponse(task=Task(id="remote-t", status=TaskStatus(state=COMPLETED, message=message)))
    await chat.store.remote_calls.settle(turn.head.key, "ask-0", CallState.ENDED, answer)
    (kept,) = await chat.store.remote_calls.of_task(turn.head.key)
    assert (kept.state, kept.answer) == (CallState.ENDED, answer)


async def test_calls_of_other_tasks_are_apart(chat: StoreConversation) -> None:
    turn = await chat.starts()
    await begun(chat, turn, call())
    other = await chat.waits("m-2")
    assert await chat.store.remote_calls.of_task(other.head.key) == []


async def test_call_does_not_disturb_turn(chat: StoreConversation) -> None:
    turn = await chat.starts()
    await begun(chat, turn, call())
    head = await chat.store.append(turn.lease, turn.head, chat.says(turn.head))
    await begun(chat, turn, call("ask-1"))
    assert (await chat.ends(replace(turn, head=head))).head.generation == 4
    assert (await chat.head("t-m-1")).calls == 2
    await chat.comes_to_rest()


async def test_late_worker_begins_no_call(chat: StoreConversation) -> None:
    turn = await chat.starts()
    chat.clock.move(LEASE_SECONDS + 1)
    await chat.begins()
    with pytest.raises(LeaseLost):
        await chat.store.remote_calls.begin(turn.lease, call())
    assert await chat.store.remote_calls.of_task(turn.head.key) == []
    assert (await chat.head("t-m-1")).calls == 0


async def test_canceled_task_begins_no_call(chat: StoreConversation) -> None:
    turn = await chat.starts()
    await chat.cancels("t-m-1")
    with pytest.raises(LeaseLost):
        await chat.store.remote_calls.begin(turn.lease, call())
    assert await chat.store.remote_calls.to_cancel(turn.head.key) == []


@pytest.mark.parametrize("before", [(), ("ask-0",)], ids=["first call", "second call"])
async def test_cancel_that_misses_a_call_is_refused(chat: StoreConversation, before: tuple[str, ...]) -> None:
    """Begin a call between the read of the head and the cancellation: the caller must read the head again."""
    turn = await chat.starts()
    await begun(chat, turn, *(call(key) for key in before))
    head = await chat.head("t-m-1")
    await begun(chat, turn, call("late"))
    with pytest.raises(LeaseLost):
        await chat.store.cancel(head, chat.canceled(head))
    await chat.cancels("t-m-1")
    found = {each.call.key for each in await chat.store.remote_calls.to_cancel(turn.head.key)}
    assert found == {*before, "late"}


async def test_cancel_reaches_running_and_asking_calls_only(chat: StoreConversation) -> None:
    turn = await chat.starts()
    await begun(chat, turn, call("running"), call("asking"), call("ended"))
    await chat.store.remote_calls.reached(turn.head.key, "running", "remote-t")
    await chat.store.remote_calls.settle(turn.head.key, "asking", CallState.ASKS)
    await chat.store.remote_calls.settle(turn.head.key, "ended", CallState.ENDED)
    await chat.cancels("t-m-1")
    found = {each.call.key: each for each in await chat.store.remote_calls.to_cancel(turn.head.key)}
    assert set(found) == {"running", "asking"}
    assert found["running"].call.remote_task == "remote-t"
    assert found["running"].context == chat.context


async def test_cancel_reaches_more_calls_than_transaction_holds(chat: StoreConversation) -> None:
    found = await canceled(chat, *(call(f"ask-{number:03}") for number in range(101)))
    assert len({each.call.key for each in found}) == 101
    assert all(each.due_at for each in found)


async def test_cancel_of_interrupted_task_reaches_asking_call(chat: StoreConversation) -> None:
    turn = await chat.starts()
    await begun(chat, turn, call())
    await chat.store.remote_calls.settle(turn.head.key, "ask-0", CallState.ASKS)
    await chat.ends(turn, INPUT_REQUIRED, "which city?")
    await chat.cancels("t-m-1")
    [found] = await chat.store.remote_calls.to_cancel(turn.head.key)
    assert found.call.key == "ask-0"


async def test_cancel_skips_question_of_ended_remote_task(chat: StoreConversation) -> None:
    turn, calls = await chat.starts(), chat.store.remote_calls
    await begun(chat, turn, call("asked"), call("answer"), call("other"))
    for key, remote_task in (("asked", "remote-t"), ("answer", "remote-t"), ("other", "remote-u")):
        await calls.reached(turn.head.key, key, remote_task)
    for key, state in (("asked", CallState.ASKS), ("answer", CallState.ENDED), ("other", CallState.ASKS)):
        await calls.settle(turn.head.key, key, state)
    await chat.cancels("t-m-1")
    assert [each.call.key for each in await calls.to_cancel(turn.head.key)] == ["other"]


async def test_message_that_replaces_turn_cancels_its_calls(chat: StoreConversation) -> None:
    turn = await chat.starts()
    await begun(chat, turn, call())
    late = await chat.more(await chat.head("t-m-1"), "m-2")
    await begun(chat, turn, call("late"))
    with pytest.raises(LeaseLost):
        await chat.store.follow_up(late, holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    now = await chat.more(await chat.head("t-m-1"), "m-2")
    new = await chat.store.follow_up(now, holder="holder-2", when_busy=WhenBusy.INTERRUPT)
    assert isinstance(new, TurnStarted)
    await begun(chat, new, call("new"))
    found = {each.call.key for each in await chat.store.remote_calls.to_cancel(turn.head.key)}
    assert found == {"ask-0", "late"}, "the call of the new turn goes on"
    await chat.store.note_unreached(chat.context, turn.head.key, "weather")
    assert (await chat.ends(new)).head.state == COMPLETED


async def test_id_of_remote_task_is_stored_after_cancellation(chat: StoreConversation) -> None:
    """Let the worker learn the remote task's id although its own task is canceled by then."""
    [found] = await canceled(chat, call())
    assert not found.call.remote_task
    await chat.store.remote_calls.reached(found.task, "ask-0", "remote-t")
    await chat.store.remote_calls.settle(found.task, "ask-0", CallState.ENDED)
    [found] = await chat.store.remote_calls.to_cancel(found.task)
    assert found.call.remote_task == "remote-t"


@pytest.mark.parametrize("state", [CallState.CANCELED, CallState.UNREACHED])
async def test_message_sent_after_the_last_attempt_is_canceled_too(chat: StoreConversation, state: CallState) -> None:
    """Let a frozen process send its message long after the cancellation."""
    [found] = await canceled(chat, call())
    await chat.store.remote_calls.claim(found, until=found.due_at + 1000)
    [found] = await chat.store.remote_calls.to_cancel(found.task)
    await chat.store.remote_calls.close(found, state)
    await chat.store.remote_calls.reached(found.task, "ask-0", "remote-t")
    [again] = await chat.store.remote_calls.to_cancel(found.task)
    assert (again.call.remote_task, again.tries) == ("remote-t", 0)
    chat.clock.move(LEASE_SECONDS + 1)
    assert (chat.context, found.task) in await chat.store.remote_calls.overdue(limit=1000)


async def test_attempt_is_claimed_once(chat: StoreConversation) -> None:
    [found] = await canceled(chat, call())
    assert await chat.store.remote_calls.claim(found, until=found.due_at + 1000)
    assert not await chat.store.remote_calls.claim(found, until=found.due_at + 2000)
    [again] = await chat.store.remote_calls.to_cancel(found.task)
    assert (again.due_at, again.tries) == (found.due_at + 1000, 1)


@pytest.mark.parametrize("state", [CallState.CANCELED, CallState.UNREACHED])
async def test_closed_call_has_no_timer(chat: StoreConversation, state: CallState) -> None:
    [found] = await canceled(chat, call())
    await chat.store.remote_calls.close(found, state)
    chat.clock.move(LEASE_SECONDS + 1)
    assert (chat.context, found.task) not in await chat.store.remote_calls.overdue(limit=1000)
    assert await chat.store.remote_calls.to_cancel(found.task) == []
    assert not await chat.store.remote_calls.claim(found, until=found.due_at + 1000)


async def test_sweep_wakes_overdue_call_once(chat: StoreConversation) -> None:
    found = await canceled(chat, call("ask-0"), call("ask-1"))
    assert (chat.context, found[0].task) not in await chat.store.remote_calls.overdue(limit=1000), (
        "its time has not come"
    )
    chat.clock.move(LEASE_SECONDS + 1)
    queue = Enqueued()
    sweep = Sweep(chat.store, queue, remote_calls=chat.store.remote_calls)
    await sweep.once()
    assert queue.sent.count(WakeUp(chat.context, task_id="t-m-1")) == 1
    await sweep.once()
    assert queue.sent.count(WakeUp(chat.context, task_id="t-m-1")) == 1, "the first sweep has claimed it"


async def test_agents_not_reached_are_noted_in_canceled_task(chat: StoreConversation) -> None:
    [found, _] = await canceled(chat, call("ask-0"), call("ask-1"))
    for remote in ("weather", "maps", "weather"):
        await chat.store.note_unreached(chat.context, found.task, remote)
    task = await chat.task("t-m-1")
    assert task.status.state == CANCELED
    assert to_json(task.metadata)[UNREACHED] == ["weather", "maps"]
    assert (await chat.head("t-m-1")).generation == 5
    assert (await chat.starts("m-2")).head.generation == 2, "the context works on"


class Enqueued:
    """Queue that keeps its messages."""

    def __init__(self) -> None:
        self.sent: list[WakeUp] = []

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        self.sent.append(wake_up)

    async def backlog(self) -> int:
        return len(self.sent)

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        self.sent.append(wake_up)
