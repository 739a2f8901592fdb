"""Entries of indexes, and pages of a query or scan, by DynamoDB's documented rules. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from aion_core.table.conditions import Both, Condition, Either, Exists
from aion_core.table.item import PARTITION, SORT, Index, Item
from aion_core.table.semantics.conditions import check_condition
from aion_core.table.semantics.values import invalid, item_size
from aion_core.table.semantics.writes import MAX_PARTITION_BYTES, check_key_part

MAX_PAGE_BYTES = 1024 * 1024


def index_entry(index: Index, item: Mapping[str, Any] | None) -> Item | None:
    """Return the item's entry in the index; None if the item lacks a key attribute of the index."""
    if item is None or index.partition not in item or index.sort not in item:
        return None
    names = (PARTITION, SORT, index.partition, index.sort, *index.copied)
    return {name: item[name] for name in names if name in item}


def check_filter(index: Index, condition: Condition | None) -> None:
    """Raise StoreError if DynamoDB refuses the filter of an index query. It must not name the index's keys."""
    if condition is not None:
        check_condition(condition)
    if {index.partition, index.sort} & set(_names(condition)):
        raise invalid("a filter names a key of the index")


def _names(condition: Condition | None) -> Iterator[str]:
    match condition:
        case None:
            return
        case Both(conditions) | Either(conditions):
            for each in conditions:
                yield from _names(each)
        case _:
            yield cast("Exists", condition).name


def check_query(partition: str, limit: int | None) -> None:
    """Raise StoreError if DynamoDB refuses a query with this partition key and limit."""
    check_key_part(partition, MAX_PARTITION_BYTES)
    if limit is not None and limit < 1:
        raise invalid("a page has a limit of at least 1")


def first_page(items: Iterable[Item], limit: int | None = None) -> tuple[list[Item], bool]:
    """Return the first page of these items, and True if the caller has to read another page.

    The page ends at the limit even if no item follows, as in DynamoDB.
    """
    page: list[Item] = []
    size = 0
    for item in items:
        size += item_size(item)
        if page and size > MAX_PAGE_BYTES:
            return page, True
        page.append(item)
        if len(page) == limit:
            return page, True
    return page, False
