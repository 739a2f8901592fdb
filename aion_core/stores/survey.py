"""The search for everything that owners have in the table and in the bucket: one scan, and one listing of versions.

Some partitions are named by a hash of the owner. The scan reads each item's key, and the attributes that tell of which
owner, agent and context it is; the hashes follow from these. What an expired context or session has left behind leads to
nobody any more: it is found too, as leftovers, since it may be the owner's.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from aion_core.errors import StoreUnavailable
from aion_core.ports import Clock, ContextKey, TaskKey
from aion_core.ports.erasure import ObjectVersion, ObjectVersions
from aion_core.ports.table import LAST, PARTITION, SORT, Item, Key, Page, Table
from aion_core.ports.table_semantics import item_size
from aion_core.stores import keys, owned
from aion_core.stores.keys import thread_id
from aion_core.stores.owned import FOLDERS, Folder, NamedBy
from aion_core.stores.retries import MAX_ATTEMPTS, jitter
from aion_core.tasks.contexts import turn_of
from aion_core.tasks.limits import owner_named_in

SEGMENTS = 4
"""Number of parallel scan segments."""

AT_ONCE = 16
"""Number of partitions read, or folders listed, at once."""

LEFTOVERS = "expired leftovers"
"""The store of what no living context or session leads to."""

MENTIONS = "counts of open tasks"
"""The store of what the items of other owners say of these."""

READ = (
    PARTITION, SORT, "agent", "context_id", "user_id", "app_name", "session_id", "principal", "tenant", "tasks", "expires",
)  # fmt: skip
"""The attributes that the scan reads."""

NOBODY = ""

T = TypeVar("T")

Progress = Callable[[str, int], None]
"""Is told what is being done, and how many items or objects it has come to."""
KeyOwner = Callable[[str, str], str]
"""Returns the owner of what is done with an API key of this principal and tenant."""


@dataclass(frozen=True, slots=True)
class OwnedItem:
    """An item of the table that is to be deleted."""

    owner: str
    store: str
    key: Key
    size: int


@dataclass(frozen=True, slots=True)
class OwnedVersion:
    """A version of an object, or a delete marker."""

    owner: str
    store: str
    name: str
    version_id: str
    size: int
    is_marker: bool


@dataclass(frozen=True, slots=True)
class Mention:
    """The open tasks of an owner that are counted in another's item: a principal's, for those in its tenants."""

    owner: str
    key: Key
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class OwnedData:
    """Everything that the owners have."""

    rows: list[OwnedItem] = field(default_factory=list)
    versions: list[OwnedVersion] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    busy: list[Key] = field(default_factory=list)
    """The contexts in which a turn runs or waits."""
    running: list[TaskKey] = field(default_factory=list)
    """The tasks whose turns are running."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Number of items of each partition prefix that is not in the list of stores."""
    agents: frozenset[str] = frozenset()
    """The agents under which a user's state and artifacts were looked for."""

    def without(self, store: str) -> "OwnedData":
        """Return what was found but for one store of the table."""
        return replace(self, rows=[row for row in self.rows if row.store != store])

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to delete."""
        return not (self.rows or self.versions or self.mentions)


class Survey:
    """Finds everything of some owners, in one table and one bucket."""

    def __init__(
        self,
        table: Table,
        objects: ObjectVersions,
        clock: Clock,
        *,
        owner_of_key: KeyOwner,
        retention: timedelta,
    ) -> None:
        """`retention`: how long the deployment keeps tasks; an object that nothing leads to is a leftover after that."""
        self._table, self._objects, self._clock = table, objects, clock
        self._owner_of_key, self._retention = owner_of_key, retention

    async def find(self, owners: Collection[str], agents: Collection[str], progress: Progress) -> OwnedData:
        """Return everything that the owners have, and the leftovers of nobody.

        State and artifacts of a user outlive all that leads to them; `agents` are those for which they are looked for
        beside the agents of which the table holds any context. Raises StoreError.
        """
        seen = _ScanResult(frozenset(owners), self._clock.now(), self._retention, self._owner_of_key)
        seen.agents.update(agents)
        await asyncio.gather(*(self._scan(seen, segment, progress) for segment in range(SEGMENTS)))
        found = OwnedData(mentions=seen.mentions, unknown=dict(seen.unknown), agents=frozenset(seen.agents))
        await self._find_rows(found, seen, progress)
        await self._find_versions(found.versions, seen, progress)
        return found

    # ── The table ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _scan(self, seen: "_ScanResult", segment: int, progress: Progress) -> None:
        def read(after: Any) -> Awaitable[Page]:
            return self._table.scan(segment=segment, segments=SEGMENTS, after=after, attributes=READ, consistent=True)

        async for page in _pages(read):
            for item in page.items:
                seen.add(item)
            progress("items of the table read", seen.count)

    async def _find_rows(self, found: OwnedData, seen: "_ScanResult", progress: Progress) -> None:
        async def read(partition: str, owner: str) -> None:
            kind = owned.partitions_of(partition)
            async for page in _pages(lambda after: self._table.query(partition, "", LAST, after=after)):
                for item in page.items:
                    if owner == NOBODY and not seen.is_leftover(item):
                        continue
                    key = keys.key_of(item)
                    store = kind.store_of(key.sort) if kind and owner != NOBODY else LEFTOVERS
                    found.rows.append(OwnedItem(owner, store, key, item_size(item)))
                    if "running" in item:
                        found.running.append(TaskKey(owner, turn_of(item["running"]).task_id))
                    if "running" in item or "waiting" in item:
                        found.busy.append(key)
            progress("items of the owner found", len(found.rows))

        await _all(read(partition, owner) for partition, owner in seen.partitions().items())

    # ── The bucket ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _find_versions(self, found: list[OwnedVersion], seen: "_ScanResult", progress: Progress) -> None:
        async def read(folder: Folder, prefix: str) -> None:
            async for page in self._versions(prefix):
                add(folder, page)

        def add(folder: Folder, page: Iterable[ObjectVersion]) -> None:
            for each in page:
                owner = seen.owner_of(folder, each)
                if owner is not None:
                    store = folder.store if owner != NOBODY else LEFTOVERS
                    found.append(OwnedVersion(owner, store, each.name, each.version_id, each.size, each.is_marker))
            progress("versions of objects found", len(found))

        async def read_all(folder: Folder) -> None:
            pages = self._versions(folder.prefix)
            first, second = await anext(pages), await anext(pages, None)
            await pages.aclose()
            if second is None:
                add(folder, first)
            else:
                # A large one: only the part that is needed, or all of it, in parts that are read at once.
                await _all(read(folder, prefix) for prefix in seen.prefixes(folder))

        for folder in FOLDERS:
            await read_all(folder)

    async def _versions(self, prefix: str) -> AsyncGenerator[Sequence[ObjectVersion], None]:
        """Yield the versions and delete markers of the objects whose names begin so, a request at a time."""
        after = None
        while True:
            page = await retry_unavailable(partial(self._objects.page, prefix, after=after))
            yield page.versions
            if page.next is None:
                return
            after = page.next


class _ScanResult:
    """Results of the scan: the owner of each hash, and the partitions."""

    def __init__(self, owners: frozenset[str], now: datetime, retention: timedelta, owner_of_key: KeyOwner) -> None:
        self.owners, self._now, self._owner_of_key = owners, now, owner_of_key
        self._retention = retention
        self.count = 0
        self.agents: set[str] = set()
        self.mentions: list[Mention] = []
        self.unknown: Counter[str] = Counter()
        self._named: dict[str, str] = {}
        """The owners by the partitions whose keys, or items, name them."""
        self._threads: dict[str, str] = {}
        self._sessions: dict[str, str] = {}
        """The owners by the hashes, NOBODY for an owner that was not asked for."""
        self._heads: set[str] = set()
        """The sessions whose heads are there."""
        self._there: dict[NamedBy, set[str]] = {each: set() for each in NamedBy}
        """The hashes of the partitions that are there."""
        self._living_threads: set[str] = set()
        self._users: dict[str, str] | None = None

    def add(self, item: Item) -> None:
        """Note what the item tells."""
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
                told = frozenset(text for text in item.get("tasks", ()) if owner_named_in(text) == each)
                if told:
                    self.mentions.append(Mention(each, keys.key_of(item), told))
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

    # ── What follows from it ──────────────────────────────────────────────────────────────────────────────────────────

    def partitions(self) -> dict[str, str]:
        """Return the owners by the partitions that are there and theirs; NOBODY for those of leftovers."""
        found = dict(self._named)
        for named_by, prefix in ((NamedBy.THREAD, "THREAD#"), (NamedBy.SESSION, "SESSION#"), (NamedBy.USER, "USER#")):
            for hashed in self._there[named_by]:
                owner = self._hashed(named_by).get(hashed)
                if owner:
                    found[prefix + hashed] = owner
                elif self._leads_to_nobody(named_by, hashed):
                    found[prefix + hashed] = NOBODY
        return found

    def is_leftover(self, item: Item) -> bool:
        """Tell whether the item, of a partition that leads to nobody, is in force no more."""
        # The rows of a session without a head are never read; they outlive it by half a retention.
        return item[PARTITION].startswith("SESSION#") or self._has_expired(item)

    def prefixes(self, folder: Folder) -> list[str]:
        """Return what the names begin with that have to be listed in the folder."""
        if folder.named_by is NamedBy.OWNER:
            return [f"{folder.prefix}{owner}/" for owner in sorted(self.owners)]
        if folder.named_by is NamedBy.USER:
            return [f"{folder.prefix}{hashed}/" for hashed in self._hashed(NamedBy.USER)]
        # Hashes, and so by their first digits a 16th each.
        return [f"{folder.prefix}{digit:x}" for digit in range(16)]

    def owner_of(self, folder: Folder, version: ObjectVersion) -> str | None:
        """Return the owner of the version, NOBODY for a leftover, None for what is another's."""
        if folder.named_by is NamedBy.OWNER:
            # An owner may have a slash in it; a task's id and what follows have one between them.
            named = version.name.removeprefix(folder.prefix).rsplit("/", 2)[0]
            return named if named in self.owners else None
        hashed = version.name.removeprefix(folder.prefix).partition("/")[0]
        owner = self._hashed(folder.named_by).get(hashed)
        if owner:
            return owner
        # An author's code may have kept it under a session or thread of its own choice, which no context leads to.
        is_old = version.modified < self._now - self._retention
        return NOBODY if is_old and self._leads_to_nobody(folder.named_by, hashed) else None

    def _hashed(self, named_by: NamedBy) -> Mapping[str, str]:
        """Return the owners by the hashes of this kind."""
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

    def _leads_to_nobody(self, named_by: NamedBy, hashed: str) -> bool:
        if named_by is NamedBy.THREAD:
            return hashed not in self._threads and hashed not in self._living_threads
        if named_by is NamedBy.SESSION:
            return hashed not in self._heads and hashed not in self._sessions
        # A user's state and artifacts have no end.
        return False

    def _has_expired(self, item: Item) -> bool:
        return "expires" in item and item["expires"] <= self._now.timestamp()


async def retry_unavailable(call: Callable[[], Awaitable[T]]) -> T:
    """Return the answer to the call; one that AWS throttles, or does not answer, is made again after a while.

    Raises WriteRefused, StoreError.
    """
    for attempt in range(MAX_ATTEMPTS - 1):
        try:
            return await call()
        except StoreUnavailable:
            await jitter(attempt)
    return await call()


async def _pages(read: Callable[[Any], Awaitable[Page]]) -> AsyncIterator[Page]:
    """Yield each page, which is read after the place that the one before it names."""
    after = None
    while True:
        page = await retry_unavailable(partial(read, after))
        yield page
        if page.next is None:
            return
        after = page.next


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Do all of it, some at once."""
    left = iter(works)

    async def worker() -> None:
        for work in left:
            await work

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
