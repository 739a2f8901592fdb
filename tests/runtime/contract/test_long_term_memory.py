"""Contract of long-term memory, and of LangGraph's store on that memory, on each table."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from aion_core.errors import LeaseLost
from aion_core.state import long_term_memory
from aion_core.state.langgraph.owner_store import OwnerStore, StoreRefused
from aion_core.state.long_term_memory import LongTermMemory, MemoryItem, MemoryScope, MemoryWrite, Namespace
from tests.runtime.contract.memories import DynamoDBMemories, Memories, memory_memories
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import CuttableConnection, begin, fence_of, taken_over
from tests.support.stores import new_owner

NS = ("facts",)


@pytest.fixture
def memories(adapter: Stack | None, clock: ManualClock) -> Memories:
    return memory_memories(clock) if adapter is None else DynamoDBMemories(adapter, clock)


@pytest.fixture
def memory(memories: Memories) -> LongTermMemory:
    return memories.memory()


@pytest.fixture
def scope() -> MemoryScope:
    return MemoryScope(new_owner(), "helper")


async def found(memory: LongTermMemory, scope: MemoryScope, prefix: Namespace = ()) -> list[MemoryItem]:
    return [item async for item in memory.search(scope, prefix)]


async def keys_of(memory: LongTermMemory, scope: MemoryScope, prefix: Namespace = ()) -> list[str]:
    return [item.key for item in await found(memory, scope, prefix)]


# ── `LongTermMemory` ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.exact_times
async def test_written_memory_item_is_read_back(memory: LongTermMemory, scope: MemoryScope, clock: ManualClock) -> None:
    await memory.write(scope, MemoryWrite(NS, "color", '{"is":"blue"}'))
    item = await memory.get(scope, NS, "color")
    assert item == MemoryItem(NS, "color", '{"is":"blue"}', clock.now(), clock.now())
    assert await memory.get(scope, NS, "size") is None
    assert await memory.get(scope, ("facts", "color"), "color") is None


@pytest.mark.exact_times
async def test_second_write_replaces_memory_item_and_keeps_creation_time(
    memory: LongTermMemory, scope: MemoryScope, clock: ManualClock
) -> None:
    made = clock.now()
    await memory.write(scope, MemoryWrite(NS, "color", "1"))
    clock.move(5)
    await memory.write(scope, MemoryWrite(NS, "color", "2"))
    assert await memory.get(scope, NS, "color") == MemoryItem(NS, "color", "2", made, clock.now())


async def test_deleted_memory_item_may_be_deleted_again(memory: LongTermMemory, scope: MemoryScope) -> None:
    await memory.write(scope, MemoryWrite(NS, "color", "1"))
    for _ in range(2):
        await memory.write(scope, MemoryWrite(NS, "color", None))
    assert await memory.get(scope, NS, "color") is None
    assert await found(memory, scope) == []
    assert await memory.namespaces(scope, ()) == []


async def test_last_of_several_writes_to_memory_item_wins(memory: LongTermMemory, scope: MemoryScope) -> None:
    await memory.write(scope, MemoryWrite(NS, "a", "1"), MemoryWrite(NS, "b", "1"), MemoryWrite(NS, "a", "2"))
    assert [(item.key, item.value) for item in await found(memory, scope)] == [("a", "2"), ("b", "1")]


async def test_many_large_memory_writes_are_all_made(memory: LongTermMemory, scope: MemoryScope) -> None:
    large = "x" * 300_000
    await memory.write(scope, *(MemoryWrite(NS, f"{n:02d}", large) for n in range(23)))
    items = await found(memory, scope)
    assert [item.key for item in items] == [f"{n:02d}" for n in range(23)]
    assert {item.value for item in items} == {large}


async def test_memory_search_finds_namespaces_below_the_prefix(memory: LongTermMemory, scope: MemoryScope) -> None:
    places: list[tuple[Namespace, str]] = [
        (("users",), "k"),
        (("users", "ann"), "k2"),
        (("users", "ann"), "k1"),
        (("users", "ann", "#1"), "k#%"),
        (("users2",), "k"),
        (("user",), "k"),
        (("users", "an"), "..k"),
        (("users", "-x"), ""),
        ((), ".root"),
    ]
    for namespace, key in places:
        await memory.write(scope, MemoryWrite(namespace, key, "1"))

    async def places_below(*prefix: str) -> list[tuple[Namespace, str]]:
        return sorted((item.namespace, item.key) for item in await found(memory, scope, prefix))

    assert await places_below() == sorted(places)
    assert await places_below("users") == sorted(each for each in places if each[0][:1] == ("users",))
    assert await places_below("users", "ann") == sorted(each for each in places if each[0][:2] == ("users", "ann"))
    assert await keys_of(memory, scope, ("users", "ann")) in (["k1", "k2", "k#%"], ["k#%", "k1", "k2"])
    assert await places_below("nobody") == []
    assert sorted(await memory.namespaces(scope, ())) == sorted({namespace for namespace, _ in places})
    assert sorted(await memory.namespaces(scope, ("users", "ann"))) == [("users", "ann"), ("users", "ann", "#1")]


async def test_memories_of_owners_and_agents_are_isolated(memory: LongTermMemory) -> None:
    owner = new_owner()
    scopes = [
        MemoryScope(owner, "helper"),
        MemoryScope(owner, "helper2"),
        MemoryScope(owner, "help"),
        MemoryScope(f"{owner}#helper", "helper"),
        MemoryScope(f"{owner}%23helper", "helper"),
        MemoryScope(f"{owner}2", "helper"),
        MemoryScope("", f"{owner}-helper"),
    ]
    for scope in scopes:
        await memory.write(scope, MemoryWrite(NS, "k", f'"{scope}"'))
    for scope in scopes:
        assert [item.value for item in await found(memory, scope)] == [f'"{scope}"']
        assert await memory.namespaces(scope, ()) == [NS]
    await memory.write(scopes[0], MemoryWrite(NS, "k", None))
    assert await found(memory, scopes[0]) == []
    for scope in scopes[1:]:
        assert len(await found(memory, scope)) == 1


async def test_memory_item_expires_with_its_ttl(memory: LongTermMemory, scope: MemoryScope, clock: ManualClock) -> None:
    await memory.write(scope, MemoryWrite(NS, "short", "1", timedelta(minutes=1)), MemoryWrite(NS, "lasting", "1"))
    clock.move(58)
    item = await memory.get(scope, NS, "short")
    assert item is not None
    assert item.ttl == timedelta(minutes=1)
    await memory.touch(scope, item)
    clock.move(58)
    assert await keys_of(memory, scope) == ["lasting", "short"]
    clock.move(3)
    assert await memory.get(scope, NS, "short") is None
    assert await keys_of(memory, scope) == ["lasting"]
    clock.move(timedelta(days=4000).total_seconds())
    assert await keys_of(memory, scope) == ["lasting"]


async def test_memory_write_without_ttl_removes_earlier_ttl(
    memory: LongTermMemory, scope: MemoryScope, clock: ManualClock
) -> None:
    await memory.write(scope, MemoryWrite(NS, "k", "1", timedelta(minutes=1)))
    await memory.write(scope, MemoryWrite(NS, "k", "2"))
    clock.move(120)
    item = await memory.get(scope, NS, "k")
    assert item is not None
    assert (item.value, item.ttl) == ("2", None)


async def test_ttl_renewal_does_not_affect_memory_item_replaced_meanwhile(
    memory: LongTermMemory, scope: MemoryScope, clock: ManualClock
) -> None:
    await memory.write(scope, MemoryWrite(NS, "k", "1", timedelta(minutes=10)))
    read = await memory.get(scope, NS, "k")
    assert read is not None
    clock.move(1)
    await memory.write(scope, MemoryWrite(NS, "k", "2", timedelta(minutes=1)))
    await memory.touch(scope, read)
    clock.move(70)
    assert await memory.get(scope, NS, "k") is None
    await memory.write(scope, MemoryWrite(NS, "k", None))
    await memory.touch(scope, read)
    assert await memory.get(scope, NS, "k") is None


async def test_listed_namespaces_omit_expired_memory_items(
    memory: LongTermMemory, scope: MemoryScope, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term_memory, "NAMES_AT_ONCE", 2)
    for n in range(3):
        await memory.write(scope, MemoryWrite(("a",), f"k{n}", "1", timedelta(minutes=1)))
    await memory.write(scope, MemoryWrite(("a",), "k9", "1"), MemoryWrite(("b",), "k", "1", timedelta(minutes=1)))
    clock.move(120)
    assert await memory.namespaces(scope, ()) == [("a",)]


async def test_namespace_list_reads_few_items_of_each_namespace(
    stack: Stack, clock: ManualClock, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term_memory, "NAMES_AT_ONCE", 3)
    memories = DynamoDBMemories(stack, clock)
    memory = memories.memory()
    for name in ("a", "b"):
        await memory.write(scope, *(MemoryWrite((name,), f"{n:02d}", "1") for n in range(30)))
    line = CuttableConnection(memories.client)
    assert sorted(await memory.namespaces(scope, ())) == [("a",), ("b",)]
    assert line.requests == {"Query": 3}


async def test_memory_write_of_worker_with_lost_lease_is_refused(memories: Memories, clock: ManualClock) -> None:
    begun = await begin(memories.tasks, clock)
    scope = MemoryScope(begun.lease.context.owner, "echo")
    late = memories.memory(fence=fence_of(begun))
    await late.write(scope, MemoryWrite(NS, "k", "1"))
    taken = await taken_over(memories, clock, begun)  # type: ignore[arg-type]
    now = memories.memory(fence=fence_of(taken))
    await now.write(scope, MemoryWrite(NS, "k", "2"))
    for change in (MemoryWrite(NS, "k", "3"), MemoryWrite(NS, "k", None)):
        with pytest.raises(LeaseLost):
            await late.write(scope, change)
    assert [item.value for item in await found(late, scope)] == ["2"]


async def test_concurrent_memory_writes_are_all_made(memories: Memories, clock: ManualClock) -> None:
    begun = await begin(memories.tasks, clock)
    scope = MemoryScope(begun.lease.context.owner, "echo")
    memory = memories.memory(fence=fence_of(begun))
    await asyncio.gather(*(memory.write(scope, MemoryWrite(NS, f"k{n}", "1")) for n in range(5)))
    assert await keys_of(memory, scope) == [f"k{n}" for n in range(5)]


# ── LangGraph's store ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def store(memory: LongTermMemory, scope: MemoryScope) -> OwnerStore:
    return OwnerStore(lambda: memory, scope)


PEOPLE: list[tuple[Namespace, str, dict[str, Any]]] = [
    (("people", "de"), "ann", {"age": 30, "name": {"first": "Ann"}, "tags": ["a", "b"]}),
    (("people", "de"), "bob", {"age": 40, "name": {"first": "Bob"}, "tags": []}),
    (("people", "us"), "cid", {"age": 50, "name": {"first": "Cid", "last": None}, "deep": [{"x": 1.5}]}),
    (("places", "de"), "rome", {"age": 2778, "name": "Rome \N{SNOWMAN}", "true": True}),
    (("places",), "mars", {"age": 4_600_000_000}),
]

OPERATIONS: list[Any] = [
    *(GetOp(namespace, key) for namespace, key, _ in PEOPLE),
    GetOp(("people",), "ann"),
    SearchOp(()),
    SearchOp(("people",)),
    SearchOp(("people", "de"), limit=1),
    SearchOp(("people",), offset=1),
    SearchOp(("people",), offset=1, limit=1),
    SearchOp(("people",), offset=9),
    SearchOp(("people",), limit=0),
    SearchOp(("people",), filter={"age": 40}),
    SearchOp(("people",), filter={"age": {"$gt": 30, "$lte": 50}}),
    SearchOp(("people",), filter={"age": {"$gte": 40}}, offset=1),
    SearchOp(("people",), filter={"age": {"$ne": 40}}),
    SearchOp(("people",), filter={"age": {"$lt": 40}, "tags": ["a", "b"]}),
    SearchOp((), filter={"name": {"first": "Cid"}}),
    SearchOp((), filter={"name": {"$eq": "Rome \N{SNOWMAN}"}}),
    SearchOp((), filter={"nothing": 1}),
    SearchOp(("people",), query="who is old?"),
    SearchOp(("people",), query="who is old?", filter={"age": 50}),
    ListNamespacesOp(),
    ListNamespacesOp(max_depth=1),
    ListNamespacesOp(limit=2, offset=1),
    ListNamespacesOp((MatchCondition("prefix", ("people",)),)),
    ListNamespacesOp((MatchCondition("prefix", ("people", "*")),)),
    ListNamespacesOp((MatchCondition("prefix", ("*", "de")),)),
    ListNamespacesOp((MatchCondition("suffix", ("de",)),)),
    ListNamespacesOp((MatchCondition("suffix", ("*", "us")),)),
    ListNamespacesOp((MatchCondition("prefix", ("people",)), MatchCondition("suffix", ("us",)))),
    ListNamespacesOp((MatchCondition("prefix", ("peopl",)),)),
    ListNamespacesOp((MatchCondition("prefix", ("people",)),), max_depth=1),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_memory_store_matches_langgraphs_in_memory_store(store: OwnerStore, operation: Any) -> None:
    """Put the items in reverse order: our store nevertheless returns them sorted by key."""
    langgraphs = InMemoryStore()
    for namespace, key, value in sorted(PEOPLE, key=lambda each: (each[0], each[1])):
        await langgraphs.aput(namespace, key, value)
    for namespace, key, value in reversed(PEOPLE):
        await store.aput(namespace, key, value)
    [right], [answer] = await langgraphs.abatch([operation]), await store.abatch([operation])
    assert _plain(answer) == _plain(right)


def _plain(result: Any) -> Any:
    """Return the result without its items' timestamps, which differ between the two stores."""
    if isinstance(result, list):
        return [_plain(each) for each in result]
    if hasattr(result, "key"):
        return (type(result), result.namespace, result.key, result.value, getattr(result, "score", None))
    return result


