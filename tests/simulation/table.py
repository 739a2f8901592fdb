"""Shared table and bucket as seen by one process: each request is a side effect, named after its store operation."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aion_core.table.item import Index, Item, Key
from aion_core.table.port import Page
from aion_core.table.refusals import CONFLICT, FINE, THROTTLED
from aion_core.table.writes import SingleWrite, Write
from tests.simulation.faults import Fault
from tests.simulation.loop import READINGS
from tests.support.faulty_table import TableFaults

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import SimWorld


@dataclass(frozen=True)
class SimOperation:
    """Call of a store's method."""

    name: str = "other"
    """Name of the call in the kinds of side effect."""
    method: str = ""
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0
    """Time of the call."""


OTHER = SimOperation()
OPERATION: ContextVar[SimOperation] = ContextVar("operation", default=OTHER)
"""Current call of a method of a store."""


@contextmanager
def operation(name: str, method: str, *arguments: Any) -> Iterator[None]:
    """Attribute the requests of the block to this operation."""
    token = OPERATION.set(SimOperation(name, method, arguments))
    try:
        yield
    finally:
        OPERATION.reset(token)


class SimOperations:
    """Store of one process; its requests to the table carry the name of the operation."""

    def __init__(
        self,
        process: "Process",
        store: Any,
        *,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Rename operations by `names`; report each operation and its result or error to `world.tell`."""
        self._process, self._store, self._names = process, store, names or {}

    def __getattr__(self, name: str) -> Any:
        method, renamed = getattr(self._store, name), self._names.get(name, name)
        waits = inspect.iscoroutinefunction(method)

        def call(*arguments: Any, **options: Any) -> Any:
            made = SimOperation(renamed, name, arguments, options, self._process.world.loop.now)
            if waits:
                return self._made(made, method)
            token = OPERATION.set(made)
            try:
                return method(*arguments, **options)
            finally:
                OPERATION.reset(token)

        setattr(self, name, call)
        return call

    async def _made(self, made: SimOperation, method: Callable[..., Awaitable[Any]]) -> Any:
        before = OPERATION.get()
        OPERATION.set(made)
        try:
            result = await method(*made.arguments, **made.options)
        except BaseException as error:
            self._process.world.tell(self._process, made, error)
            raise
        finally:
            # Do not use `OPERATION.reset`: it fails in another context, and the garbage collector closes the coroutine
            # of a simulated killed process in the context of another one.
            OPERATION.set(before)
        self._process.world.tell(self._process, made, result)
        return result


class SimTable:
    """`Table` of one process, over the simulated table."""

    def __init__(self, process: "Process") -> None:
        self._process, self._world = process, process.world

    async def get(self, key: Key) -> Item | None:
        """See `Table.get`."""
        return await self._request("get", key)  # type: ignore[no-any-return]

    async def query(self, partition: str, first: str, last: str, **options: Any) -> Page:
        """See `Table.query`."""
        return await self._request("query", partition, first, last, **options)  # type: ignore[no-any-return]

    async def query_index(
        self, index: Index, partition: str, first: str | int, last: str | int, **options: Any
    ) -> Page:
        """See `Table.query_index`."""
        return await self._request("query_index", index, partition, first, last, **options)  # type: ignore[no-any-return]

    async def scan(self, **options: Any) -> Page:
        """See `Table.scan`."""
        return await self._request("scan", **options)  # type: ignore[no-any-return]

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        """See `Table.write`."""
        return await self._request("write", write, returning=returning)  # type: ignore[no-any-return]

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        """See `Table.transact`."""
        await self._request("transact", list(writes), token=token)

    def get_blocking(self, key: Key) -> Item | None:
        """See `Table.get_blocking`."""
        made = OPERATION.get()
        return blocking(lambda: self._request("get_blocking", key, made=made))  # type: ignore[no-any-return]

    def write_blocking(self, write: SingleWrite) -> None:
        """See `Table.write_blocking`."""
        made = OPERATION.get()
        blocking(lambda: self._request("write_blocking", write, made=made))

    async def _request(self, method: str, *arguments: Any, made: SimOperation | None = None, **options: Any) -> Any:
        world, made = self._world, made or OPERATION.get()
        asked = world.loop.now
        writes = arguments[0] if method == "transact" else arguments[:1] if "write" in method else ()

        async def make() -> Any:
            at, result = world.loop.now, getattr(world.table, method)(*arguments, **options)
            if inspect.iscoroutine(result):
                result = await result
            if writes and world.is_made_now(options.get("token", "")):
                # Record the commit with the time before its first write, because queries may return parts of the
                # transaction from then on.
                world.watch.committed(self._process, made, writes, at, asked)
            return result

        return await self._process.effect(f"{made.name}.{method}", make)


class Members(frozenset[str]):
    """Set whose members have the same order in each run."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))

    def __repr__(self) -> str:
        return f"{{{', '.join(self)}}}"


class SimFaults(TableFaults):
    """Faults of the simulated table, for the current side effect."""

    def __init__(self, world: "SimWorld") -> None:
        self._world = world
        self.index_lag, self.page_items = timedelta(seconds=90), world.page_items

    def reasons(self, writes: Sequence[Write]) -> Sequence[str]:
        """Return a transaction's cancellation reasons: a conflict or throttling for one write, none for the others."""
        aim = self._world.aim
        if aim is None or aim.fault not in (Fault.CONFLICT, Fault.THROTTLED_REASON):
            return ()
        reason = CONFLICT if aim.fault is Fault.CONFLICT else THROTTLED
        return [reason if place == int(aim.amount) % len(writes) else FINE for place in range(len(writes))]

    def visible(self, index: Index, versions: Sequence[Item | None]) -> Sequence[Item | None]:
        """Return the newest index entry; under Fault.STALE the old entries, or both the old and the new ones."""
        aim = self._world.aim
        if aim is None or aim.fault is not Fault.STALE:
            return versions[-1:]
        return versions[:1] if aim.amount == 1.0 else versions

    def read(self, item: Item) -> Item:
        """Return the item; its sets have the same order in every process."""
        return {name: Members(value) if isinstance(value, frozenset) else value for name, value in item.items()}

    async def partway(self, writes: Sequence[Write]) -> None:
        """Wait a moment between two writes of a transaction."""
        if (seconds := HALF_MADE.get()) > 0:
            await asyncio.sleep(seconds)


HALF_MADE: ContextVar[float] = ContextVar("half_made", default=0.0)
"""Seconds between two writes of the current transaction."""


class SimBlobs:
    """`Blobs` of one process, over the simulated bucket."""

    bytes_cost_money = True

    def __init__(self, process: "Process") -> None:
        self._process, self._blobs = process, process.world.blobs

    async def put(self, name: str, content: bytes) -> None:
        """See `Blobs.put`."""
        await self._process.effect("blob.put", lambda: self._blobs.put(name, content))

    async def get(self, name: str) -> bytes | None:
        """See `Blobs.get`."""
        return await self._process.effect("blob.get", lambda: self._get(name))  # type: ignore[no-any-return]

    async def delete(self, name: str) -> None:
        """See `Blobs.delete`."""
        await self._process.effect("blob.delete", lambda: self._blobs.delete(name))

    async def _get(self, name: str) -> bytes | None:
        world = self._process.world
        if world.aim is not None and world.aim.fault is Fault.BLOB_GONE:
            world.history.unreadable.add(name.split("/")[2])
            await self._blobs.delete(name)
        return await self._blobs.get(name)


# ── Blocking code ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Pending(BaseException):
    """Interrupts blocking code at a request without a response; `unblocked` sends it and runs the code again."""

    def __init__(self, request: Callable[[], Awaitable[Any]]) -> None:
        self.request = request


ANSWERS: ContextVar[Iterator[Any]] = ContextVar("answers")
"""Responses to the requests of the running blocking code."""


def blocking(request: Callable[[], Awaitable[Any]]) -> Any:
    """Return the response to the request; only code that `unblocked` runs may call this function."""
    for answer in ANSWERS.get():
        if isinstance(answer, Exception):
            raise answer
        return answer
    raise Pending(request)


async def unblocked(owner: Any, work: Callable[[], Any]) -> Any:
    """Return the result of the blocking code; its requests take virtual time.

    After each request the code runs again from its start, with the original attributes of `owner`, the readings of
    clocks and all responses so far.
    """
    before, answers, readings = dict(vars(owner)), list[Any](), list[Any]()
    while True:
        vars(owner).update(before)
        tokens = ANSWERS.set(iter(answers)), READINGS.set((iter([*readings]), readings))
        try:
            return work()
        except Pending as pending:
            request = pending.request
        finally:
            ANSWERS.reset(tokens[0])
            READINGS.reset(tokens[1])
        try:
            answers.append(await request())
        except Exception as error:
            answers.append(error)
