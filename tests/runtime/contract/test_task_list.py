"""Contract of `TaskList` on each table, also while the index lags behind the table."""

import asyncio
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from msgspec.structs import replace

from aion_core.engine.admission import messages
from aion_core.engine.call import CallContext
from aion_core.engine.listing import task_list
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.listing.task_list import ListCursor, TaskFilter, TaskList
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.task import timestamps
from aion_core.engine.task_store import TaskStore
from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import ListTasksRequest, Message, Part, Role, TaskState, TaskStatusUpdateEvent
from aion_core.table import keys, retries
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.port import Table
from aion_core.table.writes import Delete
from tests.runtime.contract.faults import events_of
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.stores import new_owner, store_of, table_of

START = datetime(2026, 1, 1, microsecond=500_000, tzinfo=UTC)
WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
DAY = 24 * 3600


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@dataclass
class ListedTasks:
    """Tasks of a store, and the list of these tasks."""

    store: TaskStore
    tasks: TaskList
    table: Table
    mine: TaskFilter = field(default_factory=lambda: TaskFilter(new_owner(), "echo"))
    turns: dict[TaskKey, TurnStarted] = field(default_factory=dict)

    async def add(self, task_id: str, seconds: float, *, of: ContextKey | None = None) -> TaskKey:
        """Add a running task whose status has this timestamp."""
        of = of or ContextKey(self.mine.owner, self.mine.agent, f"c-{task_id}")
        message = Message(message_id=f"m-{task_id}", role=Role.ROLE_USER, parts=[Part(text="hi")])
        new = messages.new_task(
            message, of, task_id=task_id, turn_id=f"turn-{task_id}", at=at(seconds), context_is_new=False
        )
        begun = await self.store.create(new, holder="holder-1")
        if isinstance(begun, TurnStarted):
            self.turns[new.key] = begun
        return new.key

    async def move(self, key: TaskKey, seconds: float, state: TaskState = WORKING) -> None:
        """Change the task's status; the new status has this timestamp."""
        begun = self.turns[key]
        status = timestamps.status_at(state, at(seconds))
        event = TaskStatusUpdateEvent(task_id=key.task_id, context_id=begun.head.context.context_id, status=status)
        head = await self.store.append(begun.lease, begun.head, event)
        self.turns[key] = TurnStarted(begun.lease, head)

    async def ids(
        self, tasks: TaskFilter | None = None, *, limit: int = 100, after: ListCursor | None = None
    ) -> list[str]:
        places = (await self.tasks.page(tasks or self.mine, after=after, limit=limit)).found
        assert len(places) <= limit
        assert list(places) == sorted(places, reverse=True)
        return [place.task_id for place in places]

    async def all_pages(self, tasks: TaskFilter, limit: int) -> list[str]:
        found: list[ListCursor] = []
        while places := (await self.tasks.page(tasks, after=found[-1] if found else None, limit=limit)).found:
            assert len(places) == limit or not (await self.tasks.page(tasks, after=places[-1], limit=1)).found
            found.extend(places)
            assert len(found) == len(set(found)), "a page leads back"
        return [place.task_id for place in found]


@pytest.fixture
def kept(adapter: Stack | None, clock: ManualClock) -> ListedTasks:
    return on_table(adapter, clock)


def on_table(stack: Stack | None, clock: ManualClock) -> ListedTasks:
    table = table_of(stack, clock)
    return ListedTasks(store_of(table, stack, clock), TaskList(table, clock), table)


# ── Order and pages ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("context_id", ["_nano", "a#b", "slack|C1|17", "a b", "é" * 256])
async def test_task_list_filters_by_context_id_of_any_characters(kept: ListedTasks, context_id: str) -> None:
    context = ContextKey(kept.mine.owner, kept.mine.agent, context_id)
    await kept.add("t-1", 1, of=context)
    await kept.add("t-2", 2)
    assert await kept.ids(replace(kept.mine, context_id=context_id)) == ["t-1"]


