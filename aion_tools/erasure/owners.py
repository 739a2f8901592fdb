"""Owners of partitions and objects, concluded from a scan of the table. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from aion_core.engine.limits.open_tasks import owner_named_in
from aion_core.table import keys
from aion_core.table.item import PARTITION, SORT, Item, key_of
from aion_core.table.keys import ContextKey, thread_id
from aion_tools.erasure import owned
from aion_tools.erasure.found import Mention
from aion_tools.erasure.owned import Folder, NamedBy
from aion_tools.erasure.stores import ObjectVersion

NOBODY = ""
"""Owner of leftovers: data whose owner is unknown."""
KeyOwner = Callable[[str, str], str]
"""Function of an API key's principal and tenant. It returns the owner of the key's data."""


class ScannedOwners:
    """Owners that a scan of the table has found. Add all items first."""

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
