"""ListTasks: which tasks a caller asks for, and a page of them as they are now."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from a2a.utils.task import apply_history_length
from google.protobuf.timestamp_pb2 import Timestamp

from aion_core.errors import InvalidMessage, StoreCorrupt
from aion_core.ports import Head, ListCursor, TaskFilter, TaskKey, TaskList, TaskStore
from aion_core.protocol.message_rules import ID_RULE, check_history_length, is_id
from aion_core.protocol.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from aion_core.tasks import page_tokens, projection
from aion_core.tasks.call import CallContext

logger = logging.getLogger(__name__)

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100
"""Both are the specification's (3.1.4)."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""A page ends early rather than to be larger: a buffered answer of Lambda may have 6 MB, and JSON needs more room."""

LOADS = 8
"""How many tasks are loaded at once: half of what the store's executor does at once."""

READS = 4
"""How often the list is read on where entries turned out to be gone; a page may be short, and the next one follows."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MILLISECOND = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


class TaskLister:
    """Lists a caller's tasks, page by page, newest status first."""

    def __init__(self, store: TaskStore, task_list: TaskList) -> None:
        self._store, self._list = store, task_list

    async def list_tasks(self, call: CallContext, request: ListTasksRequest) -> ListTasksResponse:
        """Return the page that the request asks for (spec 3.1.4).

        The tasks are as the log has them now, whatever the list said. A page may be short, even empty, though more
        follow; "" as nextPageToken says that none do. While tasks change between two pages none is listed twice, unless
        its status went back in time; one that changes meanwhile may be missed, and is on a first page asked for later.
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
        """Return the tasks of a page, and the place that the next one follows, None where there is no next one."""
        page: list[tuple[ListCursor, Task]] = []
        bytes_left = MAX_PAGE_BYTES
        for _ in range(READS):
            is_first, room = after is None, size - len(page)
            # One more than there is room for says whether another page follows.
            places = await self._list.page(tasks, after=after, limit=room + 1)
            more = len(places) > room
            for some in _by(LOADS, places[:room]):
                loaded_tasks = await asyncio.gather(*(self._load(tasks, place, is_first=is_first) for place in some))
                for place, loaded in zip(some, loaded_tasks, strict=True):
                    if loaded is not None:
                        task = shaped(loaded[1], request)
                        bytes_left -= task.ByteSize()
                        if page and bytes_left < 0:
                            return _newest_first(page), after
                        page.append((place_of(loaded[0]), task))
                    after = place
            if not more or len(page) == size:
                break
        return _newest_first(page), after if more else None

    async def _load(self, tasks: TaskFilter, listed: ListCursor, *, is_first: bool) -> tuple[Head, Task] | None:
        """Return the task at that place of the list, None where it is gone, or is to be found at another place."""
        try:
            log = await self._store.log(TaskKey(tasks.owner, listed.task_id))
        except StoreCorrupt as error:
            # The operator's to mend; the caller's other tasks are whole.
            logger.error("Task %s cannot be listed: %s", listed.task_id, error)
            return None
        if log is None or not matches(log.head, tasks):
            return None
        # The list lags behind. What has moved up since belongs on a page before this one, unless there is none.
        place = place_of(log.head)
        if place != listed and not (is_first and place > listed):
            return None
        return log.head, projection.fold(log.events)


def wanted(call: CallContext, request: ListTasksRequest) -> TaskFilter:
    """Return which tasks are asked for; raises InvalidMessage."""
    if request.context_id and not is_id(request.context_id):
        raise InvalidMessage(f"contextId has to be {ID_RULE}.", field="contextId")
    if request.status not in TaskState.values():
        raise InvalidMessage(unknown_status(), field="status")
    return TaskFilter(
        owner=call.owner,
        agent=call.agent,
        context_id=request.context_id or None,
        state=request.status or None,
        since=_since(request.status_timestamp_after) if request.HasField("status_timestamp_after") else None,
    )


def page_size(request: ListTasksRequest) -> int:
    """Return how many tasks a page holds; raises InvalidMessage."""
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
    """Tell whether the task is one of these."""
    return (
        (head.context.owner, head.context.agent) == (tasks.owner, tasks.agent)
        and tasks.context_id in (None, head.context.context_id)
        and tasks.state in (None, head.state)
        and (tasks.since is None or head.timestamp >= tasks.since)
    )


def place_of(head: Head) -> ListCursor:
    """Return where the task stands in a list."""
    return ListCursor(head.timestamp, head.key.task_id)


def shaped(task: Task, request: ListTasksRequest) -> Task:
    """Return the task with as much of it as is asked for; the one that was passed in stays as it was."""
    short = apply_history_length(task, request)
    if request.include_artifacts or not short.artifacts:
        return short
    without = Task()
    without.CopyFrom(short)
    without.ClearField("artifacts")
    return without


def unknown_status() -> str:
    """Return what a client is told whose status is no state of a task."""
    known = ", ".join(name for name, state in TaskState.items() if state)
    return f"status is no state of a task: leave it out, or give one of {known}."


def _since(timestamp: Timestamp) -> datetime:
    """Return the first millisecond, which is how exact a status is, that is not before the timestamp."""
    milliseconds = -(-timestamp.ToNanoseconds() // 1_000_000)
    return _EPOCH + timedelta(milliseconds=min(milliseconds, _LAST_MILLISECOND))


def _newest_first(page: Sequence[tuple[ListCursor, Task]]) -> Sequence[Task]:
    """Return the tasks by where they stand now, which may not be where they were found."""
    return [task for _, task in sorted(page, key=lambda entry: entry[0], reverse=True)]


def _by(number: int, places: Sequence[ListCursor]) -> Sequence[Sequence[ListCursor]]:
    return [places[start : start + number] for start in range(0, len(places), number)]
