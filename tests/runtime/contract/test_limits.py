"""Contract of `RateLimits` on each table."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.limits.limits import Limits, OpenStream, OpenTask
from aion_core.engine.limits.open_tasks import BEING_CREATED
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.errors import TooManyRequests
from aion_core.table import keys
from aion_core.table.keys import TaskKey
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.databases import Stack
from tests.support.stores import store_of, table_of


@pytest.fixture
def limits(adapter: Stack | None, clock: ManualClock) -> RateLimits:
    return RateLimits(table_of(adapter, clock), clock)


@pytest.fixture
def owner() -> str:
    return f"principal:{uuid4()} #with/odd?characters"


async def taken(limits: RateLimits, owner: str, times: int, per_minute: int) -> int:
    waits = [await limits.take(owner, per_minute=per_minute) for _ in range(times)]
    return waits.count(0.0)


@pytest.mark.exact_times
async def test_requests_per_minute_are_limited_for_each_owner(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    assert await taken(limits, owner, 8, per_minute=6) == 6
    assert await taken(limits, f"{owner}2", 1, per_minute=6) == 1, "another's are another's"
    wait = await limits.take(owner, per_minute=6)
    assert wait == pytest.approx(10, abs=0.01)
    assert await limits.take(owner, per_minute=6) == wait, "what is refused is not counted"


async def test_rate_limit_bucket_refills_evenly_up_to_its_size(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    assert await taken(limits, owner, 7, per_minute=6) == 6
    clock.move(9)
    assert 0 < await limits.take(owner, per_minute=6) <= 1.01
    clock.move(1.01)
    assert await taken(limits, owner, 2, per_minute=6) == 1
    clock.move(25)
    assert await taken(limits, owner, 4, per_minute=6) == 2
    clock.move(100_000)
    assert await taken(limits, owner, 8, per_minute=6) == 6


async def test_concurrent_requests_do_not_exceed_limit(limits: RateLimits, owner: str) -> None:
    waits = await asyncio.gather(*(limits.take(owner, per_minute=5) for _ in range(12)))
    assert waits.count(0.0) == 5


def stream(clock: ManualClock, task_id: str = "t", seconds: float = 60) -> OpenStream:
    return OpenStream(uuid4().hex, task_id, clock.now() + timedelta(seconds=seconds))


async def test_streams_of_owner_are_limited(limits: RateLimits, clock: ManualClock, owner: str) -> None:
    """Refuse a stream above the owner's limit, until an open stream ends."""
    allowed = Limits(streams_per_owner=2)
    first = stream(clock, "a")
    assert await limits.open_stream(owner, first, allowed)
    assert await limits.open_stream(owner, stream(clock, "b"), allowed)
    refused = stream(clock, "c")
    assert not await limits.open_stream(owner, refused, allowed)
    assert await limits.open_stream(f"{owner}2", stream(clock, "a"), allowed)
    await limits.close_stream(owner, refused)
    assert not await limits.open_stream(owner, stream(clock), allowed), "what was not open made no room"
    await limits.close_stream(owner, first)
    await limits.close_stream(owner, first)
    assert await limits.open_stream(owner, stream(clock), allowed)
    assert not await limits.open_stream(owner, stream(clock), allowed)


async def test_streams_of_task_are_limited(limits: RateLimits, clock: ManualClock, owner: str) -> None:
    allowed = Limits(streams_per_task=1)
    assert await limits.open_stream(owner, stream(clock, "a"), allowed)
    assert not await limits.open_stream(owner, stream(clock, "a"), allowed)
    assert await limits.open_stream(owner, stream(clock, "b"), allowed)
    for _ in range(3):
        assert await limits.open_stream(owner, stream(clock, ""), allowed), "of a task that is yet to be made"


