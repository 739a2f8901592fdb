"""Helpers for the contract tests of the table port, and the cases in which an emulator differs from DynamoDB."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aion_core.table.item import Key
from aion_core.table.port import Page, Table
from aion_core.table.writes import Put, Write

KB = 1024
FAR = 10**10
"""Future TTL."""


VALUES = {
    "text": "ä\U0001f600",
    "empty_text": "",
    "number": -(10**37) - 1,
    "zero": 0,
    "yes": True,
    "no": False,
    "bytes": b"\x00\xff",
    "list": [1, "1", True, [], {"inner": [b"x"]}],
    "map": {"a": {}, "b": frozenset({"x"})},
    "set": frozenset({"a", "b"}),
}

DEVIATIONS: dict[str, dict[str, set[str]]] = {
    "moto": {
        "compares values of different types, or fails": {"t = 1", "s <= 4", "t <= 4", "s > 4"},
        "fails without an update expression": {"nothing"},
        "does not look": {
            "empty set", "long number", "long sum", "overlapping paths", "text as time", "number as listing",
            "empty shard", "empty listing", "long index partition", "long index sort", "keys", "4 MB",
        },
        "counts a little otherwise": {"400 KB"},
    },
    "ministack": {
        "replaces the value": {"add to text", "add to bool", "append to text", "append to set"},
        "does not look": {
            "partition", "sort", "no members", "empty set", "attribute twice", "overlapping paths", "long sum",
            "long index partition", "long index sort",
        },
    },
}  # fmt: skip
"""Deviations of emulators from the AWS documentation."""


def skip_deviation(database: str, subject: str) -> None:
    for deviation, subjects in DEVIATIONS.get(database, {}).items():
        if subject in subjects:
            pytest.skip(f"{database} {deviation}")


async def attributes(table: Table, key: Key) -> dict[str, Any] | None:
    item = await table.get(key)
    return item and {name: value for name, value in item.items() if name not in ("pk", "sk")}


async def all_pages(page: Callable[[Any], Awaitable[Page]]) -> AsyncIterator[Page]:
    after = None
    while True:
        found = await page(after)
        yield found
        if found.next is None:
            return
        assert found.next != after
        after = found.next


def items_of(part: str, *sorts: str) -> list[Write]:
    return [Put(Key(part, sort), {"a": sort}) for sort in sorts]
