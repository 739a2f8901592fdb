"""Table port: items, conditions, writes and reads, with the guarantees of DynamoDB."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from aion_core.errors import StoreError, StoreUnavailable

PARTITION, SORT = "pk", "sk"
"""Names of the attributes of an item's key."""

Item = dict[str, Any]
"""An item's attributes by name, with its key. A value is a str, int, bool, bytes, list, dict or frozenset of str."""

LAST = "\U0010ffff"
"""Character that sorts after all characters of sort keys: the end of a range of keys."""


class Key(NamedTuple):
    """The key of an item: its partition key and sort key."""

    partition: str
    sort: str


class Index(NamedTuple):
    """A secondary index. It has an entry for every item with both key attributes of the index."""

    name: str
    partition: str
    sort: str
    sort_type: str = "S"
    """Type of the sort key: `S` for text, `N` for whole numbers."""
    copied: tuple[str, ...] = ()
    """The attributes copied to an entry, besides the keys of the index and of the item."""


# ── Conditions ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Exists(Struct, frozen=True):
    """Condition: the attribute exists; without a name, the item exists."""

    name: str = PARTITION


class Absent(Struct, frozen=True):
    """Condition: the attribute does not exist; without a name, the item does not exist."""

    name: str = PARTITION


class Equals(Struct, frozen=True):
    """Condition: the attribute exists and has this value."""

    name: str
    value: str | int | bool | bytes


class AtMost(Struct, frozen=True):
    """Condition: the attribute exists and is this number or less."""

    name: str
    value: int


class MoreThan(Struct, frozen=True):
    """Condition: the attribute exists and is greater than this number."""

    name: str
    value: int


class OneOf(Struct, frozen=True):
    """Condition: the attribute exists and has one of these values."""

    name: str
    values: tuple[str, ...]


class ShorterThan(Struct, frozen=True):
    """Condition: the list or set has fewer members than this. An absent attribute counts as empty."""

    name: str
    length: int


class NotEmpty(Struct, frozen=True):
    """Condition: the list or set exists and has at least one member."""

    name: str


class Both(Struct, frozen=True):
    """Condition: all of these conditions hold."""

    conditions: tuple["Condition", ...]


class Either(Struct, frozen=True):
    """Condition: at least one of these conditions holds."""

    conditions: tuple["Condition", ...]


Condition = Exists | Absent | Equals | AtMost | MoreThan | OneOf | ShorterThan | NotEmpty | Both | Either


# ── Writes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Put(Struct, frozen=True):
    """Write that creates an item or replaces the whole item."""

    key: Key
    item: Mapping[str, Any]
    """The item's attributes without the key."""
    only_if: Condition | None = None


