"""LangGraph persistence: the serializer of checkpoints, a hook before each write, and the long-term memory store."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any

import orjson
import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
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

from aion_core.authoring.types import A2AOutbox
from aion_core.errors import AgentFailed
from aion_core.ports import (
    MAX_MEMORY_BYTES,
    MAX_MEMORY_NAME_BYTES,
    LongTermMemory,
    MemoryItem,
    MemoryScope,
    MemoryWrite,
    Namespace,
)
from aion_core.protocol.types import Message, Task

StoredType = tuple[str, str] | type
"""Class of objects in a checkpoint: the class itself, or its module and name."""

OUR_TYPES: tuple[StoredType, ...] = (
    ("aion_core.authoring.types", "A2AInbox"),
    ("aion_core.authoring.types", "A2AOutbox"),
)

SECRET_TYPES: tuple[StoredType, ...] = (("pydantic.types", "SecretStr"), ("pydantic.types", "SecretBytes"))
"""Types restored as objects of their class, because plain text would show a secret in answers, questions and logs."""


@lru_cache(maxsize=64)
def serializer(types: frozenset[StoredType] = frozenset()) -> JsonPlusSerializer:
    """Return LangGraph's serializer without pickle. It restores only objects of listed classes.

    The list has LangGraph's safe types (messages, dates, `Send`, `Interrupt` and the like), OUR_TYPES, SECRET_TYPES and
    `types`. Objects of other classes are stored too, but restored as plain data.
    """
    return _Serializer(pickle_fallback=False, allowed_msgpack_modules=(*OUR_TYPES, *SECRET_TYPES, *types))


class UnserializableState(AgentFailed):
    """Error: the agent's state contains a value that cannot be stored. The message names the value's type."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The graph's state, or an interrupt of it, holds a value ({what}) that cannot be stored from one step to the "
            "next. Hold plain data there, messages, pydantic models, dataclasses or enums, and make the rest where it is "
            "used."
        )


class _Serializer(JsonPlusSerializer):
    """LangGraph's serializer, extended for protobuf: an agent's state may contain a Message or Task of the A2A SDK."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize an object to a type and bytes. A protobuf Message or Task in it is later restored as an A2AOutbox.

        Raises UnserializableState for a value that cannot be serialized.
        """
        try:
            return super().dumps_typed(obj)
        except ormsgpack.MsgpackEncodeError:
            # Search the object for protobuf messages only after LangGraph's serializer has failed, because few states
            # contain one.
            pass
        try:
            return super().dumps_typed(_without_protobuf(obj))
        except ormsgpack.MsgpackEncodeError as error:
            # Read the type's name from the end of the error's text, such as "Type is not msgpack serializable:
            # function".
            raise UnserializableState(" in ".join(self._types_around(obj, str(error).rpartition(": ")[2]))) from error

    def _types_around(self, value: Any, name: str) -> list[str]:
        """Return the type that cannot be serialized, then the types that contain it.

        `name` is the type in LangGraph's error. For a value within a model or dataclass, LangGraph's error may name the
        model's type, so the parts are tried one by one.
        """
        for part in _parts_of(value):
            try:
                super().dumps_typed(part)
            except ormsgpack.MsgpackEncodeError as error:
                around = self._types_around(part, str(error).rpartition(": ")[2])
                return around if isinstance(value, _COLLECTIONS) else [*around, type(value).__name__]
        return [name]


_COLLECTIONS = (dict, list, tuple, set, frozenset)


def _parts_of(value: Any) -> Iterable[Any]:
    """Return the values within a collection, model or dataclass."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, _COLLECTIONS):
        return value
    if isinstance(value, type):
        return ()
    if is_dataclass(value):
        return [getattr(value, each.name, None) for each in fields(value)]
    return vars(value).values() if hasattr(type(value), "model_fields") else ()


def _without_protobuf(value: Any) -> Any:
    match value:
        case Message():
            return A2AOutbox(message=value)
        case Task():
            return A2AOutbox(task=value)
        case dict() if type(value) is dict:
            return {key: _without_protobuf(held) for key, held in value.items()}
        case list() if type(value) is list:
            return [_without_protobuf(held) for held in value]
        case _:
            return value


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
            f"A namespace and key of the store may have {MAX_MEMORY_NAME_BYTES} bytes together, and one has {size}. "
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


BeforePut = Callable[[], Awaitable[None]]
"""Callback that waits until the graph's emissions so far are recorded. It must not wait for the graph itself, because
the graph may be waiting for the callback."""


class BeforeWrite:
    """Hook before each write of a checkpointer. It waits until the graph's emissions so far are recorded.

    It runs before a checkpoint and before the writes of a LangGraph task. Once a write of a node is stored, LangGraph
    never runs the node again, so unrecorded emissions of the node would be lost in a crash.
    """

    def __init__(self, before_put: BeforePut | None) -> None:
        """Make the hook on the event loop that runs `before_put`."""
        self._before_put = before_put
        self._loop = asyncio.get_running_loop() if before_put else None
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self) -> None:
        """Wait until all emissions are recorded."""
        if self._before_put is not None:
            async with self._one_at_a_time:
                await self._before_put()

    def blocking(self) -> None:
        """Wait in the thread of a synchronous graph until all emissions are recorded."""
        if self._loop is not None:
            self.check_thread()
            asyncio.run_coroutine_threadsafe(self(), self._loop).result()

    def check_thread(self) -> None:
        """Raise AgentFailed in the event loop's thread, because waiting there would prevent the recording forever."""
        if self._loop is not None and self._loop is running_loop():
            raise AgentFailed(
                "An async node ran a subgraph by a blocking call. Use `await graph.ainvoke(...)`, or a plain def node."
            )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop running in this thread, or None if there is no loop."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
