"""The table port: items, conditions, writes and reads, with the promises of DynamoDB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from aion_core.errors import StoreError

PARTITION, SORT = "pk", "sk"
"""The attributes of an item's key."""

Item = dict[str, Any]
"""Attributes by name, the key among them. A value is a str, int, bool, bytes, list, dict or frozenset of str."""

LAST = "\U0010ffff"
"""Sorts after every character of a sort key."""


class Key(NamedTuple):
    """The key of an item."""

    partition: str
    sort: str


class Index(NamedTuple):
    """A secondary index: holds every item that has both attributes."""

    name: str
    partition: str
    sort: str
    sort_type: str = "S"
    """`S` for text, `N` for whole numbers."""
    copied: tuple[str, ...] = ()
    """The attributes of an entry beside its keys and the item's."""


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Exists:
    """The attribute exists; without a name, the item does."""

    name: str = PARTITION


@dataclass(frozen=True, slots=True)
class Absent:
    """The attribute does not exist; without a name, the item does not."""

    name: str = PARTITION


@dataclass(frozen=True, slots=True)
class Equals:
    """The attribute exists and has this value."""

    name: str
    value: str | int | bool | bytes


@dataclass(frozen=True, slots=True)
class AtMost:
    """The attribute exists and is this number or less."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class MoreThan:
    """The attribute exists and is greater than this number."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """The attribute exists and has one of these values."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShorterThan:
    """The list or set has fewer members than this; an absent attribute counts as empty."""

    name: str
    length: int


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """The list or set has a member."""

    name: str


@dataclass(frozen=True, slots=True)
class Both:
    """All of these conditions hold."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of these conditions holds."""

    conditions: tuple["Condition", ...]


Condition = Exists | Absent | Equals | AtMost | MoreThan | OneOf | ShorterThan | NotEmpty | Both | Either


# ── Writes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the whole item, or create it."""

    key: Key
    item: Mapping[str, Any]
    """The attributes without the key."""
    only_if: Condition | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of some attributes of an item, without its key."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Attributes and their new values."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of absent attributes."""
    add: Mapping[str, int] = field(default_factory=dict)
    """Numbers to add; an absent attribute counts as 0."""
    append: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Members to append to lists; an absent attribute counts as an empty list."""
    drop_first: tuple[str, ...] = ()
    """Lists to remove the first member of."""
    remove: tuple[str, ...] = ()
    """Attributes to remove, if they exist."""
    add_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Members to add to sets; an absent attribute counts as an empty set."""
    remove_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Members to remove from sets, if they exist; an empty set is removed."""
    only_if: Condition | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes of an item; an absent one is created."""

    key: Key
    change: Change

    @property
    def only_if(self) -> Condition | None:
        """The condition of the change."""
        return self.change.only_if


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the item, if it exists."""

    key: Key
    only_if: Condition | None = None


@dataclass(frozen=True, slots=True)
class ConditionCheck:
    """Change nothing; the other writes of the transaction depend on the condition."""

    key: Key
    only_if: Condition


SingleWrite = Put | Update | Delete
Write = SingleWrite | ConditionCheck


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────

CONDITION_FAILED, CONFLICT, FINE = "ConditionalCheckFailed", "TransactionConflict", "None"


class WriteRefused(Exception):
    """No item was written: a condition did not hold, or another transaction was writing one of the items."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        """`reasons` holds one of CONDITION_FAILED, CONFLICT and FINE for each write, in their order."""
        super().__init__(", ".join(reasons))
        self.reasons = reasons

    def failed(self, position: int) -> bool:
        """Return True if the condition of the write at this position did not hold."""
        return self.reasons[position : position + 1] == (CONDITION_FAILED,)

    @property
    def is_conflict(self) -> bool:
        """True if no condition failed: the same writes may succeed when they are tried again."""
        return CONFLICT in self.reasons and CONDITION_FAILED not in self.reasons


class TokenReused(StoreError):
    """The token was used with other writes: an earlier transaction may have succeeded (IdempotentParameterMismatch)."""


# ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a query or scan."""

    items: Sequence[Item]
    count: int
    """Number of items, also of a query that only counts."""
    next: Any = None
    """Pass it as `after` for the next page; None on the last page. Opaque, except that it can be compared."""


class Table(Protocol):
    """One table: conditional writes, transactions, consistent reads, and lagging indexes.

    Every method may raise StoreUnavailable (a write may still have succeeded) or StoreError. Expired items stay
    readable until they are deleted, some time after their TTL. An item has at most 400 KB, a transaction 100 writes
    and 4 MB, a page 1 MB.
    """

    async def get(self, key: Key) -> Item | None:
        """Return the item, None if it does not exist; consistent."""
        ...

    async def query(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        after: Any = None,
        keys_only: bool = False,
    ) -> Page:
        """Return a page of the items of the partition from sort key `first` to `last`, both included; consistent.

        An empty `first` is no bound; the page is empty if `first` is after `last`. A page may hold a part of a
        transaction in progress. With `keys_only` the items have their key and their TTL only.
        """
        ...

    async def query_index(
        self,
        index: Index,
        partition: str,
        first: str | int,
        last: str | int,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        after: Any = None,
        only_if: Condition | None = None,
        count_only: bool = False,
    ) -> Page:
        """Return a page of the index's entries from `first` to `last`; it may lag behind the table.

        An entry has the item's key, the index's keys and the copied attributes. `only_if` filters the entries after
        `limit` counts them. With `count_only` the page has no items, only their count.
        """
        ...

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Any = None,
        attributes: Sequence[str] = (),
        consistent: bool = False,
    ) -> Page:
        """Return a page of a segment of the table, with these attributes, or with all."""
        ...

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """Make one write; raises WriteRefused if its condition does not hold.

        With `returning`, returns the item after an update or before a delete; None for a put.
        """
        ...

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """Make all of the writes or no write; raises WriteRefused. A transaction writes each item once.

        For ten minutes after a success, a repeat with the same token and writes succeeds without effect; the same token
        with other writes raises TokenReused.
        """
        ...

    def get_blocking(self, key: Key) -> Item | None:
        """Do as `get` in the calling thread: an agent may block the event loop."""
        ...

    def write_blocking(self, write: SingleWrite) -> None:
        """Do as `write` in the calling thread."""
        ...


class ErasableTable(Table, Protocol):
    """A table with deletes of many items at once."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete up to 25 items, if they exist; return the keys left over by a throttled table."""
        ...