async def test_memory_batch_executes_its_reads_before_its_writes(store: BaseStore) -> None:
    await store.aput(NS, "k", {"n": 1})
    results = await store.abatch(
        [PutOp(NS, "k", {"n": 2}), GetOp(NS, "k"), PutOp(NS, "new", {"n": 3}), GetOp(NS, "new"), PutOp(NS, "k", None)]
    )
    assert [_plain(result) for result in results][1][3] == {"n": 1}
    assert [results[0], *results[2:]] == [None, None, None, None]
    assert await store.aget(NS, "k") is None
    made = await store.aget(NS, "new")
    assert made is not None
    assert made.value == {"n": 3}


@pytest.mark.exact_times
async def test_memory_store_methods_read_and_write_items(store: BaseStore, clock: ManualClock) -> None:
    made = clock.now()
    await store.aput(NS, "k", {"n": 1})
    clock.move(3)
    await store.aput(NS, "k", {"n": 2}, index=["n"])
    item = await store.aget(NS, "k")
    assert item is not None
    assert (item.value, item.created_at, item.updated_at) == ({"n": 2}, made, clock.now())
    [hit] = await store.asearch(NS, filter={"n": 2})
    assert (hit.key, hit.namespace, hit.score) == ("k", NS, None)
    assert await store.alist_namespaces(prefix=("facts",)) == [NS]
    await store.adelete(NS, "k")
    assert await store.asearch(()) == []


