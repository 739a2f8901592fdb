"""Items of a table: their keys, attributes and indexes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from aion_core.errors import StoreCorrupt

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


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Context manager: raise StoreCorrupt if an item has invalid attributes. `what` names the item in the error."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise StoreCorrupt(f"{what} cannot be read.") from error


def key_of(item: Item) -> Key:
    """Return the key of an item or of an index entry."""
    return Key(item[PARTITION], item[SORT])
