"""Retention of tasks on DynamoDB, and expired items that are not deleted yet."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.aws.dynamodb_json import encoded_key
from aion_core.engine.outcomes import Duplicate, Interrupted, LeaseHeld, TurnQueued, TurnStarted
from aion_core.engine.records import Cursor, Delta, DeltaBatch, Numbered
from aion_core.engine.task import projection
from aion_core.errors import LeaseLost
from aion_core.table import keys
from aion_core.table.item import Key
from aion_core.table.schema import VERSION
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING, StoreConversation
from tests.support.databases import Stack
from tests.support.stores import dynamodb_store

pytestmark = pytest.mark.long

DAY = 24 * 3600


class Rows:
    """Direct access to the items of the DynamoDB table."""

    def __init__(self, stack: Stack) -> None:
        self._client, self._table = stack.client("dynamodb"), stack.environment("ApiFunction")["AION_TABLE"]

    def of(self, chat: StoreConversation) -> list[dict[str, Any]]:
        found = self._client.get_paginator("scan").paginate(TableName=self._table)
        return [item for page in found for item in page["Items"] if chat.context.owner in item["pk"]["S"].split("#")]

    def expires(self, key: Key) -> int:
        item = self._client.get_item(TableName=self._table, Key=encoded_key(key))["Item"]
        return int(item["expires"]["N"])

    def delete(self, key: Key) -> None:
        self._client.delete_item(TableName=self._table, Key=encoded_key(key))

    def delete_expired(self, chat: StoreConversation) -> None:
        """Delete the expired items, as DynamoDB does some time after their TTL."""
        for item in self.of(chat):
            if int(item["expires"]["N"]) <= chat.clock.now().timestamp():
                self.delete(Key(item["pk"]["S"], item["sk"]["S"]))


@pytest.fixture
def rows(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Rows:
    # A missing event is read again and again, for ten seconds in all.
    monkeypatch.setattr("aion_core.table.retries.FIRST_WAIT_SECONDS", 0.0)
    return Rows(stack)


@pytest.fixture
def chat(stack: Stack, clock: ManualClock) -> StoreConversation:
    return StoreConversation(dynamodb_store(stack, clock), clock)


async def test_every_stored_item_has_ttl_and_version(chat: StoreConversation, rows: Rows) -> None:
    turn = await chat.starts("m-1", idempotency_key="key-1")
    await chat.waits("m-2")
    await chat.queues("t-m-1", "m-3")
    await chat.store.append_deltas(turn.head.key, DeltaBatch(2, 1, 0, (Delta("a", append=False),)))
    question = chat.says(turn.head, INPUT_REQUIRED)
    asked = await chat.store.finish(turn.lease, turn.head, question, snapshot=await chat.task("t-m-1"))
    await chat.store.follow_up(await chat.more(asked.head, "m-4"), holder="holder-2")
    found = rows.of(chat)
    kinds = {item["pk"]["S"].split("#")[0] for item in found} | {item["sk"]["S"].split("#")[0] for item in found}
    assert {"CONTEXT", "MESSAGE", "TASK", "DELTA", "QUEUED", "EVENT", "HEAD"} <= kinds
    assert any(item["sk"]["S"].endswith("#SNAP") for item in found)
    assert all("expires" in item and item["v"] == {"N": str(VERSION)} for item in found)


async def test_expired_task_items_are_not_returned(chat: StoreConversation) -> None:
    new = chat.message("m-1", idempotency_key="key-1")
    begun = await chat.store.create(new, holder="holder-1")
    assert isinstance(begun, TurnStarted)
    await chat.store.append_deltas(new.key, DeltaBatch(2, 1, 0, (Delta("a", append=False),)))
    await chat.ends(begun)
    chat.clock.move(2 * 3600)
    assert list(await chat.store.deltas(new.key, since=Cursor())) == [], "chunks live for an hour"
    assert await chat.store.known(chat.context, "m-1", new.content_hash) == Duplicate("t-m-1")
    chat.clock.move(31 * DAY)
    assert await chat.store.head(new.key) is None
    assert await chat.store.log(new.key) is None
    assert await chat.store.log(new.key, after=1) is None
    assert await chat.store.known(chat.context, "m-1", new.content_hash) is None
    again = chat.message("m-1", task_id="again", idempotency_key="key-1")
    assert isinstance(await chat.store.create(again, holder="holder-1"), TurnStarted), "the message is as good as new"


@pytest.mark.parametrize("holder", ["holder-2", pytest.param(None, marks=pytest.mark.deep)])
@pytest.mark.parametrize("left", ["running", "asking"])
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_new_conversation_replaces_expired_conversation(
    chat: StoreConversation, rows: Rows, holder: str | None, left: str, is_deleted: bool
) -> None:
    first = await chat.starts("m-1")
    await chat.waits("m-2")
    if left == "asking":
        await chat.ends(first, INPUT_REQUIRED)
    chat.clock.move(31 * DAY)
    if is_deleted:
        rows.delete_expired(chat)
    chat.tasks.clear()
    assert await chat.store.begin(chat.context, holder="holder-1") is None, "what waited is gone"
    if holder is not None:
        turn = await chat.starts("m-1", holder=holder)
    else:
        assert (await chat.waits("m-1")).until is None
        turn = await chat.begins()
    assert turn.lease.turn.id == "turn-m-1"
    assert is_deleted or turn.lease.fence > first.lease.fence, "the fence has grown on"
    await chat.comes_to_rest()


async def test_sweep_does_not_claim_expired_context(chat: StoreConversation) -> None:
    await chat.waits("m-1")
    chat.clock.move(31 * DAY)
    for expired_timers in await chat.store.expired_timers(limit=1000):
        if expired_timers.context == chat.context:
            assert not await chat.store.claim(expired_timers)


async def test_message_to_nearly_expired_task_prolongs_its_retention(chat: StoreConversation, rows: Rows) -> None:
    head = await chat.asks("m-1")
    before = await chat.task("t-m-1")
    first_message = keys.message_key(chat.context, "m-1")
    born = rows.expires(keys.head_key(head.key))
    chat.clock.move(29 * DAY)
    turn = await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2")
    assert isinstance(turn, TurnStarted)
    for key in (keys.head_key(head.key), first_message, keys.snapshot_key(head.key, 3)):
        assert rows.expires(key) == pytest.approx(born + 29 * DAY, abs=2)
    ended = await chat.ends(turn, COMPLETED)

    chat.clock.move(10 * DAY)
    for _ in ("expired", "deleted"):
        log = await chat.store.log(head.key)
        assert log is not None
        assert log.events[0] == Numbered(3, projection.with_message_once(before))
        assert [entry.generation for entry in log.events] == [3, 4, 5]
        assert log.head == ended.head
        assert await chat.said("t-m-1") == ["m-1", "m-2"]
        for after, generations in ((1, [3, 4, 5]), (2, [3, 4, 5]), (3, [4, 5]), (4, [5]), (5, [])):
            log = await chat.store.log(head.key, after=after)
            assert log is not None
            assert [entry.generation for entry in log.events] == generations
        assert await chat.store.known(chat.context, "m-1", chat.message("m-1").content_hash) == Duplicate("t-m-1")
        rows.delete_expired(chat)
    chat.clock.move(25 * DAY)
    assert await chat.store.log(head.key) is None


async def test_second_message_within_an_hour_stores_no_task_snapshot(chat: StoreConversation, rows: Rows) -> None:
    head = await chat.asks("m-1")
    chat.clock.move(3600)
    await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2")
    assert not any(item["sk"]["S"].endswith("#SNAP") for item in rows.of(chat))


async def test_message_prolongs_retention_of_only_two_hours(stack: Stack, clock: ManualClock) -> None:
    chat = StoreConversation(dynamodb_store(stack, clock, retention=timedelta(hours=2)), clock)
    head = await chat.asks("m-1")
    clock.move(1.5 * 3600)
    assert isinstance(await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2"), TurnStarted)
    clock.move(3600)
    assert await chat.said("t-m-1") == ["m-1", "m-2"]


async def test_queued_messages_expire_with_their_task(chat: StoreConversation, rows: Rows) -> None:
    turn = await chat.starts("m-1")
    await chat.queues("t-m-1", "m-2")
    head = (await chat.ends(turn, INPUT_REQUIRED)).head
    chat.clock.move(29 * DAY)
    answered = await chat.store.follow_up(await chat.more(head, "m-3"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    chat.clock.move(2 * DAY)
    rows.delete_expired(chat)
    assert await chat.store.begin(chat.context, holder="holder-3") is not None
    await chat.comes_to_rest()
    assert await chat.said("t-m-1") == ["m-1", "m-3", "m-2"]


@pytest.mark.parametrize("run_next", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_expired_queued_task_does_not_block_other_turns(
    chat: StoreConversation, rows: Rows, run_next: bool, is_deleted: bool
) -> None:
    turn = await chat.starts("m-1")
    await chat.waits("m-2")
    head = (await chat.ends(turn, INPUT_REQUIRED)).head
    chat.clock.move(29 * DAY)
    answered = await chat.store.follow_up(await chat.more(head, "m-3"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    await chat.waits("m-4")
    chat.clock.move(2 * DAY)
    if is_deleted:
        rows.delete_expired(chat)
    chat.tasks.remove("t-m-2")
    again = await chat.begins("holder-3")
    assert again.lease.turn.id == "turn-m-3"
    assert (await chat.ends(again, run_next=run_next)).waiting
    assert (await chat.begins()).lease.turn.id == "turn-m-4"
    await chat.comes_to_rest()


async def test_task_log_with_missing_event_is_not_returned(chat: StoreConversation, rows: Rows) -> None:
    turn = await chat.starts("m-1")
    await chat.ends(turn)
    rows.delete(keys.event_key(turn.head.key, 2))
    assert await chat.store.log(turn.head.key) is None
    assert await chat.store.log(turn.head.key, after=1) is None
    tail = await chat.store.log(turn.head.key, after=2)
    assert tail is not None
    assert [entry.generation for entry in tail.events] == [3]
    rows.delete(keys.event_key(turn.head.key, 3))
    assert await chat.store.log(turn.head.key, after=2) is None


async def test_missing_event_before_task_snapshot_is_ignored(chat: StoreConversation, rows: Rows) -> None:
    turn = await chat.starts("m-1")
    asked = chat.says(turn.head, INPUT_REQUIRED)
    head = (await chat.store.finish(turn.lease, turn.head, asked, snapshot=await chat.task("t-m-1"))).head
    rows.delete(keys.event_key(head.key, 1))
    answered = await chat.store.follow_up(await chat.more(head, "m-2"), holder="holder-2")
    assert isinstance(answered, TurnStarted)
    log = await chat.store.log(head.key, after=2)
    assert log is not None
    assert [entry.generation for entry in log.events] == [3, 4], "nothing that was asked for is gone"
    log = await chat.store.log(head.key)
    assert log is not None
    assert [entry.generation for entry in log.events] == [3, 4]
    rows.delete(keys.event_key(head.key, 4))
    assert await chat.store.log(head.key) is None


async def test_long_task_log_is_read_from_newest_snapshot(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    head = turn.head
    for _ in range(130):
        head = await chat.store.append(turn.lease, head, chat.says(head, WORKING, "x"))
    log = await chat.store.log(head.key)
    assert log is not None
    assert [entry.generation for entry in log.events] == list(range(1, 133))
    ended = await chat.store.finish(turn.lease, head, chat.says(head, COMPLETED), snapshot=await chat.task("t-m-1"))
    log = await chat.store.log(head.key)
    assert log is not None
    assert (log.head, [entry.generation for entry in log.events]) == (ended.head, [133])


async def test_turn_queued_for_29_days_can_begin(chat: StoreConversation) -> None:
    waiting = await chat.waits("m-1")
    assert isinstance(waiting, TurnQueued)
    chat.clock.move(29 * DAY)
    begun = await chat.begins()
    assert begun.head == replace(waiting.head, fence=1)
    await chat.ends(begun)


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED])
async def test_former_lease_holder_cannot_end_turn_of_recreated_context(chat: StoreConversation, state: Any) -> None:
    """A context expires with its lease and is created anew: the old holder's fence may equal the new one."""
    old = await chat.starts("m-1")
    chat.clock.move(31 * DAY)
    chat.tasks.clear()
    new = await chat.starts("m-2", holder="holder-2")
    with pytest.raises(LeaseLost):
        await chat.ends(old, state)
    assert chat.store.renew(new.lease)
    assert isinstance(await chat.store.begin(chat.context, holder="holder-3"), LeaseHeld)
    await chat.ends(new)
    await chat.comes_to_rest()