async def test_stream_of_dead_process_stops_counting_after_expiry(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    allowed = Limits(streams_per_owner=1)
    assert await limits.open_stream(owner, stream(clock, seconds=60), allowed)
    clock.move(59)
    assert not await limits.open_stream(owner, stream(clock), allowed)
    clock.move(2)
    assert await limits.open_stream(owner, stream(clock), allowed)
    clock.move(100_000)
    assert await limits.open_stream(owner, stream(clock), allowed)


async def test_concurrently_opened_streams_do_not_exceed_owners_limit(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    allowed = Limits(streams_per_owner=2)
    opened = await asyncio.gather(*(limits.open_stream(owner, stream(clock), allowed) for _ in range(5)))
    assert opened.count(True) == 2


async def test_concurrent_streams_up_to_limit_are_all_opened(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    allowed = Limits(streams_per_owner=100)
    assert all(await asyncio.gather(*(limits.open_stream(owner, stream(clock), allowed) for _ in range(100))))
    assert not await limits.open_stream(owner, stream(clock), allowed)


async def test_concurrent_streams_do_not_exceed_limit_of_task(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    allowed = Limits(streams_per_task=2)
    opened = await asyncio.gather(*(limits.open_stream(owner, stream(clock, "a"), allowed) for _ in range(5)))
    assert opened.count(True) <= 2


def task(clock: ManualClock, owner: str, task_id: str) -> OpenTask:
    return OpenTask(TaskKey(owner, task_id), clock.now().replace(microsecond=7000))


async def test_open_tasks_of_owner_are_limited(limits: RateLimits, clock: ManualClock, owner: str) -> None:
    """A refusal returns the counted open tasks; `forget_tasks` removes ended ones and makes room."""
    ours = [task(clock, owner, "a"), task(clock, f"tenant:of-{owner}", "b#c")]
    for each in ours:
        assert not await limits.count_task(owner, each, most=2)
    third = task(clock, owner, "d")
    assert set(await limits.count_task(owner, third, most=2)) == set(ours)
    assert not await limits.count_task(f"{owner}2", third, most=2), "another's are another's"
    clock.move(100_000)
    assert set(await limits.count_task(owner, third, most=2)) == set(ours), "nobody has said that they have ended"
    await limits.forget_tasks(owner, [])
    await limits.forget_tasks(owner, [third, ours[1]])
    await limits.forget_tasks(f"{owner}-nobody", [third])
    assert not await limits.count_task(owner, third, most=2)
    assert set(await limits.count_task(owner, ours[1], most=2)) == {ours[0], third}
    await limits.forget_tasks(owner, [ours[0], third])
    assert not await limits.count_task(owner, ours[1], most=1)


async def test_concurrently_created_tasks_do_not_exceed_limit(
    limits: RateLimits, clock: ManualClock, owner: str
) -> None:
    counted = await asyncio.gather(*(limits.count_task(owner, task(clock, owner, f"t-{n}"), most=3) for n in range(9)))
    assert [len(each) for each in counted].count(0) == 3


# ── Open tasks with a task store ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.exact_times
async def test_task_that_is_never_stored_counts_for_one_minute(clock: ManualClock) -> None:
    """Count a task before it is stored; if nobody stores it, the count ends after a minute."""
    table = table_of(None, clock)
    store = store_of(table, None, clock)
    open_tasks = OpenTasks(RateLimits(table, clock), store, clock, most=1)
    chat = StoreConversation(store, clock)
    await open_tasks.admit("ann", chat.message("m-1"))
    clock.move(BEING_CREATED.total_seconds() - 0.001)
    with pytest.raises(TooManyRequests):
        await open_tasks.admit("ann", chat.message("m-2"))
    clock.move(0.002)
    await open_tasks.admit("ann", chat.message("m-2"))
    with pytest.raises(TooManyRequests):
        await open_tasks.admit("ann", chat.message("m-3"))


async def test_stream_opened_twice_counts_once_for_limit(limits: RateLimits, clock: ManualClock, owner: str) -> None:
    """A client whose response was lost opens the same stream again: the limit counts one stream."""
    allowed, once = Limits(streams_per_owner=1), stream(clock)
    assert await limits.open_stream(owner, once, allowed)
    assert await limits.open_stream(owner, once, allowed)
    assert not await limits.open_stream(owner, stream(clock), allowed)


async def test_removing_open_tasks_of_unknown_owner_stores_nothing(
    adapter: Stack | None, clock: ManualClock, owner: str
) -> None:
    table = table_of(adapter, clock)
    await RateLimits(table, clock).forget_tasks(owner, [task(clock, owner, "a")])
    assert await table.get(keys.tasks_key(owner)) is None
