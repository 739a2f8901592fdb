"""Deletion of all data of some owners. The order is safe against late workers and interruptions.

    API keys    are deleted first, to prevent further calls
    fences      (fencing tokens) of the owner's contexts and running tasks are raised, so that a worker's next write is
                refused
    objects     are deleted with all versions and delete markers
    items       such as events, checkpoints and sessions are deleted
    heads       of contexts, tasks and sessions are deleted last: until then the raised fences hold

After an interruption, a new survey finds the rest.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from aion_core.errors import StoreUnavailable
from aion_core.table import keys
from aion_core.table.conditions import Exists
from aion_core.table.item import Key
from aion_core.table.retries import MAX_ATTEMPTS, jitter, write_unless_refused
from aion_core.table.writes import Change, Update
from aion_tools.erasure.found import OwnedData
from aion_tools.erasure.kinds import API_KEYS
from aion_tools.erasure.stores import ErasableTable, ObjectVersions
from aion_tools.erasure.survey import Progress, retry_unavailable, survey

ITEMS_AT_ONCE = 25
"""Number of items in one batch, DynamoDB's limit."""

VERSIONS_AT_ONCE = 250
"""Number of object versions in one request. S3 allows 1000, but may take longer for them than our time limit."""

FENCE_OFF = Change(
    add={"fence": 1},
    remove=("holder", "until", "running", "waiting", "interrupted", "due_shard", "due_at"),
    only_if=Exists(),
)

RAISE_FENCE = Change(add={"fence": 1}, only_if=Exists())

T = TypeVar("T")


class Erasure:
    """Search for and deletion of owners' data in one table and one bucket."""

    def __init__(self, table: ErasableTable, objects: ObjectVersions) -> None:
        self._table, self._objects = table, objects

    async def find(self, owners: Collection[str], progress: Progress) -> OwnedData:
        """See `survey`."""
        return await survey(self._table, self._objects, owners, progress)

    async def delete(self, found: OwnedData, progress: Progress) -> None:
        """Delete the data found by a survey. Items may be missing. Raises StoreError.

        Data written after the survey is not deleted. A worker cannot write to a deleted task, but may store an object
        or a stream delta before its next write is refused. A second survey finds this data.
        """
        api_keys = [row.key for row in found.rows if row.store == API_KEYS]
        await self._delete_items(api_keys)
        await self._fence_off(found)
        # Delete the delete markers last. Otherwise an object's newest version would become visible again.
        by_kind = sorted((each.version for each in found.versions), key=lambda version: version.is_marker)
        for number, versions in _counted(by_kind, VERSIONS_AT_ONCE):
            progress("versions of objects deleted", number)
            names = [(version.name, version.version_id) for version in versions]
            await retry_unavailable(partial(self._objects.delete, names))
        heads_last = sorted(
            (row.key for row in found.rows if row.store != API_KEYS), key=lambda key: key.sort == keys.HEAD
        )
        for number, part in _counted(heads_last, ITEMS_AT_ONCE):
            progress("items of the table deleted", len(api_keys) + number)
            await self._delete_items(part)
        for mention in found.mentions:
            change = Change(remove_members={"tasks": mention.texts}, only_if=Exists())
            await self._unless_gone(Update(mention.key, change))

    async def _fence_off(self, found: OwnedData) -> None:
        """Raise the fences of busy contexts and running tasks. The table then refuses their workers' writes."""
        for key in found.busy:
            await self._unless_gone(Update(key, FENCE_OFF))
        for task in found.running:
            await self._unless_gone(Update(keys.head_key(task), RAISE_FENCE))

    async def _unless_gone(self, update: Update) -> None:
        await write_unless_refused(partial(retry_unavailable, partial(self._table.write, update)))

    async def _delete_items(self, found: Sequence[Key]) -> None:
        for _, part in _counted(found, ITEMS_AT_ONCE):
            left: Sequence[Key] = part
            for attempt in range(MAX_ATTEMPTS):
                left = await retry_unavailable(partial(self._table.delete_all, left))
                if not left:
                    break
                # Wait before deleting the other items, because DynamoDB throttles the table.
                await jitter(attempt)
            else:
                raise StoreUnavailable("The table is throttled. Run the command again to delete the rest.")


def _counted(whole: Iterable[T], size: int) -> Iterator[tuple[int, list[T]]]:
    """Split the elements into lists of at most `size`. Yield each list with the number of elements up to its end."""
    rest, count = iter(whole), 0
    while part := list(islice(rest, size)):
        count += len(part)
        yield count, part