class Change(Struct, frozen=True):
    """A change of some attributes of an item. It does not include the item's key."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Attributes to set, with their new values."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Attributes and the values to set if they are absent."""
    add: Mapping[str, int] = field(default_factory=dict)
    """Numbers to add; an absent attribute counts as 0."""
    append: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Members to append to lists; an absent attribute counts as an empty list."""
    drop_first: tuple[str, ...] = ()
    """Names of lists to remove the first member from."""
    remove: tuple[str, ...] = ()
    """Names of attributes to remove, if they exist."""
    add_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Members to add to sets; an absent attribute counts as an empty set."""
    remove_members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Members to remove from sets, if they exist; an empty set is removed."""
    only_if: Condition | None = None


class Update(Struct, frozen=True):
    """Write that changes some attributes of an item. An absent item is created."""

    key: Key
    change: Change


class Delete(Struct, frozen=True):
    """Write that deletes the item, if it exists."""

    key: Key
    only_if: Condition | None = None


class ConditionCheck(Struct, frozen=True):
    """Part of a transaction that changes nothing. If its condition fails, the whole transaction fails."""

    key: Key
    only_if: Condition


SingleWrite = Put | Update | Delete
Write = SingleWrite | ConditionCheck


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────

CONDITION_FAILED, CONFLICT, FINE = "ConditionalCheckFailed", "TransactionConflict", "None"


class WriteRefused(Exception):
    """Error: nothing was written, because a condition failed or another transaction was writing one of the items."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        """`reasons` has CONDITION_FAILED, CONFLICT or FINE for each write, in the same order."""
        super().__init__(", ".join(reasons))
        self.reasons = reasons

    def failed(self, position: int) -> bool:
        """Return True if the condition of the write at this position did not hold."""
        return self.reasons[position : position + 1] == (CONDITION_FAILED,)

    @property
    def is_conflict(self) -> bool:
        """True if the only reason was another transaction: the same writes may succeed when repeated."""
        return CONFLICT in self.reasons and CONDITION_FAILED not in self.reasons


THROTTLED, CAPACITY_EXCEEDED, INVALID = "ThrottlingError", "ProvisionedThroughputExceeded", "ValidationError"
"""Further cancellation reasons of a DynamoDB transaction."""


def canceled(reasons: Sequence[str], operation: str = "") -> Exception:
    """Return the error for a write or transaction that was refused for these cancellation reasons."""
    text = f"{operation}TransactionCanceledException: {', '.join(reasons)}"
    if {THROTTLED, CAPACITY_EXCEEDED} & {*reasons}:
        return StoreUnavailable(text)
    # Any other reason is a mistake, such as an item that is too large.
    is_refusal = {FINE} != {*reasons} <= {CONDITION_FAILED, CONFLICT, FINE}
    return WriteRefused(tuple(reasons)) if reasons and is_refusal else StoreError(text)


class TokenReused(StoreError):
    """Error: an earlier call with this token had other writes and may have succeeded (IdempotentParameterMismatch)."""


# ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Page(Struct, frozen=True):
    """One page of items from a query or scan."""

    items: Sequence[Item]
    count: int
    """Number of found items, also in a query that only counts them."""
    next: Any = None
    """Position to pass as `after` for the next page; None on the last page. Callers may only compare it."""


class Table(Protocol):
    """A table with conditional writes, transactions, consistent reads, and eventually consistent indexes.

    Every method may raise StoreUnavailable (a write may still have succeeded) or StoreError. Expired items stay
    readable until they are deleted, some time after their TTL. An item has at most 400 KB, a transaction 100 writes and
    4 MB, a page 1 MB.
    """

    async def get(self, key: Key) -> Item | None:
        """Return the item with this key; None if it does not exist. The read is consistent."""
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
        """Return a page of the partition's items from sort key `first` to `last`, both included; consistent.

        An empty `first` means no lower bound; the page is empty if `first` sorts after `last`. A page may have a part
        of a transaction in progress. With `keys_only` the items have only their key and their TTL.
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
        """Return a page of the index's entries from `first` to `last`. The index may lag behind the table.

        An entry has the item's key, the index's keys and the copied attributes. The page is empty if `first` sorts after
        `last`. `limit` applies before `only_if` filters the entries. With `count_only` the page has only the number of
        items.
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
        """Return a page of items from one segment of the table, with these attributes only, or with all attributes."""
        ...

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """Put, update or delete one item. Raises WriteRefused if the write's condition fails.

        With `returning`, return the item after an update or before a delete; None for a put.
        """
        ...

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """Make all of the writes, or raise WriteRefused and write nothing. Each item may be written only once.

        For ten minutes after a success, a repeat with the same token and writes succeeds without effect. The same token
        with other writes raises TokenReused.
        """
        ...

    def get_blocking(self, key: Key) -> Item | None:
        """Return the item as `get` does, but in the calling thread: the event loop may be blocked by an agent."""
        ...

    def write_blocking(self, write: SingleWrite) -> None:
        """Write as `write` does, but in the calling thread."""
        ...


class ErasableTable(Table, Protocol):
    """A table that can delete many items at once."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete up to 25 items, if they exist. Return the keys of items left over because the table was throttled."""
        ...
