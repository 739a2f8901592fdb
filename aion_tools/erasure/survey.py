"""Survey of all data of some owners, by a scan of the table and a listing of the bucket's object versions.

Some partitions are named by a hash that includes the owner. The scan reads owner, agent and context from other items
and calculates their hashes. If those items have expired, the owner of a partition is unknown. The survey then returns
its items as leftovers, because they may belong to one of the owners.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.engine.context.record import turn_of
from aion_core.engine.limits.open_tasks import owner_named_in
from aion_core.errors import StoreUnavailable
from aion_core.table import keys
from aion_core.table.item import LAST, PARTITION, SORT, Item, Key, key_of
from aion_core.table.keys import ContextKey, TaskKey, thread_id
from aion_core.table.port import Table
from aion_core.table.reads import all_pages
from aion_core.table.retries import MAX_ATTEMPTS, jitter
from aion_core.table.schema import VERSION_ATTRIBUTE
from aion_core.table.semantics.values import item_size
from aion_tools.erasure import owned
from aion_tools.erasure.owned import FOLDERS, Folder, NamedBy
from aion_tools.erasure.stores import ObjectVersion, ObjectVersions, VersionPage

SEGMENTS = 4
"""Number of parallel scan segments."""

AT_ONCE = 16
"""Number of partitions or folders to read concurrently."""

LEFTOVERS = "expired leftovers"
"""Name in reports for items whose context or session no longer exists, so that their owner is unknown."""

MENTIONS = "counts of open tasks"
"""Name in reports for the task ids of an owner in the items of other owners (see `Mention`)."""

READ = (
    PARTITION, SORT, "agent", "context_id", "user_id", "app_name", "session_id", "principal", "tenant", "tasks", "expires",
    VERSION_ATTRIBUTE,
)  # fmt: skip
"""Item attributes to read in the scan."""

NOBODY = ""

T = TypeVar("T")

Progress = Callable[[str, int], None]
"""Callback for progress. It gets the current step, and the number of its items or objects so far."""
KeyOwner = Callable[[str, str], str]
"""Function of an API key's principal and tenant. It returns the owner of the key's data."""


class OwnedItem(Struct, frozen=True):
    """Table item that belongs to one of the owners, so that the deletion of the owner's data removes it."""

    owner: str
    store: str
    key: Key
    size: int


class OwnedVersion(Struct, frozen=True):
    """Version of a bucket's object, or delete marker, that the deletion of its owner's data removes."""

    owner: str
    store: str
    name: str
    version_id: str
    size: int
    is_marker: bool


class Mention(Struct, frozen=True):
    """Ids of an owner's tasks in the item of another owner.

    The item that counts a principal's open tasks names the tasks of its tenants too. A tenant is a separate owner.
    """

    owner: str
    key: Key
    texts: frozenset[str]


