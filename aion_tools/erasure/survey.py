"""Survey of all data of some owners, by a scan of the table and a listing of the bucket's object versions.

Some partitions are named by a hash that includes the owner. The scan reads owner, agent and context from other items
and calculates their hashes. If those items have expired, the owner of a partition is unknown. The survey then returns
its items as leftovers, because they may belong to one of the owners.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from aion_core.clock import Clock
from aion_core.engine.context.record import turn_of
from aion_core.errors import StoreUnavailable
from aion_core.table.item import LAST, PARTITION, SORT, key_of
from aion_core.table.keys import TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import all_pages
from aion_core.table.retries import MAX_ATTEMPTS, jitter
from aion_core.table.schema import VERSION_ATTRIBUTE
from aion_core.table.semantics.values import item_size
from aion_tools.erasure import owned
from aion_tools.erasure.found import LEFTOVERS, OwnedData, OwnedItem, OwnedVersion
from aion_tools.erasure.owned import FOLDERS, Folder
from aion_tools.erasure.owners import NOBODY, KeyOwner, ScannedOwners
from aion_tools.erasure.stores import ObjectVersion, ObjectVersions, VersionPage

T = TypeVar("T")
SEGMENTS = 4
"""Number of parallel scan segments."""
AT_ONCE = 16
"""Number of partitions or folders to read concurrently."""
READ = (
    PARTITION, SORT, "agent", "context_id", "user_id", "app_name", "session_id", "principal", "tenant", "tasks", "expires",
    VERSION_ATTRIBUTE,
)  # fmt: skip
"""Item attributes to read in the scan."""
Progress = Callable[[str, int], None]
"""Callback for progress. It gets the current step, and the number of its items or objects so far."""


class Survey:
    """Search for some owners' data in one table and one bucket."""

    def __init__(
        self,
        table: Table,
        objects: ObjectVersions,
        clock: Clock,
        *,
        owner_of_key: KeyOwner,
        retention: timedelta,
    ) -> None:
        """Objects without a known owner are leftovers if they are older than `retention`, the lifetime of tasks."""
        self._table, self._objects, self._clock = table, objects, clock
        self._owner_of_key, self._retention = owner_of_key, retention

    async def find(self, owners: Collection[str], agents: Collection[str], progress: Progress) -> OwnedData:
        """Find all data of the owners, and leftovers of unknown owners.

        A user's state and artifacts may outlive every reference to them. So the survey looks for each owner's state and
        artifacts with the `agents`, and with all agents found in the table. Raises StoreError.
        """
        scan = ScannedOwners(frozenset(owners), self._clock.now(), self._retention, self._owner_of_key)
        scan.agents.update(agents)
        await asyncio.gather(*(self._scan(scan, segment, progress) for segment in range(SEGMENTS)))
        found = OwnedData(mentions=scan.mentions, unknown=dict(scan.unknown), agents=frozenset(scan.agents))
        await self._find_rows(found, scan, progress)
        await self._find_versions(found.versions, scan, progress)
        return found

    async def _scan(self, scan: ScannedOwners, segment: int, progress: Progress) -> None:
        scan_page = partial(self._table.scan, segment=segment, segments=SEGMENTS, attributes=READ, consistent=True)
        async for page in all_pages(lambda after: retry_unavailable(partial(scan_page, after=after))):
            for item in page.items:
                scan.add(item)
            progress("items of the table read", scan.count)

    async def _find_rows(self, found: OwnedData, scan: ScannedOwners, progress: Progress) -> None:
        async def read(partition: str, owner: str) -> None:
            kind = owned.partitions_of(partition)
            query = partial(self._table.query, partition, "", LAST)
            async for page in all_pages(lambda after: retry_unavailable(partial(query, after=after))):
                for item in page.items:
                    if owner == NOBODY and not scan.is_leftover(item):
                        continue
                    key = key_of(item)
                    store = kind.store_of(key.sort) if kind and owner != NOBODY else LEFTOVERS
                    found.rows.append(OwnedItem(owner, store, key, item_size(item)))
                    if "running" in item:
                        found.running.append(TaskKey(owner, turn_of(item["running"]).task_id))
                    if "running" in item or "waiting" in item:
                        found.busy.append(key)
            progress("items of the owner found", len(found.rows))

        await _all(read(partition, owner) for partition, owner in scan.partitions().items())

    async def _find_versions(self, found: list[OwnedVersion], scan: ScannedOwners, progress: Progress) -> None:
        async def read(folder: Folder, prefix: str) -> None:
            async for page in self._versions(prefix):
                add(folder, page.versions)

        def add(folder: Folder, page: Iterable[ObjectVersion]) -> None:
            for each in page:
                owner = scan.owner_of(folder, each)
                if owner is not None:
                    store = folder.store if owner != NOBODY else LEFTOVERS
                    found.append(OwnedVersion(owner, store, each.name, each.version_id, each.size, each.is_marker))
            progress("versions of objects found", len(found))

        for folder in FOLDERS:
            first = await anext(pages := self._versions(folder.prefix))
            await pages.aclose()
            if first.next is None:
                add(folder, first.versions)
            else:
                # The folder has more than one page. List only the prefixes that the deletion needs, concurrently.
                await _all(read(folder, prefix) for prefix in scan.prefixes(folder))

    def _versions(self, prefix: str) -> AsyncGenerator[VersionPage, None]:
        """Yield pages of the versions and delete markers of all objects with this prefix."""
        return all_pages(lambda after: retry_unavailable(partial(self._objects.page, prefix, after=after)))


async def retry_unavailable(call: Callable[[], Awaitable[T]]) -> T:
    """Make the call and return its result. Repeat the call if it was throttled or its response was lost.

    Raises WriteRefused or StoreError.
    """
    for attempt in range(MAX_ATTEMPTS - 1):
        try:
            return await call()
        except StoreUnavailable:
            await jitter(attempt)
    return await call()


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Await all of the awaitables, at most AT_ONCE of them concurrently."""
    rest = iter(works)

    async def worker() -> None:
        for work in rest:
            await work

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