async def test_lease_renewals_prolong_contexts_retention(chat: StoreConversation) -> None:
    turn = await chat.starts("m-1")
    for _ in range(40):
        chat.clock.move(DAY)
        assert chat.store.renew(turn.lease)
    assert isinstance(await chat.store.begin(chat.context, holder="holder-2"), LeaseHeld)
    outcome = await chat.store.create(chat.message("m-2"), holder="holder-2")
    assert isinstance(outcome, TurnQueued), "nobody runs beside it"


@pytest.mark.parametrize("holder", ["holder-2", None])
async def test_context_accepts_messages_after_its_interrupted_task_expires(
    stack: Stack, clock: ManualClock, holder: str | None
) -> None:
    """An early answer extends the TTL of the context, but not that of its interrupted task, which expires first."""
    chat = StoreConversation(dynamodb_store(stack, clock, retention=timedelta(days=1)), clock)
    asking = await chat.asks("m-1")
    clock.move(11 * 3600)
    answered = await chat.store.follow_up(await chat.more(asking, "m-2"), holder="holder-1")
    assert isinstance(answered, TurnStarted)
    asked = await chat.ends(answered, INPUT_REQUIRED, "and which?")
    clock.move(12 * 3600)
    assert isinstance(await chat.store.create(chat.message("m-3"), holder=holder), Interrupted), "it still asks"
    clock.move(2 * 3600)
    assert await chat.store.head(asked.head.key) is None
    chat.tasks.clear()
    turn = await chat.starts("m-3", holder=holder) if holder else None
    if turn is None:
        await chat.waits("m-3")
        turn = await chat.begins()
    await chat.ends(turn)
    await chat.comes_to_rest()
