"""What was said in a context, over all its tasks: the conversation that an author's `thread.history` reads (D19)."""

import logging
from collections.abc import Sequence
from itertools import takewhile

from aion_core.errors import StoreCorrupt
from aion_core.ports import ContextKey, ListCursor, TaskFilter, TaskKey, TaskList, TaskStore
from aion_core.protocol.types import Message
from aion_core.tasks import answer_artifacts, projection

logger = logging.getLogger(__name__)

AT_ONCE = 10
"""How many tasks are looked up at a time: the newest hold the most of what is asked for."""
MOST_TASKS = 100
"""How many tasks one question reads at the most."""


class ContextHistory:
    """Reads conversations from the log."""

    def __init__(self, store: TaskStore, tasks: TaskList) -> None:
        self._store, self._tasks = store, tasks

    async def read(self, task: TaskKey, context: ContextKey, limit: int, before: str | None) -> Sequence[Message]:
        """Return the last `limit` messages of the task's context, or of those before this message."""
        said = await self._said(task)
        place: ListCursor | None = None
        filter_ = TaskFilter(context.owner, context.agent, context.context_id)
        for _ in range(MOST_TASKS // AT_ONCE):
            if len(_until(said, before)) >= limit and (before is None or _holds(said, before)):
                break
            page = await self._tasks.page(filter_, after=place, limit=AT_ONCE)
            for place in page:  # the last one is where the next page begins
                if place.task_id != task.task_id:
                    said = [*await self._said(TaskKey(context.owner, place.task_id)), *said]
            if len(page) < AT_ONCE:
                break
        found = _until(said, before)
        return found[max(0, len(found) - limit) :]

    async def _said(self, key: TaskKey) -> list[Message]:
        try:
            log = await self._store.log(key)
        except StoreCorrupt as error:
            # The operator's to mend; the rest of the conversation is whole.
            logger.error("Task %s is left out of its context's history: %s", key.task_id, error)
            return []
        if log is None:
            return []
        return answer_artifacts.messages_in(projection.fold(log.events))


def _until(said: Sequence[Message], before: str | None) -> list[Message]:
    """Return what was said before the message; all of it where there is no such message."""
    return list(takewhile(lambda message: message.message_id != before, said))


def _holds(said: Sequence[Message], message_id: str) -> bool:
    return any(message.message_id == message_id for message in said)
