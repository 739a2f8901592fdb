"""Table port: reads and writes of items, with the guarantees of DynamoDB."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from aion_core.table.conditions import Condition
from aion_core.table.item import Index, Item, Key
from aion_core.table.writes import SingleWrite, Write


class Page(Struct, frozen=True):
    """One page of items from a query or scan."""

    items: Sequence[Item]
    count: int
    """Number of found items, also in a query that only counts them."""
    next: Any = None
    """Position to pass as `after` for the next page; None on the last page. Callers may only compare it."""
    last_read: str | int | None = None
    """Sort key of the last entry of an index's page, also if the filter has removed it; None on the last page."""


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
        only_if: Condition | None = None,
        consistent: bool = False,
    ) -> Page:
        """Return a page of items from one segment of the table, with these attributes only, or with all attributes.

        A page that `only_if` has filtered may be empty, although others follow.
        """
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