async def test_synchronous_memory_methods_work_in_a_thread(store: BaseStore) -> None:
    def use() -> list[Any]:
        store.put(NS, "k", {"n": 1})
        store.put(NS, "gone", {"n": 1})
        store.delete(NS, "gone")
        item = store.get(NS, "k")
        assert item is not None
        return [item.value, [hit.key for hit in store.search(NS)], store.list_namespaces()]

    assert await asyncio.to_thread(use) == [{"n": 1}, ["k"], [NS]]


async def test_synchronous_memory_call_on_event_loop_raises(store: BaseStore) -> None:
    with pytest.raises(asyncio.InvalidStateError, match=r"await store\.aput"):
        store.put(NS, "k", {"n": 1})
    assert await store.aget(NS, "k") is None


async def test_memory_reads_renew_ttl_by_default(store: BaseStore, clock: ManualClock) -> None:
    assert store.supports_ttl
    await store.aput(NS, "k", {"n": 1}, ttl=1)
    for _ in range(2):
        clock.move(40)
        assert await store.aget(NS, "k") is not None
    for _ in range(2):
        clock.move(40)
        assert len(await store.asearch(NS)) == 1
    clock.move(40)
    assert await store.aget(NS, "k", refresh_ttl=False) is not None
    assert len(await store.asearch(NS, refresh_ttl=False)) == 1
    clock.move(40)
    assert await store.aget(NS, "k") is None
    assert await store.alist_namespaces() == []


