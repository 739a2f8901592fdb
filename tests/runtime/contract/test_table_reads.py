"""Table port: queries, indexes and scans, on each table and database."""

from typing import Any

import pytest

from aion_core.errors import StoreError
from aion_core.table.conditions import Both, Condition, Either, Equals, Exists, MoreThan, OneOf
from aion_core.table.item import LAST, Key
from aion_core.table.port import Table
from aion_core.table.schema import BY_AGENT, BY_CONTEXT, STATE, TIMERS, TTL_ATTRIBUTE, VERSION
from aion_core.table.writes import Change, Delete, Put, Update
from tests.runtime.contract.tables import FAR, KB, VALUES, all_pages, items_of
from tests.support.clock import ManualClock

# ── Queries ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def letters(table: Table, part: str) -> str:
    """Create items whose UTF-8 order differs from their UTF-16 and alphabetical orders; return their partition."""
    await table.transact(items_of(part, *reversed(LETTERS)))
    await table.write(Put(Key(f"{part}-other", "b"), {}))
    await table.write(Update(Key(part, "b"), Change(values={TTL_ATTRIBUTE: FAR})))
    return part


LETTERS = ["A", "Z", "a", "b", "b#", "ba", "c", "ä", "\uff5e", "\U0001f600"]


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (" ", LAST, LETTERS),
        ("", LAST, LETTERS),
        ("a", "b", ["a", "b"]),
        ("b", f"b{LAST}", ["b", "b#", "ba"]),
        ("b", "b", ["b"]),
        ("bb", "bc", []),
        ("c", "a", []),
        ("\uff5e", LAST, ["\uff5e", "\U0001f600"]),
    ],
)
async def test_table_query_returns_range_in_order(
    table: Table, letters: str, first: str, last: str, found: list[str]
) -> None:
    page = await table.query(letters, first, last)
    assert [item["sk"] for item in page.items] == found
    assert page.count == len(found)
    assert page.next is None
    assert all(item["a"] == item["sk"] for item in page.items)
    page = await table.query(letters, first, last, newest_first=True, keys_only=True)
    assert list(page.items) == [
        {"pk": letters, "sk": sort, **({TTL_ATTRIBUTE: FAR} if sort == "b" else {})} for sort in reversed(found)
    ]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 3, len(LETTERS)])
async def test_pages_of_query_contain_each_item_once(
    table: Table, letters: str, limit: int, newest_first: bool
) -> None:
    pages = all_pages(
        lambda after: table.query(letters, "Z", LAST, limit=limit, newest_first=newest_first, after=after)
    )
    sizes, found = [], []
    async for page in pages:
        sizes.append(page.count)
        found += [item["sk"] for item in page.items]
        assert len(page.items) == page.count <= limit
    assert all(size == limit for size in sizes[:-1])
    assert found == (LETTERS[:0:-1] if newest_first else LETTERS[1:])


async def test_query_continues_after_last_item_of_page_is_deleted(table: Table, letters: str) -> None:
    page = await table.query(letters, " ", LAST, limit=3)
    await table.write(Delete(Key(letters, "a")))
    await table.write(Put(Key(letters, "aa"), {}))
    following = await table.query(letters, " ", LAST, limit=2, after=page.next)
    assert [item["sk"] for item in following.items] == ["aa", "b"]


async def test_table_query_page_has_at_most_one_megabyte(table: Table, part: str) -> None:
    for number in range(4):
        await table.write(Put(Key(part, str(number)), {"a": "x" * 300 * KB}))
    pages = [page async for page in all_pages(lambda after: table.query(part, "0", "9", after=after, keys_only=True))]
    assert [page.count for page in pages] == [3, 1]
    assert [item["sk"] for page in pages for item in page.items] == ["0", "1", "2", "3"]


