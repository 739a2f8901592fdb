"""Push configs and deliveries that another process changes between a writer's read and its write."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.push_config import MAX_PUSH_CONFIGS
from aion_core.errors import LeaseLost, StoreCorrupt, TaskNotFound, TooManyPushConfigs
from aion_core.table import keys
from aion_core.table.item import PARTITION, SORT
from aion_core.table.writes import Change, Delete, Put, Update
from tests.runtime.contract.faults import UPDATE, Faults, events_of
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.conversation import COMPLETED, INPUT_REQUIRED, WORKING
from tests.support.databases import Stack
from tests.support.pushes import Pushes, a_config
from tests.support.stores import LEASE_SECONDS

pytestmark = pytest.mark.long


@pytest.fixture
def here(stack: Stack, clock: ManualClock) -> Pushes:
    return pushes.on_table(stack, clock)


@pytest.fixture
def there(stack: Stack, clock: ManualClock, here: Pushes) -> Pushes:
    """Return the same context, used by another process."""
    return pushes.on_table(stack, clock, like=here)


@pytest.fixture
def tasks(here: Pushes) -> Faults:
    """Return the faults injected into the task store's writes."""
    return Faults(here.chat.store)


@pytest.fixture
def configs(here: Pushes) -> Faults:
    """Return the faults injected into the writes of push configs."""
    return Faults(here.configs)


def listens(there: Pushes) -> Callable[[], Awaitable[Any]]:
    return lambda: there.configs.put(there.key(), a_config())


# ── A push config is registered while an event is recorded ────────────────────────────────────────────────────────────


async def says(here: Pushes, turn: TurnStarted) -> set[int]:
    head = await here.chat.store.append(turn.lease, turn.head, here.chat.says(turn.head))
    assert head.push_epoch == 1
    return {head.generation}


async def ends(here: Pushes, turn: TurnStarted) -> set[int]:
    return {(await here.chat.ends(turn)).head.generation}


async def asks(here: Pushes, turn: TurnStarted) -> set[int]:
    return {(await here.chat.ends(turn, INPUT_REQUIRED)).head.generation}


@pytest.mark.parametrize("act", [says, ends, asks])
async def test_new_event_notifies_webhook_registered_meanwhile(
    here: Pushes, there: Pushes, tasks: Faults, act: Any
) -> None:
    turn = await here.chat.starts("m-1")
    tasks.meanwhile(listens(there))
    assert await act(here, turn) == await here.events_with_timers()


@pytest.mark.parametrize("run_next", [True, False])
async def test_turn_end_before_queued_turn_notifies_webhook_registered_meanwhile(
    here: Pushes, there: Pushes, tasks: Faults, run_next: bool
) -> None:
    turn = await here.chat.starts("m-1")
    await there.chat.waits("m-2")
    tasks.meanwhile(listens(there), nth=2)
    await here.chat.ends(turn, COMPLETED, run_next=run_next)
    assert await here.events_with_timers() == {3}


async def test_continued_task_notifies_webhook_registered_meanwhile(here: Pushes, there: Pushes, tasks: Faults) -> None:
    turn = await here.chat.starts("m-1")
    await there.chat.queues("t-m-1", "m-2")
    tasks.meanwhile(listens(there))
    await here.chat.ends(turn, WORKING, run_next=True)
    assert await here.events_with_timers() == {3, 4}


async def test_queued_message_notifies_webhook_registered_while_its_turn_begins(
    here: Pushes, there: Pushes, tasks: Faults
) -> None:
    turn = await here.chat.starts("m-1")
    await here.chat.queues("t-m-1", "m-2")
    await here.chat.ends(turn, WORKING)
    tasks.meanwhile(listens(there))
    assert (await here.chat.begins()).head.generation == 4
    assert await here.events_with_timers() == {4}


async def test_cancel_during_push_config_registration_is_refused(here: Pushes, there: Pushes, tasks: Faults) -> None:
    await here.chat.starts("m-1")
    tasks.meanwhile(listens(there))
    with pytest.raises(LeaseLost):
        await here.chat.cancels("t-m-1")
    await here.chat.cancels("t-m-1")
    assert await here.events_with_timers() == {3}


async def test_answer_during_push_config_registration_is_refused(here: Pushes, there: Pushes, tasks: Faults) -> None:
    more = await here.chat.more(await here.chat.asks("m-1"), "m-2")
    tasks.meanwhile(listens(there))
    with pytest.raises(LeaseLost):
        await here.chat.store.follow_up(more, holder="holder-2")


@pytest.mark.parametrize("what", ["somebody else begins to listen", "the task ends"])
async def test_message_with_push_config_is_refused_if_task_changed_meanwhile(
    here: Pushes, there: Pushes, tasks: Faults, what: str
) -> None:
    turn = await here.chat.starts("m-1")
    more = replace(await here.chat.more(turn.head, "m-2"), push=a_config("p-2"))
    tasks.meanwhile(listens(there) if what.startswith("somebody") else lambda: there.chat.ends(turn))
    with pytest.raises(LeaseLost):
        await here.chat.store.follow_up(more, holder="holder-2")
    assert [config.id for config in await here.configs.all(here.key())] in ([], ["p-1"])


async def test_event_is_stored_while_task_loses_its_last_subscriber(here: Pushes, there: Pushes, tasks: Faults) -> None:
    turn = await here.chat.starts("m-1")
    await here.configs.put(here.key(), a_config())
    await here.configs.delete(here.key(), "p-1")
    known = await here.chat.head("t-m-1")
    tasks.meanwhile(lambda: there.configs.clear_subscribers(known))
    head = await here.chat.store.append(turn.lease, known, here.chat.says(known))
    assert (head.generation, head.push_events) == (3, None)
    assert await here.events_with_timers() == set()