class OwnedData(Struct, frozen=True):
    """All data of some owners, as found by a survey."""

    rows: list[OwnedItem] = field(default_factory=list)
    versions: list[OwnedVersion] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    busy: list[Key] = field(default_factory=list)
    """Contexts with running or queued turns."""
    running: list[TaskKey] = field(default_factory=list)
    """Tasks with running turns."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Number of items of unknown kinds, by the prefix of their partition."""
    agents: frozenset[str] = frozenset()
    """Agents included in the search for users' state and artifacts."""

    def without(self, store: str) -> "OwnedData":
        """Return the data without the table items of this store."""
        return replace(self, rows=[row for row in self.rows if row.store != store])

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to delete."""
        return not (self.rows or self.versions or self.mentions)


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
        scan = _ScanResult(frozenset(owners), self._clock.now(), self._retention, self._owner_of_key)
        scan.agents.update(agents)
        await asyncio.gather(*(self._scan(scan, segment, progress) for segment in range(SEGMENTS)))
        found = OwnedData(mentions=scan.mentions, unknown=dict(scan.unknown), agents=frozenset(scan.agents))
        await self._find_rows(found, scan, progress)
        await self._find_versions(found.versions, scan, progress)
        return found

    # ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _scan(self, scan: "_ScanResult", segment: int, progress: Progress) -> None:
        scan_page = partial(self._table.scan, segment=segment, segments=SEGMENTS, attributes=READ, consistent=True)
        async for page in all_pages(lambda after: retry_unavailable(partial(scan_page, after=after))):
            for item in page.items:
                scan.add(item)
            progress("items of the table read", scan.count)

    async def _find_rows(self, found: OwnedData, scan: "_ScanResult", progress: Progress) -> None:
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

    # ── The bucket ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _find_versions(self, found: list[OwnedVersion], scan: "_ScanResult", progress: Progress) -> None:
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


class _ScanResult:
    """Results of the table scan: the existing partitions, and their owners by hash."""

    def __init__(self, owners: frozenset[str], now: datetime, retention: timedelta, owner_of_key: KeyOwner) -> None:
        self.owners, self._now, self._owner_of_key = owners, now, owner_of_key
        self._retention = retention
        self.count = 0
        self.agents: set[str] = set()
        self.mentions: list[Mention] = []
        self.unknown: Counter[str] = Counter()
        self._named: dict[str, str] = {}
        """Owners by partition, for partitions naming the owner in the key or an item."""
        self._threads: dict[str, str] = {}
        self._sessions: dict[str, str] = {}
        """Owner of each session, by the session's hash. NOBODY if the survey does not search for the owner."""
        self._heads: set[str] = set()
        """Hashes of the sessions with existing heads."""
        self._there: dict[NamedBy, set[str]] = {each: set() for each in NamedBy}
        """Hashes of the existing partitions, by their kind."""
        self._living_threads: set[str] = set()
        self._users: dict[str, str] | None = None

    def add(self, item: Item) -> None:
        """Record the owner and the context of a scanned item."""
        self.count += 1
        partition = item[PARTITION]
        kind = owned.partitions_of(partition)
        match kind.named_by if kind else None:
            case None:
                self.unknown[partition.partition("#")[0] + "#"] += 1
            case NamedBy.OWNER:
                self._add_named(item, owned.owner_of(partition))
            case NamedBy.API_KEY:
                owner = self._owner_of_key(item["principal"], item["tenant"])
                if owner in self.owners:
                    self._named[partition] = owner
            case NamedBy.NOBODY:
                pass
            case named_by:
                self._there[named_by].add(owned.id_of(partition))
                self._add_hashed(item, named_by, owned.id_of(partition))

    def _add_named(self, item: Item, owner: str) -> None:
        if owner in self.owners:
            self._named[item[PARTITION]] = owner
        else:
            for each in self.owners:
                texts = frozenset(text for text in item.get("tasks", ()) if owner_named_in(text) == each)
                if texts:
                    self.mentions.append(Mention(each, key_of(item), texts))
        if (context := owned.context_of(item)) is not None:
            self.agents.add(context.agent)
            self._add_context(context, owner if owner in self.owners else NOBODY)

    def _add_context(self, context: ContextKey, owner: str) -> None:
        self._threads[thread_id(context)] = owner
        self._sessions[keys.session_thread(context.owner, context.agent, context.context_id)] = owner

    def _add_hashed(self, item: Item, named_by: NamedBy, hashed: str) -> None:
        if named_by is NamedBy.SESSION and item[SORT] == keys.HEAD:
            self._heads.add(hashed)
            self.agents.add(item["app_name"])
            user = item["user_id"]
            self._sessions[hashed] = user if user in self.owners else NOBODY
        if named_by is NamedBy.THREAD and not self._has_expired(item):
            self._living_threads.add(hashed)

    # ── Conclusions ───────────────────────────────────────────────────────────────────────────────────────────────────

    def partitions(self) -> dict[str, str]:
        """Return the partitions to read. Each has its owner, or NOBODY if it is a leftover."""
        found = dict(self._named)
        for named_by, prefix in ((NamedBy.THREAD, "THREAD#"), (NamedBy.SESSION, "SESSION#"), (NamedBy.USER, "USER#")):
            for hashed in self._there[named_by]:
                owner = self._hashed(named_by).get(hashed)
                if owner:
                    found[prefix + hashed] = owner
                elif self._is_unreferenced(named_by, hashed):
                    found[prefix + hashed] = NOBODY
        return found

    def is_leftover(self, item: Item) -> bool:
        """Return True if no code can read this item of an unknown owner any more, so that it may be deleted."""
        # Regard the items of a session as leftovers if its head item is missing, because no code reads them without it.
        return item[PARTITION].startswith("SESSION#") or self._has_expired(item)

    def prefixes(self, folder: Folder) -> list[str]:
        """Return the S3 prefixes to list in this folder: one per owner or user, else one per first digit of a hash."""
        if folder.named_by is NamedBy.OWNER:
            return [f"{folder.prefix}{owner}/" for owner in sorted(self.owners)]
        if folder.named_by is NamedBy.USER:
            return [f"{folder.prefix}{hashed}/" for hashed in self._hashed(NamedBy.USER)]
        # Divide the folder by the first hexadecimal digit of the names, which are hashes, to list 16 parts in parallel.
        return [f"{folder.prefix}{digit:x}" for digit in range(16)]

    def owner_of(self, folder: Folder, version: ObjectVersion) -> str | None:
        """Return the owner of an object's version; NOBODY for a leftover, None for an object of another owner."""
        if folder.named_by is NamedBy.OWNER:
            # Take the text before the task's id and the file name, because the owner's name may contain slashes.
            named = version.name.removeprefix(folder.prefix).rsplit("/", 2)[0]
            return named if named in self.owners else None
        hashed = version.name.removeprefix(folder.prefix).partition("/")[0]
        owner = self._hashed(folder.named_by).get(hashed)
        if owner:
            return owner
        # Keep a recent object although no stored context refers to it: an agent's code may use its own session ids.
        is_old = version.modified < self._now - self._retention
        return NOBODY if is_old and self._is_unreferenced(folder.named_by, hashed) else None

    def _hashed(self, named_by: NamedBy) -> Mapping[str, str]:
        """Return a map from the hash in this kind of partition to its owner."""
        if named_by is NamedBy.THREAD:
            return self._threads
        if named_by is NamedBy.SESSION:
            return self._sessions
        if self._users is None:
            self._users = {
                owned.id_of(keys.user_state_partition(owner, agent)): owner
                for owner in self.owners
                for agent in self.agents
            }
        return self._users

    def _is_unreferenced(self, named_by: NamedBy, hashed: str) -> bool:
        if named_by is NamedBy.THREAD:
            return hashed not in self._threads and hashed not in self._living_threads
        if named_by is NamedBy.SESSION:
            return hashed not in self._heads and hashed not in self._sessions
        # Keep a user's state and artifacts, because they do not expire.
        return False

    def _has_expired(self, item: Item) -> bool:
        return "expires" in item and item["expires"] <= self._now.timestamp()


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