async def test_keys_only_query_returns_key_and_ttl(table: Table, part: str, clock: ManualClock) -> None:
    expires = int(clock.now().timestamp()) + 100
    await table.write(Put(Key(part, "a"), {"expires": expires, "v": VERSION, "due_at": 1}))
    page = await table.query(part, " ", LAST, keys_only=True)
    assert page.items == [{"pk": part, "sk": "a", "expires": expires}]


async def test_query_with_limit_of_zero_is_refused(table: Table, part: str) -> None:
    with pytest.raises(StoreError):
        await table.query(part, " ", LAST, limit=0)
    with pytest.raises(StoreError):
        await table.query("", " ", LAST)


# ── Indexes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def listed(at: str, context: str, **more: Any) -> dict[str, Any]:
    return {"listing_agent": f"{context}#agent", "listing_context": context, "listing_at": at, **more}


async def test_table_index_entry_has_keys_and_projected_attributes(table: Table, key: Key) -> None:
    part = key.partition
    await table.write(Put(key, listed("1", part, state="WORKING", expires=FAR, secret="x", due_shard=part, due_at=7)))
    page = await table.query_index(BY_AGENT, f"{part}#agent", "1", "1")
    keys = {"pk": part, "sk": "one"}
    assert page.items == [
        {**keys, "listing_agent": f"{part}#agent", "listing_at": "1", "state": "WORKING", "expires": FAR}
    ]
    assert (await table.query_index(BY_CONTEXT, part, "", LAST)).items == [
        {**keys, "listing_context": part, "listing_at": "1", "state": "WORKING", "expires": FAR}
    ]
    assert (await table.query_index(TIMERS, part, 0, 7)).items == [{**keys, "due_shard": part, "due_at": 7}]


async def test_table_index_reflects_changes_of_its_items(table: Table, part: str) -> None:
    async def due(shard: str = part) -> list[tuple[int, str]]:
        return [(item["due_at"], item["sk"]) for item in (await table.query_index(TIMERS, shard, 0, 10**13)).items]

    for sort, at in (("a", 1000), ("b", 90), ("c", 200)):
        await table.write(Put(Key(part, sort), {"due_shard": part, "due_at": at}))
    await table.write(Put(Key(part, "d"), {"due_shard": part}))
    await table.write(Put(Key(part, "e"), {"due_at": 1}))
    assert await due() == [(90, "b"), (200, "c"), (1000, "a")]
    await table.write(Update(Key(part, "a"), Change(values={"due_at": 100})))
    await table.write(Update(Key(part, "b"), Change(remove=("due_shard",))))
    await table.write(Update(Key(part, "d"), Change(values={"due_at": 5})))
    await table.write(Update(Key(part, "e"), Change(values={"due_shard": f"{part}-other"})))
    await table.transact([Delete(Key(part, "c"))], token=part)
    assert await due() == [(5, "d"), (100, "a")]
    assert await due(f"{part}-other") == [(1, "e")]


@pytest.mark.parametrize(
    ("first", "last", "found"), [(0, 9, [3, 5, 5, 5, 9]), (5, 8, [5, 5, 5]), (-1, 4, [3]), (6, 8, []), (9, 3, [])]
)
async def test_index_query_returns_requested_range(
    table: Table, part: str, first: int, last: int, found: list[int]
) -> None:
    await due_items(table, part)
    for newest_first in (False, True):
        page = await table.query_index(TIMERS, part, first, last, newest_first=newest_first)
        assert [item["due_at"] for item in page.items] == (found[::-1] if newest_first else found)
        assert page.count == len(found)


