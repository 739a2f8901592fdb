"""Conversations (the messages and artifacts of a context, from all its tasks), and the list of contexts."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import takewhile

from msgspec import Struct

from aion_core.engine import answer
from aion_core.engine.call import CallContext
from aion_core.engine.listing.list_tasks import LOADS, MAX_PAGE_BYTES, matches
from aion_core.engine.listing.task_list import ListCursor, TaskFilter, TaskList
from aion_core.engine.records import Head
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import projection
from aion_core.errors import ContextNotFound, StoreCorrupt
from aion_core.protocol.types import Artifact, Message, Task, TaskStatus
from aion_core.table.keys import ContextKey, TaskKey

logger = logging.getLogger(__name__)

MOST_TASKS = 100
"""Number of tasks read for one conversation, newest first."""

MOST_TASKS_LISTED = 1000
"""Number of tasks read for a list of contexts, newest first. Only the tasks' heads are read."""

LISTED_AT_ONCE = 100


class Conversation(Struct, frozen=True):
    """Conversation: the messages and artifacts of a context, oldest first."""

    context_id: str
    history: Sequence[Message]
    artifacts: Sequence[Artifact]
    status: TaskStatus
    """Status of the context's newest task, without its message, since the history has the message."""


class Conversations:
    """Reader of conversations. It finds the tasks in the task list, which may be outdated."""

    def __init__(self, store: StoredTasks, task_list: TaskList) -> None:
        self._store, self._list = store, task_list

    async def get(self, call: CallContext, context_id: str, *, length: int | None, offset: int) -> Conversation:
        """Return the last `length` messages of a context (None for all) before its `offset` newest messages.

        Read at most the newest 100 tasks and 4 MiB, but at least one whole task. Messages of other tasks are not
        returned. The result has all artifacts of the tasks read. Raises ContextNotFound, also for another caller's
        context.
        """
        window = _Window(length, offset)
        async with aclosing(self._newest_first(TaskFilter(call.owner, call.agent, context_id))) as tasks:
            async for task in tasks:
                window.add(task)
                if window.is_full:
                    break
        if window.status is None:
            raise ContextNotFound(context_id)
        return Conversation(context_id, window.history[::-1], window.artifacts[::-1], window.status)

    async def history(self, task: TaskKey, context: ContextKey, limit: int, before: str | None) -> Sequence[Message]:
        """Return the last `limit` messages of the task's context, or those before the message id `before`."""
        filter_ = TaskFilter(context.owner, context.agent, context.context_id)
        own = await self._load(filter_, task.task_id)
        messages = answer.messages_in(own) if own is not None else []
        async with aclosing(self._newest_first(filter_)) as tasks:
            while True:
                found = _before(messages, before)
                if len(found) >= limit and (before is None or len(found) < len(messages)):
                    break
                other = await anext(tasks, None)
                if other is None:
                    break
                if other.id != task.task_id:
                    messages = [*answer.messages_in(other), *messages]
        return found[max(0, len(found) - limit) :]

    async def ids(self, call: CallContext, *, length: int, offset: int) -> Sequence[str]:
        """Return up to `length` context ids of the caller's newest 1000 tasks, newest first. Skip `offset` ids."""
        tasks = TaskFilter(call.owner, call.agent)
        after: ListCursor | None = None
        found: dict[str, None] = {}
        for _ in range(MOST_TASKS_LISTED // LISTED_AT_ONCE):
            page = (await self._list.page(tasks, after=after, limit=LISTED_AT_ONCE)).found
            for some in (page[start : start + LOADS] for start in range(0, len(page), LOADS)):
                heads = await asyncio.gather(*(self._head(TaskKey(call.owner, entry.task_id)) for entry in some))
                found |= dict.fromkeys(head.context.context_id for head in heads if head and matches(head, tasks))
                if len(found) >= offset + length:
                    return list(found)[offset : offset + length]
            if len(page) < LISTED_AT_ONCE:
                break
            after = page[-1]
        return list(found)[offset:]

    async def _newest_first(self, tasks: TaskFilter) -> AsyncGenerator[Task, None]:
        after: ListCursor | None = None
        seen: set[str] = set()
        for _ in range(MOST_TASKS // LOADS + 1):
            page = (await self._list.page(tasks, after=after, limit=min(LOADS, MOST_TASKS - len(seen)))).found
            # Leave out tasks found before, because the index is eventually consistent and may list a task twice.
            found = [task_id for task_id in dict.fromkeys(entry.task_id for entry in page) if task_id not in seen]
            seen.update(found)
            for task in await asyncio.gather(*(self._load(tasks, task_id) for task_id in found)):
                if task is not None:
                    yield task
            if len(page) < LOADS or len(seen) >= MOST_TASKS:
                return
            after = page[-1]

    async def _head(self, key: TaskKey) -> Head | None:
        try:
            return await self._store.head(key)
        except StoreCorrupt as error:
            logger.error("Task %s is left out of the list of contexts: %s", key.task_id, error)
            return None

    async def _load(self, tasks: TaskFilter, task_id: str) -> Task | None:
        """Return the task with this id from its log; None if it is deleted, unreadable or excluded by the filter."""
        try:
            log = await self._store.log(TaskKey(tasks.owner, task_id))
        except StoreCorrupt as error:
            # Leave the task out, because an operator must repair it. The caller still gets the other tasks.
            logger.error("Task %s is left out of its conversation: %s", task_id, error)
            return None
        return projection.fold(log.events) if log is not None and matches(log.head, tasks) else None


class _Window:
    """The requested part of a conversation, collected from the newest message to the oldest."""

    def __init__(self, length: int | None, offset: int) -> None:
        self.history: list[Message] = []
        """The collected messages, newest first, like `artifacts`."""
        self.artifacts: list[Artifact] = []
        self.status: TaskStatus | None = None
        self._wanted, self._skipped, self._bytes_left = length, offset, MAX_PAGE_BYTES

    def add(self, task: Task) -> None:
        """Add the requested messages and the artifacts of a task. Call it with the newest task first."""
        messages = self._requested(answer.messages_in(task))
        size = sum(each.ByteSize() for each in (*messages, *task.artifacts))
        if size > self._bytes_left and (self.history or self.artifacts):
            self._bytes_left = 0
            return
        self._bytes_left -= size
        self.history += messages
        self.artifacts += reversed(task.artifacts)
        if self.status is None:
            self.status = TaskStatus(state=task.status.state, timestamp=task.status.timestamp)

    @property
    def is_full(self) -> bool:
        """True if the collected messages and artifacts reach the size limit."""
        return self._bytes_left <= 0

    def _requested(self, messages: Sequence[Message]) -> Sequence[Message]:
        skipped = min(self._skipped, len(messages))
        self._skipped -= skipped
        requested = list(reversed(messages[: len(messages) - skipped]))
        if self._wanted is not None:
            requested = requested[: self._wanted]
            self._wanted -= len(requested)
        return requested


def _before(messages: Sequence[Message], message_id: str | None) -> list[Message]:
    """Return the messages before the message with this id; all messages if none has this id."""
    return list(takewhile(lambda message: message.message_id != message_id, messages))
