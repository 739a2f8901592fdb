"""LangGraph's store for long-term memory, limited to one owner."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import timedelta
from functools import cached_property
from typing import Any

import orjson
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

# Use these private functions of InMemoryStore for filters and match conditions, because LangGraph's other stores
# implement both in SQL.
from langgraph.store.memory import _compare_values, _does_match

from aion_core.errors import AgentFailed
from aion_core.state.langgraph.event_loops import running_loop
from aion_core.state.long_term_memory import (
    MAX_MEMORY_BYTES,
    MAX_MEMORY_NAME_BYTES,
    LongTermMemory,
    MemoryItem,
    MemoryScope,
    MemoryWrite,
    Namespace,
)


class StoreRefused(AgentFailed):
    """Error: the long-term memory store does not accept a namespace, key or value. The message gives the reason."""


class OwnerStore(BaseStore):
    """LangGraph store for one turn, with the long-term memory of one owner with one agent.

    It has no search index, so a search's `query` and a put's `index` have no effect, as in an InMemoryStore without an
    index. The synchronous methods are for synchronous nodes in their own threads. Every method may raise
    StoreUnavailable or StoreRefused. Every write may raise LeaseLost.
    """

    supports_ttl = True

    def __init__(self, memory: Callable[[], LongTermMemory], scope: MemoryScope) -> None:
        """Create the store on the graph's event loop. Its first operation calls `memory` to open the memory."""
        self._make_memory, self._scope = memory, scope
        self._loop = asyncio.get_running_loop()
        # Serialise writes, because two concurrent DynamoDB transactions that check the same fence conflict.
        self._one_at_a_time = asyncio.Lock()
        self._one_thread_at_a_time = threading.Lock()

    @cached_property
    def _memory(self) -> LongTermMemory:
        return self._make_memory()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations from a synchronous node, which has a thread of its own. See `abatch`.

        Raises asyncio.InvalidStateError in an event loop's thread, as LangGraph's async stores do.
        """
        if running_loop() is not None:
            raise asyncio.InvalidStateError(
                "A synchronous call of the store blocks the event loop. In an async node use its async method, such as "
                "`await store.aput(...)` for `store.put(...)`."
            )
        with self._one_thread_at_a_time:
            return asyncio.run(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations and return their results in order. All reads run before the writes."""
        return await self._batch(list(ops))

    async def _batch(self, ops: list[Op]) -> list[Result]:
        for op in ops:
            _check(op)
        changes = [_write_of(op) for op in ops if isinstance(op, PutOp)]
        results = await asyncio.gather(*map(self._read, ops))
        if changes and running_loop() is self._loop:
            async with self._one_at_a_time:
                await self._memory.write(self._scope, *changes)
        elif changes:
            await self._memory.write(self._scope, *changes)
        return list(results)

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                return await self._get(op)
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._list_namespaces(op)
            case _:
                return None

    async def _get(self, op: GetOp) -> Item | None:
        found = await self._memory.get(self._scope, op.namespace, op.key)
        if found is None:
            return None
        if op.refresh_ttl:
            await self._memory.touch(self._scope, found)
        return Item(**_fields(found))

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        matching: list[MemoryItem] = []
        results: list[SearchItem] = []
        skipped = 0
        async with aclosing(self._memory.search(self._scope, op.namespace_prefix)) as items:
            while len(results) < op.limit and (item := await anext(items, None)) is not None:
                fields = _fields(item)
                if not _matches(fields["value"], op.filter):
                    continue
                if skipped < op.offset:
                    skipped += 1
                    continue
                matching.append(item)
                results.append(SearchItem(**fields))
        if op.refresh_ttl:
            await self._memory.touch(self._scope, *matching)
        return results

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = await self._memory.namespaces(self._scope, _fixed_prefix(op))
        matching = {
            namespace[: op.max_depth] for namespace in found if all(_does_match(each, namespace) for each in conditions)
        }
        return sorted(matching)[op.offset : op.offset + op.limit]


def _check(op: Op) -> None:
    """Check an operation. Raises StoreRefused, LangGraph's InvalidNamespaceError or ValueError if it is invalid."""
    if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
        raise ValueError(f"Unknown operation type: {type(op)}")
    validate_op_namespace(op)
    match op:
        case GetOp() | PutOp():
            words = (*op.namespace, op.key)
        case SearchOp():
            words = op.namespace_prefix
        case _:
            words = _fixed_prefix(op)
    try:
        size = sum(len(word.encode()) + 1 for word in words)
    except UnicodeEncodeError:
        raise StoreRefused(
            "A namespace or key of the store is not valid Unicode: it contains half a surrogate pair."
        ) from None
    if size > MAX_MEMORY_NAME_BYTES:
        raise StoreRefused(
            f"A namespace and key of the store can have {MAX_MEMORY_NAME_BYTES} bytes together, and one has {size}. "
            "Use a hash of the text for the key, and put the text into the value."
        )


def _write_of(op: PutOp) -> MemoryWrite:
    if op.value is None:
        return MemoryWrite(op.namespace, op.key, None)
    try:
        value = orjson.dumps(dict(op.value))
    except orjson.JSONEncodeError as error:
        raise StoreRefused(
            f"A value of the store is not JSON: {error}. Put text, numbers, lists and dicts with text keys there."
        ) from error
    if len(value) > MAX_MEMORY_BYTES:
        raise StoreRefused(
            f"A value of the store may have {MAX_MEMORY_BYTES} bytes of JSON, and one has {len(value)}. Split it into "
            "several items, or keep it elsewhere and put its address here."
        )
    ttl = timedelta(minutes=op.ttl) if op.ttl is not None else None
    return MemoryWrite(op.namespace, op.key, value.decode(), ttl)


def _fields(item: MemoryItem) -> dict[str, Any]:
    """Return the arguments of LangGraph's Item for an item of long-term memory."""
    return {
        "value": orjson.loads(item.value),
        "key": item.key,
        "namespace": item.namespace,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _matches(value: dict[str, Any], wanted: dict[str, Any] | None) -> bool:
    return all(_compare_values(value.get(name), each) for name, each in (wanted or {}).items())


def _fixed_prefix(op: ListNamespacesOp) -> Namespace:
    """Return the prefix of all namespaces that the operation can match: its prefix condition up to a wildcard."""
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix":
            wild = condition.path.index("*") if "*" in condition.path else len(condition.path)
            return tuple(condition.path[:wild])
    return ()
