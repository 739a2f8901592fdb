"""The deletion of everything that a survey has found, in an order that leaves a late worker nothing to write to.

    API keys      nobody calls with them any more
    fences        raised in the owner's contexts, and in the tasks that run: a worker's next write is refused
    objects       all versions, and the delete markers
    items         events, checkpoints, sessions, and what else leads to nothing
    leads         heads, message ids, then contexts: from these the hashed partitions follow

A deletion that is killed is run again: a new survey finds what is left.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TypeVar

from aion_core.errors import StoreUnavailable
from aion_core.ports import Clock
from aion_core.ports.erasure import ErasableTable, ObjectVersions
from aion_core.ports.table import Absent, AtMost, Both, Change, Check, Delete, Exists, Key, Update, Write, WriteRefused
from aion_core.stores import keys, owned
from aion_core.stores.retries import MAX_ATTEMPTS, jitter, write_unless_refused
from aion_core.stores.survey import LEFTOVERS, KeyOwner, OwnedData, Progress, Survey, retry_unavailable

ITEMS_AT_ONCE = 25
"""The most that one batch of DynamoDB may delete."""

VERSIONS_AT_ONCE = 250
"""S3 takes 1000; a request with fewer is answered in time."""

FENCE_OFF = Change(
    add={"fence": 1},
    remove=("holder", "until", "running", "waiting", "interrupted", "due_shard", "due_at"),
    only_if=Exists(),
)

RAISE_FENCE = Change(add={"fence": 1}, only_if=Exists())

T = TypeVar("T")


class Erasure:
    """Finds and deletes everything of some owners, in one table and one bucket."""

    def __init__(
        self,
        table: ErasableTable,
        objects: ObjectVersions,
        clock: Clock,
        *,
        owner_of_key: KeyOwner,
        retention: timedelta,
    ) -> None:
        """The options are the survey's."""
        self._table, self._objects, self._clock = table, objects, clock
        self._survey = Survey(table, objects, clock, owner_of_key=owner_of_key, retention=retention)

    async def find(self, owners: Collection[str], agents: Collection[str], progress: Progress) -> OwnedData:
        """See `Survey.find`."""
        return await self._survey.find(owners, agents, progress)

    async def delete(self, found: OwnedData, progress: Progress) -> None:
        """Delete what was found, there or not; raises StoreError.

        What is written after the survey stays; a worker cannot write to a task that is gone, though it may still put
        an object or a stream delta before its next write is refused. A second survey finds these.
        """
        own = [row for row in found.rows if row.store != LEFTOVERS]
        api_keys = [row.key for row in own if row.store == owned.API_KEYS]
        await self._delete_items(api_keys)
        await self._fence_off(found)
        # A marker last: without it, the newest version that is left would be the object again.
        by_kind = sorted(found.versions, key=lambda version: version.is_marker)
        for number, versions in _counted(by_kind, VERSIONS_AT_ONCE):
            progress("versions of objects deleted", number)
            names = [(version.name, version.version_id) for version in versions]
            await retry_unavailable(partial(self._objects.delete, names))
        done = len(api_keys)
        ranked = sorted((row for row in own if row.store != owned.API_KEYS), key=lambda row: owned.rank_of(row.key))
        for number, rows in _counted(ranked, ITEMS_AT_ONCE):
            progress("items of the table deleted", done + number)
            await self._delete_items([row.key for row in rows])
        for row in found.rows:
            if row.store == LEFTOVERS:
                await self._delete_leftover(row.key)
        for mention in found.mentions:
            change = Change(remove_members={"tasks": mention.texts}, only_if=Exists())
            await self._unless_gone(Update(mention.key, change))

    async def _fence_off(self, found: OwnedData) -> None:
        """Take the contexts from whoever runs or waits in them; refuse what the workers still write to their tasks."""
        for key in found.busy:
            await self._unless_gone(Update(key, FENCE_OFF))
        for task in found.running:
            await self._unless_gone(Update(keys.head_key(task), RAISE_FENCE))

    async def _unless_gone(self, update: Update) -> None:
        await write_unless_refused(partial(retry_unavailable, partial(self._table.write, update)))

    async def _delete_items(self, found: Sequence[Key]) -> None:
        for _, some in _counted(found, ITEMS_AT_ONCE):
            left: Sequence[Key] = some
            for attempt in range(MAX_ATTEMPTS):
                left = await retry_unavailable(partial(self._table.delete_all, left))
                if not left:
                    break
                # The table is being throttled.
                await jitter(attempt)
            else:
                raise StoreUnavailable("The table is throttled. Run the command again: it goes on where it was.")

    async def _delete_leftover(self, key: Key) -> None:
        """Delete the item, unless its session was made anew, or it is in force again."""
        writes: list[Write]
        if key.partition.startswith("SESSION#"):
            no_head = Check(keys.session_head_key(owned.id_of(key.partition)), Absent())
            writes = [no_head, Delete(key)]
        else:
            has_expired = AtMost("expires", int(self._clock.now().timestamp()))
            writes = [Delete(key, only_if=Both((Exists(), has_expired)))]
        try:
            await retry_unavailable(partial(self._table.transact, writes))
        except WriteRefused:
            return


def _counted(whole: Iterable[T], size: int) -> Iterator[tuple[int, list[T]]]:
    """Yield lists of at most so many, each with how many there were before it and in it."""
    left, count = iter(whole), 0
    while some := list(islice(left, size)):
        count += len(some)
        yield count, some
