"""Contract of `PushConfigs`, and of the task store's push timers, on each adapter."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import PushEvents, WhenBusy
from aion_core.engine.delivery.records import ExpiredPushTimer
from aion_core.engine.outcomes import TurnQueued, TurnStarted
from aion_core.engine.push_config import MAX_PUSH_CONFIGS, PushConfig, PushVersion
from aion_core.errors import ClaimLost, TaskNotFound, TooManyPushConfigs
from aion_core.protocol.types import Artifact, Part, TaskArtifactUpdateEvent
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.conversation import INPUT_REQUIRED
from tests.support.databases import Stack
from tests.support.pushes import Pushes, a_config, expired_of
from tests.support.stores import LEASE_SECONDS

SOON = LEASE_SECONDS + 1


@pytest.fixture
def push(adapter: Stack | None, clock: ManualClock) -> Pushes:
    return pushes.on_table(adapter, clock)


async def starts(push: Pushes, config: PushConfig | None = None) -> TurnStarted:
    """Create a running task whose first message has a push config."""
    new = replace(push.chat.message("m-1"), push=config)
    begun = await push.chat.store.create(new, holder="holder-1")
    assert isinstance(begun, TurnStarted)
    return begun


# ── Push configs ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_stored_push_config_is_read_back_unchanged(push: Pushes) -> None:
    await starts(push)
    config = a_config(version=PushVersion.V03, events=PushEvents.ALL)
    await push.configs.put(push.key(), config)
    assert await push.configs.get(push.key(), "p-1") == config
    assert await push.configs.get(push.key(), "p-2") is None
    assert await push.configs.get(replace(push.key(), owner="another"), "p-1") is None


async def test_push_configs_are_sorted_by_id(push: Pushes) -> None:
    await starts(push, a_config("p-3"))
    for config_id in ("p-1", "p-10", "p-2"):
        await push.configs.put(push.key(), a_config(config_id))
    assert [config.id for config in await push.configs.all(push.key())] == ["p-1", "p-10", "p-2", "p-3"]
    assert [each.config_id for each in await push.configs.deliveries(push.key())] == ["p-1", "p-10", "p-2", "p-3"]
    assert await push.configs.all(push.key("t-other")) == []


@pytest.mark.parametrize("config_id", ["a b#c", "#", "a\nb/", "\U0010ffff!", "\N{WAVING HAND SIGN}" * 128])
async def test_push_config_id_may_have_any_characters(push: Pushes, config_id: str) -> None:
    """The timer index stores only the config's key: the id read from this key must be unchanged."""
    await starts(push)
    await push.configs.put(push.key(), a_config(config_id))
    assert [config.id for config in await push.configs.all(push.key())] == [config_id]
    push.clock.move(SOON)
    assert [each.config_id for each in await push.expired_timers()] == [config_id]
    await push.configs.delete(push.key(), config_id)
    assert await push.configs.get(push.key(), config_id) is None


async def test_deleted_push_config_may_be_deleted_again(push: Pushes) -> None:
    await starts(push, a_config())
    for _ in range(2):
        await push.configs.delete(push.key(), "p-1")
    assert await push.configs.all(push.key()) == []


async def test_push_config_of_missing_task_is_refused(push: Pushes) -> None:
    with pytest.raises(TaskNotFound):
        await push.configs.put(push.key("t-never"), a_config())
    assert await push.chat.store.head(push.key("t-never")) is None


async def test_number_of_push_configs_is_limited(push: Pushes) -> None:
    await starts(push)
    for number in range(MAX_PUSH_CONFIGS):
        await push.configs.put(push.key(), a_config(f"p-{number}"))
    with pytest.raises(TooManyPushConfigs):
        await push.configs.put(push.key(), a_config("one-more"))
    await push.configs.put(push.key(), a_config("p-3", token="another"))
    await push.configs.delete(push.key(), "p-4")
    await push.configs.put(push.key(), a_config("one-more"))
    assert len(await push.configs.all(push.key())) == MAX_PUSH_CONFIGS


