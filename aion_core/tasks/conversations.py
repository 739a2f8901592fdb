"""A caller's conversations: what was said and made in a context over all its tasks, and which contexts there are."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aion_core.errors import ContextNotFound, StoreCorrupt
from aion_core.ports import Head, ListCursor, TaskFilter, TaskKey, TaskList, TaskStore
from aion_core.protocol.types import Artifact, Message, Task, TaskStatus
from aion_core.tasks import answer_artifacts, projection
from aion_core.tasks.call import CallContext
from aion_core.tasks.listing import LOADS, MAX_PAGE_BYTES, matches

logger = logging.getLogger(__name__)

MOST_TASKS = 100
"""How many tasks of a context are read at the most, the newest."""

MOST_TASKS_LISTED = 1000
"""How many tasks of an agent are looked at for their contexts, the newest: only their heads are read."""

LISTED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a context holds, oldest first."""

    context_id: str
    history: Sequence[Message]
    artifacts: Sequence[Artifact]
    status: TaskStatus
    """The newest task's; without its message, which the history ends with."""


class Conversations:
    """Reads conversations from the log; they may lag behind it by as much as the list of tasks does."""

    def __init__(self, store: TaskStore, task_list: TaskList) -> None:
        self._store, self._list = store, task_list

    async def get(self, call: CallContext, context_id: str, *, length: int | None, offset: int) -> Conversation:
        """Return the conversation of the context with its `length` newest messages, after the `offset` newest.

        Without a length, with all of them. Artifacts are those of all tasks. So is what 100 tasks hold, the newest, and
        4 MiB, but one task is whole; older messages are reached by `offset`. Raises ContextNotFound, for a context of
        another caller too.
        """
        window = _Window(length, offset)
        tasks = TaskFilter(call.owner, call.agent, context_id)
        after: ListCursor | None = None
        seen: set[str] = set()
        for _ in range(MOST_TASKS // LOADS + 1):
            places = await self._list.page(tasks, after=after, limit=min(LOADS, MOST_TASKS - len(seen)))
            # A list that is just being brought up to date may name a task twice.
            found = [task_id for task_id in dict.fromkeys(place.task_id for place in places) if task_id not in seen]
            seen.update(found)
            for task in await asyncio.gather(*(self._load(tasks, task_id) for task_id in found)):
                if task is not None:
                    window.add(task)
            if len(places) < LOADS or window.is_full() or len(seen) >= MOST_TASKS:
                break
            after = places[-1]
        if window.status is None:
            raise ContextNotFound(context_id)
        return Conversation(context_id, window.history[::-1], window.artifacts[::-1], window.status)

    async def ids(self, call: CallContext, *, length: int, offset: int) -> Sequence[str]:
        """Return the ids of `length` contexts after the `offset` newest, by their newest task's status; of 1000 tasks."""
        tasks = TaskFilter(call.owner, call.agent)
        after: ListCursor | None = None
        found: dict[str, None] = {}
        for _ in range(MOST_TASKS_LISTED // LISTED_AT_ONCE):
            places = await self._list.page(tasks, after=after, limit=LISTED_AT_ONCE)
            for some in (places[start : start + LOADS] for start in range(0, len(places), LOADS)):
                heads = await asyncio.gather(*(self._head(TaskKey(call.owner, place.task_id)) for place in some))
                found |= dict.fromkeys(_contexts(heads, tasks))
                if len(found) >= offset + length:
                    return list(found)[offset : offset + length]
            if len(places) < LISTED_AT_ONCE:
                break
            after = places[-1]
        return list(found)[offset:]

    async def _head(self, key: TaskKey) -> Head | None:
        try:
            return await self._store.head(key)
        except StoreCorrupt as error:
            logger.error("Task %s is left out of the list of contexts: %s", key.task_id, error)
            return None

    async def _load(self, tasks: TaskFilter, task_id: str) -> Task | None:
        """Return the task, None where it is gone since it was listed."""
        try:
            log = await self._store.log(TaskKey(tasks.owner, task_id))
        except StoreCorrupt as error:
            # The operator's to mend; the rest of the conversation is whole.
            logger.error("Task %s is left out of its conversation: %s", task_id, error)
            return None
        return projection.fold(log.events) if log is not None and matches(log.head, tasks) else None


class _Window:
    """What is asked for of a conversation, which is read from its end."""

    def __init__(self, length: int | None, offset: int) -> None:
        self.history: list[Message] = []
        """Newest first, as are the artifacts."""
        self.artifacts: list[Artifact] = []
        self.status: TaskStatus | None = None
        self._wanted, self._skipped, self._bytes_left = length, offset, MAX_PAGE_BYTES

    def add(self, task: Task) -> None:
        """Take what is asked for of the task, which comes before those that were added."""
        if self.is_full():
            return
        messages = self._of(answer_artifacts.messages_in(task))
        size = sum(each.ByteSize() for each in (*messages, *task.artifacts))
        if size > self._bytes_left and (self.history or self.artifacts):
            self._bytes_left = 0
            return
        self._bytes_left -= size
        self.history += messages
        self.artifacts += reversed(task.artifacts)
        if self.status is None:
            self.status = TaskStatus(state=task.status.state, timestamp=task.status.timestamp)

    def is_full(self) -> bool:
        """Tell whether nothing more has room."""
        return self._bytes_left <= 0

    def _of(self, said: Sequence[Message]) -> Sequence[Message]:
        skipped = min(self._skipped, len(said))
        self._skipped -= skipped
        messages = list(reversed(said[: len(said) - skipped]))
        if self._wanted is not None:
            messages = messages[: self._wanted]
            self._wanted -= len(messages)
        return messages


def _contexts(heads: Iterable[Head | None], tasks: TaskFilter) -> list[str]:
    return [head.context.context_id for head in heads if head is not None and matches(head, tasks)]