async def test_tasks_are_sorted_by_status_time_and_id(kept: ListedTasks) -> None:
    first = await kept.add("t-1", 1)
    await kept.add("t-3", 2)
    await kept.add("t-4", 2)
    await kept.add("t-2", 2)
    assert await kept.ids() == ["t-4", "t-3", "t-2", "t-1"]
    await kept.move(first, 1.999)
    assert await kept.ids() == ["t-4", "t-3", "t-2", "t-1"]
    await kept.move(first, 2.001)
    assert await kept.ids() == ["t-1", "t-4", "t-3", "t-2"]


async def test_task_list_cursor_has_status_time_in_milliseconds(kept: ListedTasks) -> None:
    key = await kept.add("t-1", 1.0019)
    head = await kept.store.head(key)
    assert head is not None
    assert (await kept.tasks.page(kept.mine, after=None, limit=1)).found == [ListCursor(head.timestamp, "t-1")]
    assert head.timestamp == at(1.001)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
async def test_task_list_pages_contain_each_task_once(kept: ListedTasks, limit: int) -> None:
    for number in range(7):
        await kept.add(f"t-{number}", number // 3)
    assert await kept.all_pages(kept.mine, limit) == [f"t-{number}" for number in range(6, -1, -1)]


async def test_task_list_continues_after_last_listed_task_has_moved(kept: ListedTasks) -> None:
    tasks = [await kept.add(f"t-{number}", number) for number in range(4)]
    place = (await kept.tasks.page(kept.mine, after=None, limit=2)).found[-1]
    assert place.task_id == "t-2"
    await kept.move(tasks[2], 9)
    assert await kept.ids(after=place) == ["t-1", "t-0"]
    assert await kept.ids(after=ListCursor(at(1), "t-")) == ["t-0"]
    assert await kept.ids(after=ListCursor(at(1), "t-9")) == ["t-1", "t-0"]
    assert await kept.ids(after=ListCursor(at(-1), "")) == []


@pytest.mark.parametrize("seed", range(4))
async def test_task_changed_between_pages_is_not_listed_twice(kept: ListedTasks, seed: int) -> None:
    chance = random.Random(seed)  # not used for cryptography
    now, moved = 100.0, set[str]()
    tasks = [await kept.add(f"t-{number:02d}", chance.randrange(50)) for number in range(24)]
    before = await kept.ids()
    found: list[str] = []
    after: ListCursor | None = None
    while places := (await kept.tasks.page(kept.mine, after=after, limit=5)).found:
        found.extend(place.task_id for place in places)
        after = places[-1]
        for task in chance.sample(tasks, 3):
            now += chance.randrange(2)
            await kept.move(task, now, chance.choice([WORKING, TaskState.TASK_STATE_INPUT_REQUIRED]))
            moved.add(task.task_id)
        await kept.add(f"new-{now}-{len(found)}", now)
    assert len(found) == len(set(found))
    assert [task for task in found if task not in moved] == [task for task in before if task not in moved]


# ── Filters ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a#b", "c", "x"), ("a", "b#c", "x")),
        (("a#", "b", "x"), ("a", "#b", "x")),
        (("a", "b", "c#d"), ("a", "b#c", "d")),
        (("a#b", "c", "d"), ("a", "b", "c#d")),
        (("a", "b", "c"), ("a", "b#c", "c")),
        (("a%23b", "c", "x"), ("a#b", "c", "x")),
        (("a", "b%23c", "x"), ("a", "b#c", "x")),
        (("a", "b", "x"), ("A", "b", "x")),
        (("a", "b", "c/d é"), ("a", "b/c", "d é")),
    ],
)
async def test_task_list_does_not_mix_owners_agents_or_contexts(
    kept: ListedTasks, one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    owner = new_owner()
    mine, others = (ContextKey(f"{owner}{who[0]}", *who[1:]) for who in (one, other))
    await kept.add("t-mine", 1, of=mine)
    await kept.add("t-other", 2, of=others)
    for context, task_id in ((mine, "t-mine"), (others, "t-other")):
        tasks = TaskFilter(context.owner, context.agent)
        in_context = replace(tasks, context_id=context.context_id)
        assert await kept.ids(tasks) == await kept.ids(in_context) == [task_id]
        assert await kept.tasks.count(tasks) == await kept.tasks.count(in_context) == 1


async def test_context_filter_lists_tasks_of_that_context(kept: ListedTasks) -> None:
    context = ContextKey(kept.mine.owner, kept.mine.agent, "shared")
    for number in range(3):
        await kept.add(f"in-{number}", number, of=context)
    await kept.add("out", 1.5)
    shared = replace(kept.mine, context_id="shared")
    assert await kept.ids() == ["in-2", "out", "in-1", "in-0"]
    assert await kept.all_pages(shared, 2) == ["in-2", "in-1", "in-0"]
    for unknown in (
        replace(kept.mine, context_id="unknown"),
        replace(shared, agent="another"),
        replace(shared, owner=new_owner()),
    ):
        assert await kept.ids(unknown) == []
        assert await kept.tasks.count(unknown) == 0


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_state_filter_finds_few_tasks_among_many(
    kept: ListedTasks, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "READ", 4)
    tasks = [await kept.add(f"t-{number:02d}", number) for number in range(30)]
    for number in (0, 1, 2, 17, 29):
        await kept.move(tasks[number], number, COMPLETED)
    completed = replace(kept.mine, state=COMPLETED)
    assert await kept.all_pages(completed, limit) == ["t-29", "t-17", "t-02", "t-01", "t-00"]
    assert await kept.tasks.count(completed) == 5
    assert await kept.tasks.count(replace(kept.mine, state=WORKING)) == 25
    assert await kept.ids(replace(kept.mine, state=TaskState.TASK_STATE_FAILED)) == []
    await kept.move(tasks[20], 40, COMPLETED)
    assert (await kept.ids(completed))[0] == "t-20", "its new state is listed at once"


async def test_read_for_rare_state_stops_and_continues(kept: ListedTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that follows the pages finds each task, although one page reads only MAX_READS pages of the index."""
    monkeypatch.setattr(task_list, "READ", 2)
    monkeypatch.setattr(task_list, "MAX_READS", 3)
    tasks = [await kept.add(f"t-{number:02d}", number) for number in range(20)]
    for number in (3, 11):
        await kept.move(tasks[number], number, COMPLETED)
    lister, call = TaskLister(kept.store, kept.tasks), CallContext(kept.mine.owner, kept.mine.agent)
    pages, asked = [], ListTasksRequest(page_size=1, status=COMPLETED)
    while True:
        page = await lister.list_tasks(call, asked)
        pages.append([task.id for task in page.tasks])
        if not page.next_page_token:
            break
        asked.page_token = page.next_page_token
    assert list(chain(*pages)) == ["t-11", "t-03"]
    assert len(pages) in (4, 5), "each page reads six entries: one for what it looks for, or none"
    assert [] in pages


@pytest.mark.parametrize(("tasks", "total"), [(4, 4), (5, 5), (6, 5)], ids=["below", "at", "above"])
async def test_total_is_exact_up_to_its_limit(
    kept: ListedTasks, monkeypatch: pytest.MonkeyPatch, tasks: int, total: int
) -> None:
    monkeypatch.setattr(task_list, "MAX_TOTAL", 5)
    for number in range(tasks):
        await kept.add(f"t-{number}", number)
    assert await kept.tasks.count(kept.mine) == total
    assert await kept.tasks.count(replace(kept.mine, state=WORKING)) == total


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (0.0, ["t-3", "t-2", "t-1"]),
        (1.0, ["t-3", "t-2", "t-1"]),
        (1.000001, ["t-3", "t-2"]),
        (1.001, ["t-3", "t-2"]),
        (2.0, ["t-3", "t-2"]),
        (2.5, ["t-3"]),
        (3.0, ["t-3"]),
        (3.001, []),
        (DAY, []),
        (-DAY * 365 * 100, ["t-3", "t-2", "t-1"]),
    ],
)
async def test_status_time_filter_includes_tasks_at_that_exact_time(
    kept: ListedTasks, since: float, expected: list[str]
) -> None:
    for number in (1, 2, 3):
        await kept.add(f"t-{number}", number)
    tasks = replace(kept.mine, since=at(since))
    assert await kept.ids(tasks) == expected
    assert await kept.all_pages(tasks, 1) == expected
    assert await kept.tasks.count(tasks) == len(expected)
    assert await kept.ids(tasks, after=ListCursor(at(1), "t-1")) == []


async def test_lower_bound_of_task_query_never_exceeds_upper_bound(stack: Stack, clock: ManualClock) -> None:
    """DynamoDB refuses a query whose lower bound is above the upper bound; the emulators accept it."""
    kept = on_table(stack, clock)
    await kept.add("t-1", 1)
    asked: list[list[str]] = []

    def bounds(params: dict[str, Any], **_: Any) -> None:
        between = re.search(r"BETWEEN (:\w+) AND (:\w+)", params["KeyConditionExpression"])
        assert between is not None
        asked.append([params["ExpressionAttributeValues"][name]["S"] for name in between.groups()])

    events_of(kept.table).register("before-parameter-build.dynamodb.Query", bounds)
    assert await kept.ids(replace(kept.mine, since=at(2)), after=ListCursor(at(1), "t-1")) == []
    assert await kept.ids(after=ListCursor(datetime(1960, 1, 1, tzinfo=UTC), "t-1")) == []
    assert all(first <= last for first, last in asked)


async def test_task_count_equals_number_of_listed_tasks(kept: ListedTasks) -> None:
    context = ContextKey(kept.mine.owner, kept.mine.agent, "shared")
    for number in range(20):
        key = await kept.add(f"t-{number:02d}", number, of=context if number % 2 else None)
        if number % 4 == 0:
            await kept.move(key, number, COMPLETED)
    for tasks, count in (
        (kept.mine, 20),
        (replace(kept.mine, context_id="shared"), 10),
        (replace(kept.mine, state=COMPLETED), 5),
        (replace(kept.mine, since=at(10)), 10),
        (replace(kept.mine, state=COMPLETED, since=at(10)), 2),
        (replace(kept.mine, state=WORKING, since=at(10), context_id="shared"), 5),
    ):
        assert await kept.tasks.count(tasks) == len(await kept.all_pages(tasks, 3)) == count


# ── Secret of page tokens ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_page_token_secret_is_random_and_permanent(kept: ListedTasks) -> None:
    secret = await kept.tasks.secret()
    assert len(secret) >= 32
    assert len(set(secret)) > 8
    assert await kept.tasks.secret() == secret


async def without_secret(kept: ListedTasks) -> ListedTasks:
    """Return the task list after deleting the secret that signs its page tokens."""
    await kept.table.write(Delete(keys.secret_key("page-tokens")))
    return kept


async def stored_secret(kept: ListedTasks) -> bytes:
    item = await kept.table.get(keys.secret_key("page-tokens"))
    assert item is not None
    secret: bytes = item["secret"]
    return secret


async def test_concurrent_processes_create_only_one_page_token_secret(kept: ListedTasks, clock: ManualClock) -> None:
    await without_secret(kept)
    secrets = await asyncio.gather(*(TaskList(kept.table, clock).secret() for _ in range(12)))
    assert set(secrets) == {await stored_secret(kept)}


async def test_page_token_secret_created_by_another_process_is_used(stack: Stack, clock: ManualClock) -> None:
    mine, other = await without_secret(on_table(stack, clock)), on_table(stack, clock)
    others: list[bytes] = []

    def meanwhile(**_: Any) -> None:
        if not others:
            others.append(asyncio.run(other.tasks.secret()))

    events_of(mine.table).register("before-call.dynamodb.PutItem", meanwhile)
    assert [await mine.tasks.secret()] == others == [await stored_secret(other)]


async def test_page_token_secret_is_used_although_write_response_was_lost(stack: Stack, clock: ManualClock) -> None:
    mine = await without_secret(on_table(stack, clock))
    lost: list[bool] = []

    def lose(**_: Any) -> None:
        if not lost:
            lost.append(True)
            raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

    events_of(mine.table).register("after-call.dynamodb.PutItem", lose)
    with pytest.raises(StoreUnavailable):
        await mine.tasks.secret()
    assert await mine.tasks.secret() == await stored_secret(mine)


# ── Expired tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_expired_tasks_are_not_listed(
    kept: ListedTasks, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "READ", 2)
    for number in range(7):
        # Give the tasks that will expire the latest status times, so that they come first in the list.
        await kept.add(f"old-{number}", 10 + number)
    clock.move(10 * DAY)
    for number in range(3):
        await kept.add(f"new-{number}", number)
    assert len(await kept.ids()) == await kept.tasks.count(kept.mine) == 10
    clock.move(25 * DAY)
    assert await kept.ids() == ["new-2", "new-1", "new-0"]
    assert await kept.all_pages(kept.mine, 1) == ["new-2", "new-1", "new-0"]
    assert await kept.ids(replace(kept.mine, state=WORKING), limit=2) == ["new-2", "new-1"]
    assert await kept.tasks.count(kept.mine) == 3


# ── Lagging index ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Lag:
    """Index that lags: a repeated query returns its earlier result."""

    def __init__(self, table: Table) -> None:
        self.stands_still = False
        self._answers: dict[bytes, Any] = {}
        events = events_of(table)
        events.register("before-call.dynamodb.Query", self._before)
        events.register("after-call.dynamodb.Query", self._after)

    def _before(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> Any:
        asked = context["asked"] = params["body"]
        # Return old results for index queries only, because the store's other reads are strongly consistent.
        if not self.stands_still or b"IndexName" not in asked:
            return None

        class FakeListResponse:
            status_code = 200

        assert asked in self._answers, "only what was asked before can be asked of an index that stands still"
        return FakeListResponse(), self._answers[asked]

    def _after(self, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        self._answers.setdefault(context["asked"], parsed)


@pytest.fixture
def lagging(stack: Stack, clock: ManualClock) -> tuple[ListedTasks, Lag, TaskLister]:
    kept = on_table(stack, clock)
    return kept, Lag(kept.table), TaskLister(kept.store, kept.tasks)


async def listed(lister: TaskLister, kept: ListedTasks, **request: Any) -> list[str]:
    answer = await lister.list_tasks(CallContext(kept.mine.owner, kept.mine.agent), ListTasksRequest(**request))
    for task in answer.tasks:
        assert request.get("status") in (None, task.status.state)
    times = [task.status.timestamp.ToNanoseconds() for task in answer.tasks]
    assert times == sorted(times, reverse=True)
    return [task.id for task in answer.tasks]


@pytest.mark.exact_times
async def test_listed_task_is_current_although_index_lags(
    lagging: tuple[ListedTasks, Lag, TaskLister],
) -> None:
    kept, lag, lister = lagging
    tasks = [await kept.add(f"t-{number}", number) for number in range(4)]
    assert await listed(lister, kept) == ["t-3", "t-2", "t-1", "t-0"]
    lag.stands_still = True
    await kept.move(tasks[1], 9, COMPLETED)
    assert await listed(lister, kept) == ["t-1", "t-3", "t-2", "t-0"]


@pytest.mark.exact_times
async def test_task_is_not_listed_by_outdated_state_in_index(
    lagging: tuple[ListedTasks, Lag, TaskLister],
) -> None:
    kept, lag, lister = lagging
    tasks = [await kept.add(f"t-{number}", number) for number in range(3)]
    assert len(await listed(lister, kept, status=WORKING)) == 3
    lag.stands_still = True
    await kept.move(tasks[1], 1, COMPLETED)
    assert await listed(lister, kept, status=WORKING) == ["t-2", "t-0"]


@pytest.mark.exact_times
async def test_deleted_task_is_not_listed(lagging: tuple[ListedTasks, Lag, TaskLister]) -> None:
    kept, lag, lister = lagging
    tasks = [await kept.add(f"t-{number}", number) for number in range(3)]
    await listed(lister, kept)
    lag.stands_still = True
    await kept.table.write(Delete(keys.head_key(tasks[2])))
    await kept.table.write(Delete(keys.event_key(tasks[1], 1)))
    assert await listed(lister, kept) == ["t-0"], "nor is one listed whose log has a gap"


@pytest.mark.exact_times
async def test_moved_task_is_not_listed_at_its_old_place(
    lagging: tuple[ListedTasks, Lag, TaskLister],
) -> None:
    kept, lag, lister = lagging
    tasks = [await kept.add(f"t-{number}", number) for number in range(4)]
    call = CallContext(kept.mine.owner, kept.mine.agent)
    token = (await lister.list_tasks(call, ListTasksRequest(page_size=2))).next_page_token
    old = ListTasksRequest(page_size=2, page_token=token)
    assert [task.id for task in (await lister.list_tasks(call, old)).tasks] == ["t-1", "t-0"]
    await kept.move(tasks[1], 9)
    assert await listed(lister, kept, page_size=1) == ["t-1"], "here it is now"
    lag.stands_still = True
    answer = await lister.list_tasks(call, old)
    assert [task.id for task in answer.tasks] == ["t-0"]
    assert answer.next_page_token == ""


async def test_task_list_page_is_filled_despite_deleted_tasks(
    kept: ListedTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Shorten the pauses, because the store tries to read each missing event eight times.
    monkeypatch.setattr(retries, "FIRST_WAIT_SECONDS", 0.0002)
    lister = TaskLister(kept.store, kept.tasks)
    tasks = [await kept.add(f"t-{number:02d}", number) for number in range(20)]
    for number in (19, 18, 17, *range(1, 14)):
        # Delete one event only, because DynamoDB deletes the items of an expired task one by one.
        await kept.table.write(Delete(keys.event_key(tasks[number], 1)))
    assert await listed(lister, kept, page_size=3) == ["t-16", "t-15", "t-14"]
    found: list[str] = []
    token = ""
    for _ in range(20):
        call = CallContext(kept.mine.owner, kept.mine.agent)
        answer = await lister.list_tasks(call, ListTasksRequest(page_size=2, page_token=token))
        found.extend(task.id for task in answer.tasks)
        token = answer.next_page_token
        if not token:
            break
    assert found == ["t-16", "t-15", "t-14", "t-00"], "short pages in between lead on to the end"
    assert not token


async def test_task_with_two_index_entries_is_listed_once(stack: Stack, clock: ManualClock) -> None:
    """DynamoDB may add a task's new index entry before it deletes the old one."""
    kept = on_table(stack, clock)
    tasks = [await kept.add(f"t-{number}", number) for number in range(3)]
    await kept.move(tasks[0], 9)

    def both(parsed: dict[str, Any], **_: Any) -> None:
        old = keys.listing_at(int(at(0).timestamp() * 1000), "t-0")
        if len(parsed.get("Items", ())) == 3:
            parsed["Items"].append({**parsed["Items"][0], "listing_at": {"S": old}})

    events_of(kept.table).register("after-call.dynamodb.Query", both)
    assert await kept.ids() == ["t-0", "t-2", "t-1"]
