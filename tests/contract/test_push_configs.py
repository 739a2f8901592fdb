"""What `ports.PushConfigs` promises, and the task store of who listens: on each adapter."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from aion_core.errors import ClaimLost, TaskNotFound, TooManyPushConfigs
from aion_core.ports import (
    MAX_PUSH_CONFIGS,
    ExpiredPushTimer,
    PushConfig,
    PushEvents,
    PushVersion,
    TurnQueued,
    TurnStarted,
    WhenBusy,
)
from aion_core.protocol.types import Artifact, Part, TaskArtifactUpdateEvent
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.conversation import INPUT_REQUIRED, MANY
from tests.support.engines import Stack
from tests.support.pushes import Pushes, a_config
from tests.support.stores import LEASE_SECONDS

SOON = LEASE_SECONDS + 1


@pytest.fixture
def push(adapter: Stack | None, clock: ManualClock) -> Pushes:
    return pushes.on_table(adapter, clock)


async def starts(push: Pushes, config: PushConfig | None = None) -> TurnStarted:
    """A task that runs, with the config that comes with its message."""
    new = replace(push.chat.message("m-1"), push=config)
    begun = await push.chat.store.create(new, holder="holder-1")
    assert isinstance(begun, TurnStarted)
    return begun


# ── Configs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_config_is_read_as_it_was_kept(push: Pushes) -> None:
    """R91, R92."""
    await starts(push)
    config = a_config(version=PushVersion.V03, events=PushEvents.ALL)
    await push.configs.put(push.key(), config)
    assert await push.configs.get(push.key(), "p-1") == config
    assert await push.configs.get(push.key(), "p-2") is None
    assert await push.configs.get(replace(push.key(), owner="another"), "p-1") is None


async def test_a_tasks_configs_are_listed_by_their_ids(push: Pushes) -> None:
    await starts(push, a_config("p-3"))
    for config_id in ("p-1", "p-10", "p-2"):
        await push.configs.put(push.key(), a_config(config_id))
    assert [config.id for config in await push.configs.all(push.key())] == ["p-1", "p-10", "p-2", "p-3"]
    assert [each.config_id for each in await push.configs.deliveries(push.key())] == ["p-1", "p-10", "p-2", "p-3"]
    assert await push.configs.all(push.key("t-other")) == []


async def test_a_deleted_config_is_gone_and_may_be_deleted_again(push: Pushes) -> None:
    await starts(push, a_config())
    for _ in range(2):
        await push.configs.delete(push.key(), "p-1")
    assert await push.configs.all(push.key()) == []


async def test_a_task_that_is_not_there_has_no_listeners(push: Pushes) -> None:
    with pytest.raises(TaskNotFound):
        await push.configs.put(push.key("t-never"), a_config())
    assert await push.chat.store.head(push.key("t-never")) is None


async def test_one_config_too_many_is_refused_and_one_more_of_an_id_is_not(push: Pushes) -> None:
    await starts(push)
    for number in range(MAX_PUSH_CONFIGS):
        await push.configs.put(push.key(), a_config(f"p-{number}"))
    with pytest.raises(TooManyPushConfigs):
        await push.configs.put(push.key(), a_config("one-more"))
    await push.configs.put(push.key(), a_config("p-3", token="another"))
    await push.configs.delete(push.key(), "p-4")
    await push.configs.put(push.key(), a_config("one-more"))
    assert len(await push.configs.all(push.key())) == MAX_PUSH_CONFIGS


async def test_a_config_registered_late_hears_of_the_events_after_it(push: Pushes) -> None:
    begun = await starts(push)
    head = await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    delivery = await push.configs.put(push.key(), a_config())
    assert (delivery.after, delivery.cursor) == (head.generation, head.generation)


async def test_a_config_that_is_replaced_goes_on_where_it_stood(push: Pushes) -> None:
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


# ── With a message ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_config_that_comes_with_a_new_task_hears_of_all_its_events(push: Pushes) -> None:
    await starts(push, a_config())
    assert (await push.delivery()).cursor == 0
    assert await push.events_with_timers() == {2}, "its status, and not the task as it was made"


async def test_a_message_that_is_known_keeps_no_config(push: Pushes) -> None:
    await starts(push)
    again = replace(push.chat.message("m-1", task_id="t-again"), push=a_config())
    await push.chat.store.create(again, holder="holder-2")
    assert await push.configs.all(push.key("t-m-1")) == []
    assert await push.configs.all(push.key("t-again")) == []


async def test_a_config_that_comes_with_an_answer_hears_of_what_follows(push: Pushes) -> None:
    head = await push.chat.asks("m-1")
    more = replace(await push.chat.more(head, "m-2"), push=a_config())
    outcome = await push.chat.store.follow_up(more, holder="holder-2")
    assert isinstance(outcome, TurnStarted)
    assert (await push.delivery()).after == head.generation
    assert await push.events_with_timers() == {head.generation + 1}
    await push.chat.ends(outcome)
    assert await push.events_with_timers() == {head.generation + 1, head.generation + 2}


async def test_a_config_that_comes_with_a_message_to_a_task_at_work_hears_of_what_follows(push: Pushes) -> None:
    begun = await starts(push)
    more = replace(await push.chat.more(begun.head, "m-2"), push=a_config())
    # The task has gone on since its client has read it.
    head = await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    assert isinstance(await push.chat.store.follow_up(more, holder="holder-2"), TurnQueued)
    await push.chat.ends(replace(begun, head=head), push.chat.says(head).status.state)
    assert (await push.delivery()).after == 3
    assert await push.events_with_timers() == {4}


@pytest.mark.parametrize("at_work", [True, False])
async def test_a_message_whose_config_finds_no_room_is_not_kept(push: Pushes, at_work: bool) -> None:
    begun = await starts(push)
    for number in range(MAX_PUSH_CONFIGS):
        await push.configs.put(push.key(), a_config(f"p-{number}"))
    if not at_work:
        await push.chat.ends(begun, INPUT_REQUIRED)
    more = replace(await push.chat.more(await push.chat.head("t-m-1"), "m-2"), push=a_config("one-more"))
    with pytest.raises(TooManyPushConfigs):
        await push.chat.store.follow_up(more, holder="holder-2")
    assert await push.chat.store.known(push.chat.context, "m-2", more.content_hash) is None


async def test_a_message_that_is_not_to_wait_keeps_no_config(push: Pushes) -> None:
    begun = await starts(push)
    more = replace(await push.chat.more(begun.head, "m-2"), push=a_config())
    await push.chat.store.follow_up(more, holder=None, when_busy=WhenBusy.REJECT)
    assert await push.configs.all(push.key()) == []


# ── Events that are due ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_due_where_nobody_listens(push: Pushes) -> None:
    await push.chat.ends(await starts(push))
    assert await push.events_with_timers() == set()


@pytest.mark.parametrize(
    ("events", "due"),
    [(PushEvents.STATUS, {2, 4}), (PushEvents.STATUS_AND_ARTIFACT, {2, 3, 4}), (PushEvents.ALL, {1, 2, 3, 4})],
)
async def test_what_is_due_is_what_some_config_asks_for(push: Pushes, events: PushEvents, due: set[int]) -> None:
    begun = await starts(push, a_config(events=events))
    await push.configs.put(push.key(), a_config("p-2", events=PushEvents.STATUS))
    artifact = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[Part(text="thing")]))
    head = await push.chat.store.append(begun.lease, begun.head, artifact)
    await push.chat.store.finish(begun.lease, head, push.chat.says(head, INPUT_REQUIRED))
    assert await push.events_with_timers() == due


async def test_a_canceled_task_tells_who_listens(push: Pushes) -> None:
    await starts(push, a_config())
    await push.chat.cancels("t-m-1")
    assert await push.events_with_timers() == {2, 3}


async def test_a_message_that_waited_tells_who_listens_when_it_is_taken_in(push: Pushes) -> None:
    begun = await starts(push, a_config())
    await push.chat.queues("t-m-1", "m-2")
    await push.chat.ends(begun, begun.head.state)
    assert (await push.chat.begins()).head.generation == 4
    assert await push.events_with_timers() == {2, 3, 4}


async def test_what_is_cleared_is_due_no_more_and_may_be_cleared_again(push: Pushes) -> None:
    await starts(push, a_config())
    for _ in range(2):
        await push.configs.clear(push.key(), 2)
    assert await push.events_with_timers() == set()


async def test_where_the_last_config_is_gone_nothing_is_due_any_more(push: Pushes) -> None:
    """Whoever records does not know it yet, and hears nothing of it; and who listens again is told of what follows."""
    begun = await starts(push, a_config(events=PushEvents.ALL))
    await push.configs.delete(push.key(), "p-1")
    before = await push.chat.head("t-m-1")
    for _ in range(2):
        await push.configs.unsubscribe(before)
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


async def test_who_has_begun_to_listen_meanwhile_is_not_forgotten(push: Pushes) -> None:
    begun = await starts(push, a_config())
    await push.configs.delete(push.key(), "p-1")
    before = await push.chat.head("t-m-1")
    await push.configs.clear(push.key(), 2)
    await push.configs.put(push.key(), a_config("p-2"))
    await push.configs.unsubscribe(before)
    await push.chat.store.append(begun.lease, begun.head, push.chat.says(begun.head))
    assert await push.events_with_timers() == {3}


async def test_that_nobody_listens_to_a_task_that_is_not_there_leaves_nothing(push: Pushes) -> None:
    head = (await starts(push)).head
    gone = replace(head, key=push.key("t-never"), push_epoch=1)
    await push.configs.unsubscribe(gone)
    assert await push.chat.store.head(gone.key) is None


# ── Deliveries ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_of_two_has_the_claim(push: Pushes) -> None:
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
async def test_who_has_lost_its_claim_changes_nothing(push: Pushes, act: Any, how: str) -> None:
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


async def test_a_claim_that_is_heard_of_no_more_is_overdue_at_its_end(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    await push.claimed(seconds=60)
    push.clock.move(59)
    assert await push.expired_timers() == []
    push.clock.move(2)
    assert [(each.config_id, each.generation) for each in await push.expired_timers()] == [("p-1", 0)]


async def test_what_is_settled_is_due_no_more_unless_more_is_to_come(push: Pushes) -> None:
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


async def test_a_try_that_failed_is_counted_until_one_succeeds(push: Pushes) -> None:
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


async def test_what_is_settled_after_a_post_counts_no_failure_any_more(push: Pushes) -> None:
    await starts(push, a_config())
    now = push.clock.now()
    await push.configs.fail(await push.claimed(), failure="HTTP 500", next_at=now, due_at=now)
    await push.configs.settle(await push.claimed(), cursor=1)
    assert (await push.delivery()).tries == 1
    await push.configs.settle(await push.claimed(), cursor=2, delivered=True)
    assert (await push.delivery()).tries == 0


async def test_what_is_given_up_is_counted_and_may_be_driven_again(push: Pushes) -> None:
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


async def test_what_was_given_up_may_be_driven_again_to_the_config_in_its_place(push: Pushes) -> None:
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


async def test_who_is_gone_is_disabled_until_an_operator_says_otherwise(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    await push.configs.disable(await push.claimed(), failure="HTTP 410")
    after = await push.delivery()
    assert (after.disabled, after.failure, after.due_at) == (True, "HTTP 410", None)
    assert await push.expired_timers() == []
    again = await push.configs.redrive(push.key(), "p-1")
    assert again is not None
    assert (again.disabled, again.cursor) == (False, 0)


# ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_config_is_due_soon_after_it_is_registered_whatever_becomes_of_its_bell(push: Pushes) -> None:
    await starts(push)
    await push.configs.put(push.key(), a_config())
    assert await push.expired_timers() == []
    push.clock.move(SOON)
    assert [each.config_id for each in await push.expired_timers()] == ["p-1"]


@pytest.mark.exact_times
@pytest.mark.parametrize("what", ["an event", "a config"])
async def test_what_is_overdue_is_claimed_once_and_due_again_later(push: Pushes, what: str) -> None:
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
    push.clock.move(2 * LEASE_SECONDS + 1)
    assert await push.expired_timers() == [
        replace(expired_timers, at=expired_timers.at + timedelta(seconds=LEASE_SECONDS * 2 + 1))
    ]


async def test_what_was_settled_meanwhile_is_not_claimed(push: Pushes) -> None:
    await starts(push, a_config())
    push.clock.move(SOON)
    (expired_timers,) = await push.expired_timers()
    await push.configs.clear(push.key(), 2)
    assert not await push.configs.claim_expired(expired_timers)
    assert not await push.configs.claim_expired(ExpiredPushTimer(push.key(), push.clock.now(), config_id="never"))


async def test_a_sweep_takes_no_claim_from_who_delivers(push: Pushes) -> None:
    await starts(push, a_config())
    await push.configs.clear(push.key(), 2)
    claim = await push.claimed(seconds=1)
    push.clock.move(2)
    (expired_timers,) = await push.expired_timers()
    assert await push.configs.claim_expired(expired_timers)
    await push.configs.settle(claim, cursor=2)
    assert (await push.delivery()).due_at is None


async def test_one_owner_who_has_much_that_is_overdue_does_not_hold_up_the_others(
    push: Pushes, adapter: Stack | None, clock: ManualClock
) -> None:
    """R94: of each owner the longest overdue first, and the owners by turns."""
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
    found = [each.config_id for each in await push.configs.expired_timers(limit=MANY) if each.task.owner in ours]
    assert found == ["p-0", "late", "p-1", "p-2", "p-3", "p-4"]
