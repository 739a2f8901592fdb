"""Bells for who listens: rung after each commit that concerns them, together where many come, and never in the way."""

import asyncio
from dataclasses import replace

import pytest

from aion_core.errors import StoreUnavailable
from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Begun, PushBell, PushConfig, TaskStore
from aion_core.tasks import ringing
from aion_core.tasks.ringing import RingingStore
from tests.support.clock import ManualClock
from tests.support.conversation import INPUT_REQUIRED, WORKING, Conversation

LISTENS = PushConfig("p-1", "https://hooks.test/")


class Belfry:
    """Push bells that note what was rung, and may be slow, or broken."""

    def __init__(self) -> None:
        self.rung: list[int] = []
        self.may_ring = asyncio.Event()
        self.may_ring.set()
        self.broken = False

    async def ring(self, bell: PushBell, *, delay: float = 0.0) -> None:
        await self.may_ring.wait()
        if self.broken:
            raise StoreUnavailable("The queue is away.")
        self.rung.append(bell.generation)


@pytest.fixture
def bells() -> Belfry:
    return Belfry()


@pytest.fixture
def chat(bells: Belfry, clock: ManualClock) -> Conversation:
    store: TaskStore = RingingStore(MemoryTaskStore(clock), bells)
    return Conversation(store, clock)


async def starts(chat: Conversation, push: PushConfig | None = LISTENS) -> Begun:
    begun = await chat.store.create(replace(chat.message("m-1"), push=push), holder="holder-1")
    assert isinstance(begun, Begun)
    return begun


async def says(chat: Conversation, begun: Begun, times: int = 1) -> Begun:
    for _ in range(times):
        begun = replace(begun, head=await chat.store.append(begun.lease, begun.head, chat.says(begun.head)))
    return begun


async def test_each_way_to_record_rings(chat: Conversation, bells: Belfry) -> None:
    begun = await says(chat, await starts(chat))
    await asyncio.sleep(0)
    assert bells.rung == [2, 3]
    await chat.queues("t-m-1", "m-2")
    bells.rung.clear()
    await chat.ends(begun, WORKING, go_on=True)
    assert bells.rung[-1] == 5, "the message that waited is taken in with the turn's end"
    await chat.cancels("t-m-1")
    assert bells.rung[-1] == 6


async def test_an_answer_and_the_turn_that_takes_a_message_in_ring(chat: Conversation, bells: Belfry) -> None:
    await chat.ends(await starts(chat), INPUT_REQUIRED)
    await chat.store.follow_up(await chat.more(await chat.head("t-m-1"), "m-2"), holder=None)
    assert bells.rung == [2, 3, 4]
    begun = await chat.begins()
    await chat.queues("t-m-1", "m-3")
    await chat.ends(begun, WORKING)
    bells.rung.clear()
    await chat.begins()
    assert bells.rung == [6]


async def test_nobody_rings_where_nobody_listens(chat: Conversation, bells: Belfry) -> None:
    await chat.ends(await says(chat, await starts(chat, push=None), 3))
    assert bells.rung == []


async def test_what_is_recorded_while_a_bell_is_on_its_way_has_the_next_one_together(
    chat: Conversation, bells: Belfry
) -> None:
    begun = await starts(chat)
    bells.may_ring.clear()
    begun = await says(chat, begun, 20)
    bells.may_ring.set()
    await chat.ends(begun)
    assert bells.rung == [2, 23], "one for twenty, and for the end"


async def test_a_queue_that_is_away_fails_nothing(chat: Conversation, bells: Belfry) -> None:
    bells.broken = True
    await chat.ends(await says(chat, await starts(chat)))
    assert await chat.state("t-m-1") == "completed"


async def test_a_queue_that_hangs_keeps_no_event_waiting_and_no_turn_for_long(
    chat: Conversation, bells: Belfry, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await starts(chat)
    bells.may_ring.clear()
    begun = await says(chat, begun, 5)
    assert bells.rung == [2]
    monkeypatch.setattr(ringing, "RING_SECONDS", 0.01)
    await chat.ends(begun)
    assert await chat.state("t-m-1") == "completed"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left to run after the answer"
