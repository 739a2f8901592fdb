"""The lists of tasks over the dict of `memory.task_store`, with the promises of `ports.TaskList`; never behind it."""

import secrets
from collections.abc import Sequence

from aion_core.memory.task_store import MemoryTaskStore
from aion_core.ports import Head, Place, TaskFilter
from aion_core.tasks.listing import matches, place_of


class MemoryTaskList:
    """`ports.TaskList` for one process; its secret lives as long as the tasks do."""

    def __init__(self, store: MemoryTaskStore) -> None:
        self._store = store
        self._secret = secrets.token_bytes(32)

    async def page(self, tasks: TaskFilter, *, after: Place | None, limit: int) -> Sequence[Place]:
        """See `ports.TaskList.page`."""
        places = sorted((place_of(head) for head in self._matching(tasks)), reverse=True)
        return [place for place in places if after is None or place < after][:limit]

    async def count(self, tasks: TaskFilter) -> int:
        """See `ports.TaskList.count`."""
        return len(self._matching(tasks))

    async def secret(self) -> bytes:
        """See `ports.TaskList.secret`."""
        return self._secret

    def _matching(self, tasks: TaskFilter) -> list[Head]:
        return [head for head in self._store.heads() if matches(head, tasks)]
