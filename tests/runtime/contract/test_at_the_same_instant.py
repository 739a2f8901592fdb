"""Two concurrent operations on one context, repeated many times: no message is lost, and no turn runs twice."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.outcomes import ContextInUse, Interrupted, LeaseHeld, TurnFinished, TurnQueued, TurnStarted
from aion_core.engine.timers import Claimed, ExpiredTimer
from aion_core.errors import AionError, ContextBusy, InvalidTransition, LeaseLost, PendingInput
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.databases import Stack
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore, dynamodb_store

ROUNDS, ROUNDS_IN_MEMORY = (5, 40) if os.environ.get("SIMULATION_DEEP") else (2, 10)

Act = Callable[[StoreConversation, TurnStarted], Awaitable[Any]]


@dataclass(frozen=True)
class Expected:
    """Refusal that one of two concurrent operations may get."""

    error: AionError


async def finish(chat: StoreConversation, turn: TurnStarted) -> TurnFinished:
    try:
        return await chat.ends(turn, run_next=bool(random.getrandbits(1)))
    except PendingInput:
        return await chat.ends(turn, WORKING, run_next=bool(random.getrandbits(1)))


async def ask(chat: StoreConversation, turn: TurnStarted) -> TurnFinished:
    return await chat.ends(turn, INPUT_REQUIRED)


async def say(chat: StoreConversation, turn: TurnStarted) -> Any:
    return await chat.store.append(turn.lease, turn.head, chat.says(turn.head))


async def pause(chat: StoreConversation, turn: TurnStarted) -> None:
    await chat.store.pause(turn.lease, made_progress=True)


async def cancel(chat: StoreConversation, turn: TurnStarted) -> TurnFinished:
    return await chat.cancels("t-m-1")


async def cancel_what_waits(chat: StoreConversation, turn: TurnStarted) -> TurnFinished:
    return await chat.cancels("t-m-2")


async def begin(chat: StoreConversation, turn: TurnStarted) -> Any:
    return await chat.store.begin(chat.context, holder=f"holder-{random.getrandbits(64)}")


def enqueue(holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE) -> Act:
    async def enqueue(chat: StoreConversation, turn: TurnStarted) -> Any:
        number = random.getrandbits(64)
        outcome = await chat.store.create(chat.message(f"n-{number}"), holder=holder, when_busy=when_busy)
        if isinstance(outcome, TurnStarted | TurnQueued):
            chat.tasks.append(outcome.head.key.task_id)
        return outcome

    enqueue.__name__ = f"enqueue_{holder}_{when_busy}"
    return enqueue


def follow_up(holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE, task_id: str = "t-m-1") -> Act:
    async def follow_up(chat: StoreConversation, turn: TurnStarted) -> Any:
        message_id = f"f-{random.getrandbits(64)}"
        more = await chat.more(await chat.head(task_id), message_id)
        outcome = await chat.store.follow_up(more, holder=holder, when_busy=when_busy)
        if isinstance(outcome, TurnStarted | TurnQueued):
            chat.accepted.append((task_id, message_id))
        return outcome

    follow_up.__name__ = f"follow_up_{task_id}_{holder}_{when_busy}"
    return follow_up


async def renew(chat: StoreConversation, turn: TurnStarted) -> Any:
    return await asyncio.to_thread(chat.store.renew, turn.lease)


async def claim(chat: StoreConversation, turn: TurnStarted) -> Any:
    return await chat.store.claim(ExpiredTimer(chat.context, chat.clock.now()))


# Functions that prepare the state before the two concurrent operations.


async def running(chat: StoreConversation) -> TurnStarted:
    return await chat.starts("m-1")


async def running_before_others(chat: StoreConversation) -> TurnStarted:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.waits("m-3")
    return turn


async def asking(chat: StoreConversation) -> TurnStarted:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    return TurnStarted(turn.lease, (await chat.ends(turn, INPUT_REQUIRED)).head)


async def waiting(chat: StoreConversation) -> TurnStarted:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    await chat.queues("t-m-1", "q-1")
    return TurnStarted(turn.lease, (await chat.ends(turn, WORKING)).head)


async def forsaken(chat: StoreConversation) -> TurnStarted:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    chat.clock.move(LEASE_SECONDS + 1)
    return turn


RACES: list[tuple[Callable[[StoreConversation], Awaitable[TurnStarted]], list[Act]]] = [
    (running, [finish, cancel]),
    (running_before_others, [finish, cancel, cancel_what_waits]),
    (running, [finish, enqueue("holder-2")]),
    (running, [finish, enqueue(None), enqueue("holder-2")]),
    (running, [finish, enqueue("holder-2", WhenBusy.REJECT), enqueue(None, WhenBusy.REJECT)]),
    (running, [finish, follow_up("holder-2")]),
    (running_before_others, [finish, follow_up("holder-2"), follow_up(None, task_id="t-m-2")]),
    (running_before_others, [ask, follow_up("holder-2"), enqueue(None)]),
    (running, [ask, enqueue("holder-2"), enqueue(None)]),
    (running_before_others, [ask, cancel, cancel_what_waits]),
    (running, [say, follow_up("holder-2", WhenBusy.INTERRUPT)]),
    (running_before_others, [finish, follow_up(None, WhenBusy.INTERRUPT)]),
    (running_before_others, [pause, follow_up("holder-2", WhenBusy.INTERRUPT), enqueue(None)]),
    (running_before_others, [pause, cancel, begin]),
    (asking, [follow_up("holder-2"), follow_up(None), follow_up("holder-3")]),
    (asking, [follow_up("holder-2"), cancel]),
    (asking, [follow_up(None), cancel, begin]),
    (asking, [follow_up("holder-2", task_id="t-m-2"), cancel, cancel_what_waits]),
    (waiting, [begin, begin, cancel]),
    (waiting, [begin, cancel_what_waits, enqueue("holder-2")]),
    (waiting, [begin, follow_up("holder-2"), enqueue(None)]),
    (forsaken, [begin, begin, renew, claim]),
    (forsaken, [begin, finish, cancel_what_waits]),
    (forsaken, [begin, cancel, claim, claim]),
    (forsaken, [begin, say, follow_up("holder-2", WhenBusy.INTERRUPT)]),
]


def named(race: Any) -> str:
    return race.__name__ if callable(race) else "-".join(act.__name__ for act in race)


@pytest.mark.long
@pytest.mark.parametrize(("before", "acts"), RACES, ids=named)
async def test_concurrent_store_operations_neither_lose_nor_repeat_work(
    adapter: Stack | None,
    clock: ManualClock,
    before: Callable[[StoreConversation], Awaitable[TurnStarted]],
    acts: list[Act],
) -> None:
    store = MemoryTaskStore(clock, lease_seconds=LEASE_SECONDS) if adapter is None else dynamodb_store(adapter, clock)
    for _ in range(ROUNDS_IN_MEMORY if adapter is None else ROUNDS):
        chat = StoreConversation(store, clock)
        turn = await before(chat)

        async def act(act: Act, chat: StoreConversation = chat, turn: TurnStarted = turn) -> Any:
            await asyncio.sleep(random.uniform(0, 0.01))
            try:
                return await act(chat, turn)
            except (ContextBusy, InvalidTransition, LeaseLost) as error:
                return Expected(error)

        outcomes = await asyncio.gather(*(act(each) for each in random.sample(acts, len(acts))))
        leases = [outcome.lease for outcome in outcomes if isinstance(outcome, TurnStarted)]
        leases += [outcome.next.lease for outcome in outcomes if isinstance(outcome, TurnFinished) and outcome.next]
        assert len({lease.fence for lease in leases}) == len(leases), "each lease has a fence of its own"
        assert sum([await asyncio.to_thread(store.renew, lease) for lease in leases]) <= 1, "and one is in force"
        assert all(
            outcome is None
            or isinstance(
                outcome,
                Expected
                | TurnFinished
                | TurnStarted
                | TurnQueued
                | ContextInUse
                | LeaseHeld
                | Interrupted
                | Claimed
                | bool,
            )
            or hasattr(outcome, "generation")
            for outcome in outcomes
        ), outcomes
        await chat.comes_to_rest()
        for task_id, message_id in chat.accepted:
            if await chat.state(task_id) == "completed":
                assert message_id in await chat.said(task_id), "what was accepted was answered"


async def test_concurrent_finish_and_cancel_record_one_final_state(chat: StoreConversation) -> None:
    for number in range(ROUNDS):
        turn = await chat.starts(f"m-{number}")
        head = turn.head
        ended, canceled = await asyncio.gather(
            chat.ends(turn), chat.store.cancel(head, chat.canceled(head)), return_exceptions=True
        )
        assert {type(ended), type(canceled)} == {TurnFinished, LeaseLost}
        won = ended if isinstance(ended, TurnFinished) else canceled
        assert isinstance(won, TurnFinished)
        assert await chat.head(f"t-m-{number}") == won.head
        assert won.head.generation == 3
        assert (won.head.state == COMPLETED) is (won is ended)