async def due_items(table: Table, part: str) -> None:
    times = {"a": 5, "b": 3, "c": 5, "d": 9, "e": 5}
    await table.transact([Put(Key(part, sort), {"due_shard": part, "due_at": at}) for sort, at in times.items()])


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_of_index_contain_each_entry_once(table: Table, part: str, limit: int, newest_first: bool) -> None:
    """Three entries have one sort key, so a page may end between them."""
    await due_items(table, part)
    found = []
    async for page in all_pages(
        lambda after: table.query_index(TIMERS, part, 0, 9, limit=limit, newest_first=newest_first, after=after)
    ):
        assert len(page.items) == page.count <= limit
        found += [(item["due_at"], item["sk"]) for item in page.items]
    assert sorted(found) == [(3, "b"), (5, "a"), (5, "c"), (5, "e"), (9, "d")]
    assert [at for at, _ in found] == sorted((at for at, _ in found), reverse=newest_first)


async def test_index_query_applies_filter_after_limit(table: Table, part: str) -> None:
    states = ["WORKING", "DONE", "DONE", "WORKING", "DONE"]
    await table.transact(
        [Put(Key(part, str(n)), listed(str(n), part, state=state, expires=FAR + n)) for n, state in enumerate(states)]
    )

    async def counts(only_if: Condition, *, count_only: bool) -> list[tuple[int, int]]:
        return [
            (page.count, len(page.items))
            async for page in all_pages(
                lambda after: table.query_index(
                    BY_CONTEXT, part, "0", "9", limit=2, after=after, only_if=only_if, count_only=count_only
                )
            )
        ]

    assert await counts(Equals(STATE, "DONE"), count_only=False) == [(1, 1), (1, 1), (1, 1)]
    assert await counts(Equals(STATE, "DONE"), count_only=True) == [(1, 0), (1, 0), (1, 0)]
    assert await counts(Both((OneOf(STATE, ("DONE",)), MoreThan(TTL_ATTRIBUTE, FAR + 1))), count_only=False) == [
        (0, 0),
        (1, 1),
        (1, 1),
    ]
    assert await counts(Exists("secret"), count_only=True) == [(0, 0)] * 3


async def test_index_count_query_returns_no_items(table: Table, part: str) -> None:
    await due_items(table, part)
    page = await table.query_index(TIMERS, part, 4, 9, count_only=True)
    assert (page.count, list(page.items), page.next) == (4, [], None)


# ── Scans ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("segments", [1, 4])
async def test_parallel_table_scan_returns_each_item_once(table: Table, part: str, segments: int) -> None:
    expected = [(f"{part}#{number}", sort) for number in range(12) for sort in ("a", "b")]
    for partition, sort in expected:
        await table.write(Put(Key(partition, sort), {"state": "x", "large": "x" * 60 * KB}))
    found, pages = [], 0
    for segment in range(segments):
        async for page in all_pages(
            lambda after, segment=segment: table.scan(  # type: ignore[misc]
                segment=segment, segments=segments, after=after, attributes=("sk", "pk", "state"), consistent=True
            )
        ):
            pages += 1
            mine = [item for item in page.items if item.get("pk", "").startswith(f"{part}#")]
            assert all(item.keys() == {"pk", "sk", "state"} for item in mine)
            found += [(item["pk"], item["sk"]) for item in mine]
    assert sorted(found) == sorted(expected)
    assert pages > 1


async def test_filtered_table_scan_continues_after_empty_pages(table: Table, part: str) -> None:
    for number in range(30):
        await table.write(Put(Key(f"{part}#{number}", "s"), {"owner": f"{part}{number}", "large": "x" * 60 * KB}))
    only_if = Either((OneOf("owner", (f"{part}3", f"{part}27")), Equals("owner", f"{part}29")))
    found = [
        item["owner"]
        async for page in all_pages(lambda after: table.scan(after=after, only_if=only_if))
        for item in page.items
    ]
    assert sorted(found) == [f"{part}27", f"{part}29", f"{part}3"]


async def test_table_scan_returns_whole_items(table: Table, key: Key) -> None:
    await table.write(Put(key, VALUES))
    found = [
        item
        async for page in all_pages(lambda after: table.scan(after=after))
        for item in page.items
        if item["pk"] == key.partition
    ]
    assert found == [{"pk": key.partition, "sk": key.sort, **VALUES}]