async def test_new_push_config_skips_earlier_events_of_task(push: Pushes) -> None:
    begun = await starts(push)
    head = await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    delivery = await push.configs.put(push.key(), a_config())
    assert (delivery.after, delivery.cursor) == (head.generation, head.generation)


async def test_replaced_push_config_continues_after_last_delivered_event(push: Pushes) -> None:
    begun = await starts(push, a_config())
    await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    claim = await push.configs.advance(await push.claimed(), cursor=2, until=push.clock.now())
    await push.configs.fail(claim, failure="no", next_at=push.clock.now(), due_at=push.clock.now())
    await push.configs.put(push.key(), a_config(token="new"))
    after = await push.delivery()
    assert (after.after, after.cursor, after.tries, after.next_at, after.failure) == (0, 2, 0, None, "")
    config = (await push.claimed()).config
    assert config is not None
    assert config.token == "new"


# ── Push configs in messages ──────────────────────────────────────────────────────────────────────────────────────────


async def test_push_config_of_new_task_starts_before_first_event(push: Pushes) -> None:
    await starts(push, a_config())
    assert (await push.delivery()).cursor == 0
    assert await push.events_with_timers() == {2}, "its status, and not the task as it was made"


async def test_duplicate_message_stores_no_push_config(push: Pushes) -> None:
    await starts(push)
    again = replace(push.chat.message("m-1", task_id="t-again"), push=a_config())
    await push.chat.store.create(again, holder="holder-2")
    assert await push.configs.all(push.key("t-m-1")) == []
    assert await push.configs.all(push.key("t-again")) == []


async def test_push_config_sent_with_answer_skips_earlier_events(push: Pushes) -> None:
    head = await push.chat.asks("m-1")
    more = replace(await push.chat.more(head, "m-2"), push=a_config())
    outcome = await push.chat.store.follow_up(more, holder="holder-2")
    assert isinstance(outcome, TurnStarted)
    assert (await push.delivery()).after == head.generation
    assert await push.events_with_timers() == {head.generation + 1}
    await push.chat.ends(outcome)
    assert await push.events_with_timers() == {head.generation + 1, head.generation + 2}


async def test_push_config_sent_with_queued_message_skips_earlier_events(push: Pushes) -> None:
    begun = await starts(push)
    more = replace(await push.chat.more(begun.head, "m-2"), push=a_config())
    # Append another event after the client's read of the task, so that the push config must start after the new event.
    head = await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    assert isinstance(await push.chat.store.follow_up(more, holder="holder-2"), TurnQueued)
    await push.chat.ends(replace(begun, head=head), push.chat.says(head).status.state)
    assert (await push.delivery()).after == 3
    assert await push.events_with_timers() == {4}


@pytest.mark.parametrize("at_work", [True, False])
async def test_message_exceeding_push_config_limit_is_not_stored(push: Pushes, at_work: bool) -> None:
    begun = await starts(push)
    for number in range(MAX_PUSH_CONFIGS):
        await push.configs.put(push.key(), a_config(f"p-{number}"))
    if not at_work:
        await push.chat.ends(begun, INPUT_REQUIRED)
    more = replace(await push.chat.more(await push.chat.head("t-m-1"), "m-2"), push=a_config("one-more"))
    with pytest.raises(TooManyPushConfigs):
        await push.chat.store.follow_up(more, holder="holder-2")
    assert await push.chat.store.known(push.chat.context, "m-2", more.content_hash) is None


async def test_rejected_message_stores_no_push_config(push: Pushes) -> None:
    begun = await starts(push)
    more = replace(await push.chat.more(begun.head, "m-2"), push=a_config())
    await push.chat.store.follow_up(more, holder=None, when_busy=WhenBusy.REJECT)
    assert await push.configs.all(push.key()) == []


# ── Push timers of events ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_of_task_without_push_configs_set_no_timer(push: Pushes) -> None:
    await push.chat.ends(await starts(push))
    assert await push.events_with_timers() == set()


