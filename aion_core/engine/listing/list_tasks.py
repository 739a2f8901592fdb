"""ListTasks operation: reads the filter of a request, and returns pages of current tasks."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from a2a.utils.task import apply_history_length
from google.protobuf.timestamp_pb2 import Timestamp

from aion_core.engine.call import CallContext
from aion_core.engine.isolation import is_visible
from aion_core.engine.listing import page_tokens
from aion_core.engine.listing.task_list import ListCursor, TaskFilter, TaskList
from aion_core.engine.records import Head
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import projection
from aion_core.errors import InvalidMessage, StoreCorrupt
from aion_core.protocol.ids import ID_RULE, is_id
from aion_core.protocol.message_rules import check_history_length
from aion_core.protocol.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from aion_core.table.keys import TaskKey

logger = logging.getLogger(__name__)

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100
"""Largest pageSize (A2A 3.1.4)."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Limit of a page in bytes of protobuf: a buffered Lambda response has at most 6 MB, and JSON is larger."""

LOADS = 8
"""Number of tasks loaded in parallel, half of the threads of the store's executor."""

READS = 4
"""Limit of index reads for one page. If the index has many stale entries, the page may be short."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MILLISECOND = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


class TaskLister:
    """Reader of pages of a caller's tasks, newest status first."""

    def __init__(self, store: StoredTasks, task_list: TaskList) -> None:
        self._store, self._list = store, task_list

    async def list_tasks(self, call: CallContext, request: ListTasksRequest) -> ListTasksResponse:
        """Return the requested page of the caller's tasks (A2A 3.1.4).

        The tasks come from the log, because the index may be outdated. A page may be short or empty although more pages
        follow; the last page has an empty nextPageToken. The total is exact up to MAX_TOTAL; see `TaskList.count`. If a task changes between two pages, the list may miss it, but
        does not repeat it (unless its status timestamp went back). A new list from the first page includes the task.
        Raises InvalidMessage.
        """
        tasks, size = wanted(call, request), page_size(request)
        check_history_length(request.history_length, "historyLength")
        secret = await self._list.secret()
        after = page_tokens.read(secret, tasks, request.page_token) if request.page_token else None
        (page, last), total = await asyncio.gather(self._page(tasks, request, after, size), self._list.count(tasks))
        return ListTasksResponse(
            tasks=page,
            next_page_token=page_tokens.make(secret, tasks, last) if last else "",
            page_size=size,
            total_size=total,
        )

    async def _page(
        self, tasks: TaskFilter, request: ListTasksRequest, after: ListCursor | None, size: int
    ) -> tuple[Sequence[Task], ListCursor | None]:
        """Return the tasks of a page, and the cursor of the next page (None on the last page)."""
        page: list[tuple[ListCursor, Task]] = []
        bytes_left = MAX_PAGE_BYTES
        for _ in range(READS):
            is_first, room = after is None, size - len(page)
            # Read one more entry than the page can hold, to find out if another page follows.
            listed = await self._list.page(tasks, after=after, limit=room + 1)
            entries, more = listed.found, len(listed.found) > room
            for some in (entries[start : min(start + LOADS, room)] for start in range(0, room, LOADS)):
                loaded_tasks = await asyncio.gather(*(self._load(tasks, entry, is_first=is_first) for entry in some))
                for entry, loaded in zip(some, loaded_tasks, strict=True):
                    if loaded is not None:
                        task = shaped(loaded[1], request)
                        bytes_left -= task.ByteSize()
                        if page and bytes_left < 0:
                            return _newest_first(page), after
                        page.append((list_cursor_of(loaded[0]), task))
                    after = entry
            if listed.stopped_at is not None and not more:
                return _newest_first(page), listed.stopped_at
            if not more or len(page) == size:
                break
        return _newest_first(page), after if more else None

    async def _load(self, tasks: TaskFilter, listed: ListCursor, *, is_first: bool) -> tuple[Head, Task] | None:
        """Return a listed task and its head from the log; None if it is deleted, unreadable or now on another page."""
        try:
            log = await self._store.log(TaskKey(tasks.owner, listed.task_id))
        except StoreCorrupt as error:
            # Leave the task out, because an operator must repair it. The caller still gets the other tasks.
            logger.error("Task %s cannot be listed: %s", listed.task_id, error)
            return None
        if log is None or not matches(log.head, tasks):
            return None
        # Leave out a task with a newer status than in the index, because it belongs on an earlier page. Only the first
        # page may list it.
        now = list_cursor_of(log.head)
        if now != listed and not (is_first and now > listed):
            return None
        return log.head, projection.fold(log.events)


def wanted(call: CallContext, request: ListTasksRequest) -> TaskFilter:
    """Return the task filter for a ListTasks request. Raises InvalidMessage for invalid fields."""
    if request.context_id and not is_id(request.context_id):
        raise InvalidMessage(f"contextId has to be {ID_RULE}.", field="contextId")
    if request.status not in TaskState.values():
        known = ", ".join(name for name, state in TaskState.items() if state)
        raise InvalidMessage(f"status is not a task state: leave it out, or give one of {known}.", field="status")
    return TaskFilter(
        owner=call.owner,
        agent=call.agent,
        context_id=request.context_id or None,
        state=request.status or None,
        since=_since(request.status_timestamp_after) if request.HasField("status_timestamp_after") else None,
    )


def page_size(request: ListTasksRequest) -> int:
    """Return the page size of a ListTasks request. Raises InvalidMessage if it is out of range."""
    if not request.HasField("page_size"):
        return DEFAULT_PAGE_SIZE
    if not 1 <= request.page_size <= MAX_PAGE_SIZE:
        raise InvalidMessage(
            f"pageSize is {request.page_size}: give a number from 1 to {MAX_PAGE_SIZE}, or leave it out for "
            f"{DEFAULT_PAGE_SIZE}.",
            field="pageSize",
        )
    return request.page_size


def matches(head: Head, tasks: TaskFilter) -> bool:
    """Return True if the filter includes the task with this head."""
    return (
        is_visible(head, tasks.owner, tasks.agent)
        and tasks.context_id in (None, head.context.context_id)
        and tasks.state in (None, head.state)
        and (tasks.since is None or head.timestamp >= tasks.since)
    )


def list_cursor_of(head: Head) -> ListCursor:
    """Return the task's position in a list: its status time and its id."""
    return ListCursor(head.timestamp, head.key.task_id)


def shaped(task: Task, request: ListTasksRequest) -> Task:
    """Return a copy of the task with the requested history length and, if requested, with its artifacts."""
    short = apply_history_length(task, request)
    if request.include_artifacts or not short.artifacts:
        return short
    without = Task()
    without.CopyFrom(short)
    without.ClearField("artifacts")
    return without


def _since(timestamp: Timestamp) -> datetime:
    """Return the timestamp as a datetime, rounded up to a millisecond, the precision of a status."""
    milliseconds = -(-timestamp.ToNanoseconds() // 1_000_000)
    return _EPOCH + timedelta(milliseconds=min(milliseconds, _LAST_MILLISECOND))


def _newest_first(page: Sequence[tuple[ListCursor, Task]]) -> Sequence[Task]:
    """Return the tasks of a page, newest status first. Sort them again because the index may be outdated."""
    return [task for _, task in sorted(page, key=lambda entry: entry[0], reverse=True)]