# ── Another process registers, delivers or sweeps ─────────────────────────────────────────────────────────────────────


async def test_concurrent_registrations_do_not_exceed_limit_of_push_configs(
    here: Pushes, there: Pushes, configs: Faults
) -> None:
    await here.chat.starts("m-1")
    for number in range(MAX_PUSH_CONFIGS - 1):
        await here.configs.put(here.key(), a_config(f"p-{number}"))
    configs.meanwhile(lambda: there.configs.put(there.key(), a_config("p-there")))
    with pytest.raises(TooManyPushConfigs):
        await here.configs.put(here.key(), a_config("p-here"))
    assert len(await here.configs.all(here.key())) == MAX_PUSH_CONFIGS


async def test_push_config_of_concurrently_deleted_task_is_refused(
    here: Pushes, there: Pushes, configs: Faults
) -> None:
    await here.chat.starts("m-1")
    key = keys.head_key(here.key())
    configs.meanwhile(lambda: there.table.write(Delete(key)))
    with pytest.raises(TaskNotFound):
        await here.configs.put(here.key(), a_config())
    assert await here.table.get(key) is None


async def test_push_timer_is_claimed_by_only_one_concurrent_sweep(here: Pushes, there: Pushes, configs: Faults) -> None:
    await here.chat.starts("m-1")
    await here.configs.put(here.key(), a_config())
    here.clock.move(LEASE_SECONDS + 1)
    (expired_timers,) = await here.expired_timers()
    configs.meanwhile(lambda: there.configs.claim_expired(expired_timers), operation=UPDATE)
    assert not await here.configs.claim_expired(expired_timers)


async def test_push_config_registered_during_sweep_keeps_timer(here: Pushes, there: Pushes, configs: Faults) -> None:
    await here.chat.starts("m-1")
    await here.configs.put(here.key(), a_config())
    here.clock.move(LEASE_SECONDS + 1)
    (expired_timers,) = await here.expired_timers()
    await there.table.write(Update(keys.push_key(here.key(), "p-1"), Change({"expires": 1})))
    configs.meanwhile(lambda: there.configs.put(here.key(), a_config()), operation=UPDATE)
    assert not await here.configs.claim_expired(expired_timers)
    assert (await here.delivery()).due_at is not None


async def test_clear_of_missing_push_timer_stores_nothing(here: Pushes) -> None:
    await here.chat.starts("m-1")
    await here.configs.clear(here.key(), 9)
    assert await here.table.get(keys.event_key(here.key(), 9)) is None


@pytest.mark.parametrize("act", ["put", "claim", "settle"])
async def test_push_config_write_succeeds_if_first_response_is_lost(here: Pushes, configs: Faults, act: str) -> None:
    await here.chat.starts("m-1")
    if act == "put":
        # Lose two responses, because boto3 repeats a request without a response. The repeated request finds the write
        # of the first request.
        configs.lose_answers("TransactWriteItems", times=2)
        delivery = await here.configs.put(here.key(), a_config())
        assert delivery == await here.delivery()
        assert (await here.chat.head("t-m-1")).push_epoch == 1
        return
    await here.configs.put(here.key(), a_config())
    if act == "claim":
        configs.lose_answers(UPDATE, times=2)
        assert (await here.claimed()).delivery == await here.delivery()
        return
    claim = await here.claimed()
    configs.lose_answers(UPDATE, times=2)
    await here.configs.settle(claim, cursor=2)
    assert (await here.delivery()).claimed_until is None


async def test_retry_with_changed_writes_uses_new_transaction_token(
    here: Pushes, there: Pushes, configs: Faults
) -> None:
    """A concurrent write changes the planned writes: DynamoDB refuses them under the token of the first attempt."""
    await here.chat.starts("m-1")
    sent: dict[str, list[Any]] = {}

    def note(params: dict[str, Any], **_: Any) -> None:
        here.clock.move(0.001)
        sent.setdefault(params["ClientRequestToken"], []).append(params["TransactItems"])

    events_of(here.table).register("before-parameter-build.dynamodb.TransactWriteItems", note)
    configs.meanwhile(listens(there))
    configs.lose_answers("TransactWriteItems", times=2)
    await here.configs.put(here.key(), a_config("p-2"))
    assert len(sent) == 2
    assert all(writes == first for first, *others in sent.values() for writes in others)
    assert [config.id for config in await here.configs.all(here.key())] == ["p-1", "p-2"]


# ── Stored items ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def push(adapter: Stack | None, clock: ManualClock) -> Pushes:
    return pushes.on_table(adapter, clock)


async def test_push_table_has_no_plaintext_secret(push: Pushes) -> None:
    """Without the encryption key, a reader of the table finds neither the config's token nor its URL."""
    await push.chat.store.create(replace(push.chat.message("m-1"), push=a_config()), holder="holder-1")
    await push.configs.put(push.key(), a_config("p-2"))
    for config_id in ("p-1", "p-2"):
        assert "hidden" not in str(await push.table.get(keys.push_key(push.key(), config_id)))
    assert "hidden" not in repr(await push.configs.all(push.key()))
    assert "hidden" not in repr(await push.claimed())


async def test_push_config_moved_to_other_task_raises_store_corrupt(push: Pushes) -> None:
    await push.chat.store.create(replace(push.chat.message("m-1"), push=a_config()), holder="holder-1")
    await push.chat.waits("m-2")
    item = await push.table.get(keys.push_key(push.key(), "p-1"))
    assert item is not None
    moved = {name: value for name, value in item.items() if name not in (PARTITION, SORT)}
    await push.table.write(Put(keys.push_key(push.key("t-m-2"), "p-1"), moved))
    with pytest.raises(StoreCorrupt):
        await push.configs.get(push.key("t-m-2"), "p-1")