@pytest.mark.parametrize(
    ("events", "due"),
    [(PushEvents.STATUS, {2, 4}), (PushEvents.STATUS_AND_ARTIFACT, {2, 3, 4}), (PushEvents.ALL, {1, 2, 3, 4})],
)
async def test_only_events_selected_by_push_configs_set_timers(push: Pushes, events: PushEvents, due: set[int]) -> None:
    begun = await starts(push, a_config(events=events))
    await push.configs.put(push.key(), a_config("p-2", events=PushEvents.STATUS))
    artifact = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[Part(text="thing")]))
    head = await push.chat.store.append(begun.lease, begun.head, artifact)
    await push.chat.store.finish(begun.lease, head, push.chat.says(head, INPUT_REQUIRED))
    assert await push.events_with_timers() == due


async def test_cancel_of_task_with_push_config_sets_timer(push: Pushes) -> None:
    await starts(push, a_config())
    await push.chat.cancels("t-m-1")
    assert await push.events_with_timers() == {2, 3}


async def test_queued_message_sets_push_timer_when_its_turn_begins(push: Pushes) -> None:
    begun = await starts(push, a_config())
    await push.chat.queues("t-m-1", "m-2")
    await push.chat.ends(begun, begun.head.state)
    assert (await push.chat.begins()).head.generation == 4
    assert await push.events_with_timers() == {2, 3, 4}


async def test_cleared_push_timer_may_be_cleared_again(push: Pushes) -> None:
    await starts(push, a_config())
    for _ in range(2):
        await push.configs.clear(push.key(), 2)
    assert await push.events_with_timers() == set()


async def test_events_after_deletion_of_push_configs_set_no_timers(push: Pushes) -> None:
    """Delete the only config: a concurrent append still succeeds, and a new config receives later events."""
    begun = await starts(push, a_config(events=PushEvents.ALL))
    await push.configs.delete(push.key(), "p-1")
    before = await push.chat.head("t-m-1")
    for _ in range(2):
        await push.configs.clear_subscribers(before)
    for generation in (1, 2):
        await push.configs.clear(push.key(), generation)
    head = await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    assert head.push_events is None
    assert head.push_epoch > before.push_epoch, "who knows only of listeners is told"
    assert await push.events_with_timers() == set()
    await push.configs.put(push.key(), a_config("p-2"))
    head = await push.chat.store.append(begun.lease, head, push.chat.says(head))
    assert (head.generation, head.push_events) == (4, PushEvents.STATUS)
    assert await push.events_with_timers() == {4}


async def test_push_config_added_while_subscribers_are_removed_receives_events(push: Pushes) -> None:
    begun = await starts(push, a_config())
    await push.configs.delete(push.key(), "p-1")
    before = await push.chat.head("t-m-1")
    await push.configs.clear(push.key(), 2)
    await push.configs.put(push.key(), a_config("p-2"))
    await push.configs.clear_subscribers(before)
    await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    assert await push.events_with_timers() == {3}


async def test_unsubscribe_of_missing_task_stores_nothing(push: Pushes) -> None:
    head = (await starts(push)).head
    gone = replace(head, key=push.key("t-never"), push_epoch=1)
    await push.configs.clear_subscribers(gone)
    assert await push.chat.store.head(gone.key) is None


# ── Deliveries ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_only_one_of_two_processes_claims_push_delivery(push: Pushes) -> None:
    await starts(push, a_config())
    seen = await push.delivery()
    until = push.clock.now() + timedelta(seconds=60)
    claim = await push.configs.claim(seen, until=until)
    assert claim is not None
    assert claim.config == a_config()
    assert await push.configs.claim(seen, until=until) is None
    assert (await push.delivery()).claimed_until == until


async def settle(push: Pushes, claim: Any) -> None:
    await push.configs.settle(claim, cursor=2)


async def fail(push: Pushes, claim: Any) -> None:
    await push.configs.fail(claim, failure="no", next_at=push.clock.now(), due_at=push.clock.now())


async def give_up(push: Pushes, claim: Any) -> None:
    await push.configs.give_up(claim, cursor=2, failure="no", until=push.clock.now())


async def advance(push: Pushes, claim: Any) -> None:
    await push.configs.advance(claim, cursor=2, until=push.clock.now())