class Thing:
    """Object that cannot be converted to JSON."""


@pytest.mark.parametrize(
    ("namespace", "key", "value", "sentence"),
    [
        (NS, "k", {"x": Thing()}, "not JSON: Type is not JSON serializable: Thing"),
        (NS, "k", {"x": {1: 2}}, "not JSON: Dict key must be str"),
        (NS, "k", {"x": "\ud800"}, "not JSON: str is not valid UTF-8"),
        (NS, "k", {"x": "\N{SNOWMAN}" * 120_000}, "350000 bytes of JSON, and one has 360008"),
        (NS, "k" * 900, {"x": 1}, "800 bytes together, and one has 907"),
        (("n" * 900,), "k", {"x": 1}, "800 bytes together, and one has 903"),
        (NS, "\ud800", {"x": 1}, "half a surrogate pair"),
    ],
    ids=lambda each: each if isinstance(each, str) and len(each) > 20 else "",
)
async def test_memory_store_refuses_invalid_values(
    store: BaseStore, namespace: Namespace, key: str, value: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(StoreRefused, match=sentence):
        await store.aput(namespace, key, value)
    assert await store.asearch(()) == []


async def test_largest_memory_item_is_stored(store: BaseStore) -> None:
    namespace = ("n" * 600,)
    value = {"x": "y" * 349_992}
    await store.aput(namespace, "k" * 198, value)
    item = await store.aget(namespace, "k" * 198)
    assert item is not None
    assert item.value == value
    assert await store.alist_namespaces() == [namespace]


async def test_memory_store_refuses_namespace_labels_refused_by_langgraph(store: BaseStore) -> None:
    for namespace in ((), ("a.b",), ("",), ("langgraph",)):
        with pytest.raises(InvalidNamespaceError):
            await store.aput(namespace, "k", {"n": 1})
    for op in (GetOp(("a.b",), "k"), SearchOp(("a.b",)), PutOp(("",), "k", {"n": 1})):
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([op])
    with pytest.raises(ValueError, match="Unknown operation"):
        await store.abatch(["put"])  # type: ignore[list-item]


async def test_concurrent_memory_puts_of_one_turn_are_all_made(memories: Memories, clock: ManualClock) -> None:
    begun = await begin(memories.tasks, clock)
    store = OwnerStore(
        partial(memories.memory, fence=fence_of(begun)),
        MemoryScope(begun.lease.context.owner, begun.lease.context.agent),
    )
    await asyncio.gather(*(store.aput(NS, f"k{n:02d}", {"n": n}) for n in range(30)))
    assert [hit.value["n"] for hit in await store.asearch(NS, limit=50)] == [*range(30)]


async def test_memory_puts_of_many_threads_are_all_made(memories: Memories, clock: ManualClock) -> None:
    begun = await begin(memories.tasks, clock)
    store = OwnerStore(
        partial(memories.memory, fence=fence_of(begun)),
        MemoryScope(begun.lease.context.owner, begun.lease.context.agent),
    )
    await asyncio.gather(*(asyncio.to_thread(store.put, NS, f"k{n:02d}", {"n": n}) for n in range(20)))
    assert [hit.value["n"] for hit in await store.asearch(NS, limit=50)] == [*range(20)]
