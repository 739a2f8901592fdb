"""Two processes whose clocks differ by more than a lease: they take turns over from each other, and lose and repeat nothing."""

from datetime import timedelta

from aion_core.engine.outcomes import LeaseHeld, TurnStarted
from aion_core.engine.task import projection
from aion_core.errors import LeaseLost
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, StoreConversation
from tests.support.databases import Stack
from tests.support.histories import messages_of
from tests.support.rows import each_row
from tests.support.stores import LEASE_SECONDS, store_of, table_of


@each_row("apart", [-3600, -300, -2 * LEASE_SECONDS, 2 * LEASE_SECONDS, 300, 3600])
async def test_turns_end_once_despite_clocks_apart(adapter: Stack | None, apart: float) -> None:
    here = ManualClock()
    there = ManualClock(at=here.now() + timedelta(seconds=apart))
    table = table_of(adapter, here)
    chat = StoreConversation(store_of(table, adapter, here), here)
    other = StoreConversation(store_of(table, adapter, there), there, chat.context)

    started = await chat.starts("m-1")
    await chat.waits("m-2")
    after = await chat.store.append(started.lease, started.head, chat.says(started.head, text="one"))
    # The clock that is ahead sees an expired lease and takes the turn over; the other waits for its end.
    seen = await other.store.begin(chat.context, holder="other")
    assert isinstance(seen, TurnStarted if apart > 0 else LeaseHeld)
    holders = [(chat, started.lease, after)]
    if isinstance(seen, TurnStarted):
        holders.append((other, seen.lease, seen.head))
    refused = 0
    for holder, lease, head in holders:
        try:
            await holder.store.finish(lease, head, holder.says(head, COMPLETED, "two"))
        except LeaseLost:
            refused += 1
    assert refused == (apart > 0)
    ended = await other.ends(await other.begins("other"), text="second")
    assert not ended.waiting
    assert await chat.store.begin(chat.context, holder="again") is None

    for task_id, texts in ("t-m-1", ["hi", "one", "two"]), ("t-m-2", ["hi", "second"]):
        log = await chat.store.log(chat.key(task_id))
        assert log is not None
        task = projection.fold(log.events)
        assert task.status.state == COMPLETED
        assert [message.parts[0].text for message in messages_of(task)] == texts
        assert [entry.generation for entry in log.events] == list(range(1, len(log.events) + 1))