async def disable(push: Pushes, claim: Any) -> None:
    await push.configs.disable(claim, failure="gone")


@pytest.mark.parametrize(
    ("act", "how"),
    [
        *((act, "deleted") for act in (settle, fail, give_up, advance, disable)),
        *((settle, how) for how in ("replaced", "another's", "deleted and made anew")),
    ],
)
async def test_process_cannot_change_delivery_after_losing_its_claim(push: Pushes, act: Any, how: str) -> None:
    await starts(push, a_config())
    claim = await push.claimed()
    if how.startswith("deleted"):
        await push.configs.delete(push.key(), "p-1")
    if how in ("replaced", "deleted and made anew"):
        await push.configs.put(push.key(), a_config())
    if how == "another's":
        await push.claimed()
    before = await push.configs.deliveries(push.key())
    with pytest.raises(ClaimLost):
        await act(push, claim)
    assert await push.configs.deliveries(push.key()) == before


async def test_abandoned_delivery_claim_expires(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    await push.claimed(seconds=60)
    push.clock.move(59)
    assert await push.expired_timers() == []
    push.clock.move(2)
    assert [(each.config_id, each.generation) for each in await push.expired_timers()] == [("p-1", 0)]


async def test_push_delivery_has_no_timer_after_its_last_event(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    await push.configs.settle(await push.claimed(), cursor=1, due_at=push.clock.now() + timedelta(seconds=5))
    push.clock.move(6)
    assert [each.config_id for each in await push.expired_timers()] == ["p-1"]
    await push.configs.settle(await push.claimed(), cursor=2)
    after = await push.delivery()
    assert (after.cursor, after.claimed_until, after.due_at) == (2, None, None)
    push.clock.move(1000)
    assert await push.expired_timers() == []


async def test_successful_delivery_resets_number_of_failed_attempts(push: Pushes) -> None:
    begun = await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    next_at = push.clock.now() + timedelta(hours=2)
    for tries in (1, 2):
        await push.configs.fail(await push.claimed(), failure="HTTP 500", next_at=next_at, due_at=next_at)
        after = await push.delivery()
        assert (after.tries, after.next_at, after.due_at, after.failure) == (tries, next_at, next_at, "HTTP 500")
        assert after.claimed_until is None
    push.clock.move(2 * 3600 + 1)
    assert [each.config_id for each in await push.expired_timers()] == ["p-1"]
    await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    await push.configs.advance(await push.claimed(), cursor=2, until=push.clock.now())
    after = await push.delivery()
    assert (after.cursor, after.tries, after.next_at, after.failure) == (2, 0, None, "")


async def test_skipped_event_does_not_reset_number_of_failed_attempts(push: Pushes) -> None:
    await starts(push, a_config())
    now = push.clock.now()
    await push.configs.fail(await push.claimed(), failure="HTTP 500", next_at=now, due_at=now)
    await push.configs.settle(await push.claimed(), cursor=1)
    assert (await push.delivery()).tries == 1
    await push.configs.settle(await push.claimed(), cursor=2, delivered=True)
    assert (await push.delivery()).tries == 0


async def test_undeliverable_push_events_are_counted_and_can_be_redriven(push: Pushes) -> None:
    await starts(push, a_config())
    now = push.clock.now()
    await push.configs.fail(await push.claimed(), failure="HTTP 500", next_at=now, due_at=now)
    claim = await push.configs.give_up(await push.claimed(), cursor=2, failure="HTTP 503", until=now)
    claim = await push.configs.give_up(claim, cursor=3, failure="HTTP 503", until=now)
    await push.configs.settle(claim, cursor=3)
    after = await push.delivery()
    assert (after.cursor, after.dead, after.dead_from, after.tries, after.failure) == (3, 2, 2, 1, "HTTP 503")
    again = await push.configs.redrive(push.key(), "p-1")
    assert again == await push.delivery()
    assert again is not None
    assert (again.cursor, again.dead, again.dead_from, again.tries, again.failure) == (1, 0, 0, 0, "")
    assert [each.config_id for each in await push.expired_timers()] == ["p-1"]
    assert await push.configs.redrive(push.key(), "p-2") is None


async def test_replaced_push_config_receives_undelivered_events_after_redrive(push: Pushes) -> None:
    await starts(push, a_config())
    until = push.clock.now()
    await push.configs.settle(
        await push.configs.give_up(await push.claimed(), cursor=2, failure="HTTP 404", until=until), cursor=3
    )
    await push.configs.put(push.key(), a_config(url="https://hooks.test/right"))
    after = await push.delivery()
    assert (after.cursor, after.dead, after.dead_from) == (3, 1, 2)
    again = await push.configs.redrive(push.key(), "p-1")
    assert again is not None
    assert again.cursor == 1


async def test_disabled_push_config_is_enabled_by_redrive(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    await push.configs.disable(await push.claimed(), failure="HTTP 410")
    after = await push.delivery()
    assert (after.disabled, after.failure, after.due_at) == (True, "HTTP 410", None)
    assert await push.expired_timers() == []
    again = await push.configs.redrive(push.key(), "p-1")
    assert again is not None
    assert (again.disabled, again.cursor) == (False, 0)


# ── Expired push timers ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_added_push_config_sets_push_timer(push: Pushes) -> None:
    await starts(push)
    await push.configs.put(push.key(), a_config())
    assert await push.expired_timers() == []
    push.clock.move(SOON)
    assert [each.config_id for each in await push.expired_timers()] == ["p-1"]


@pytest.mark.exact_times
@pytest.mark.parametrize("what", ["an event", "a config"])
async def test_expired_push_timer_is_claimed_once(push: Pushes, what: str) -> None:
    await starts(push, a_config() if what == "an event" else None)
    if what == "a config":
        await push.configs.put(push.key(), a_config())
    early = ExpiredPushTimer(push.key(), push.clock.now(), *((2, "") if what == "an event" else (0, "p-1")))
    assert not await push.configs.claim_expired(early)
    push.clock.move(SOON)
    (expired_timers,) = await push.expired_timers()
    assert await push.configs.claim_expired(expired_timers)
    assert not await push.configs.claim_expired(expired_timers)
    assert await push.expired_timers() == []
    push.clock.move(LEASE_SECONDS + 1)
    assert await push.expired_timers() == [
        replace(expired_timers, at=expired_timers.at + timedelta(seconds=LEASE_SECONDS + 1), overdue=1.0)
    ]


async def test_cleared_push_timer_is_not_claimed_by_sweep(push: Pushes) -> None:
    await starts(push, a_config())
    push.clock.move(SOON)
    (expired_timers,) = await push.expired_timers()
    await push.configs.clear(push.key(), 2)
    assert not await push.configs.claim_expired(expired_timers)
    assert not await push.configs.claim_expired(ExpiredPushTimer(push.key(), push.clock.now(), config_id="never"))


async def test_sweep_does_not_invalidate_claim_of_running_delivery(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    claim = await push.claimed(seconds=1)
    push.clock.move(2)
    (expired_timers,) = await push.expired_timers()
    assert await push.configs.claim_expired(expired_timers)
    await push.configs.settle(claim, cursor=2)
    assert (await push.delivery()).due_at is None


async def test_owner_with_many_push_timers_does_not_delay_other_owners(
    push: Pushes, adapter: Stack | None, clock: ManualClock
) -> None:
    """The list of expired timers alternates between owners; each owner's earliest timer is first."""
    begun = await starts(push)
    for number in range(5):
        await push.configs.put(push.key(), a_config(f"p-{number}"))
        clock.move(1)
    other = replace(push.chat.context, owner=f"{push.chat.context.owner}-other")
    new = replace(push.chat.message("m-1"), context=other, key=replace(begun.head.key, owner=other.owner))
    assert isinstance(await push.chat.store.create(new, holder="holder-1"), TurnStarted)
    await push.configs.put(new.key, a_config("late"))
    clock.move(SOON)
    ours = {push.chat.context.owner, other.owner}
    found = [each.config_id for each in await expired_of(push.configs) if each.task.owner in ours]
    assert found == ["p-0", "late", "p-1", "p-2", "p-3", "p-4"]
