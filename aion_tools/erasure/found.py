"""Data of some owners, as found by a survey: table items, object versions, and mentions in items of others."""

from collections import Counter

from msgspec import Struct, field
from msgspec.structs import replace

from aion_core.table.item import Key
from aion_core.table.keys import TaskKey
from aion_tools.erasure.stores import ObjectVersion

MENTIONS = "counts of open tasks"
"""Name in reports for the task ids of an owner in the items of other owners (see `Mention`)."""


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
    version: ObjectVersion


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
    unknown: Counter[str] = field(default_factory=Counter)
    """Number of items of unknown kinds without an owner, by the prefix of their partition."""

    def without(self, store: str) -> "OwnedData":
        """Return the data without the table items of this store."""
        return replace(self, rows=[row for row in self.rows if row.store != store])

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to delete."""
        return not (self.rows or self.versions or self.mentions)
