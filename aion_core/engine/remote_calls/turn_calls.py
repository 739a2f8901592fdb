"""Calls of remote agents by one running turn."""

from collections.abc import Callable

from aion_core.engine.records import Lease
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.protocol.types import StreamResponse
from aion_core.table.keys import ContextKey, TaskKey


class TurnCalls:
    """The remote calls of a running turn and of the task's earlier turns."""

    def __init__(self, store: RemoteCallStore, lease: Lease, progressed: Callable[[], None]) -> None:
        """`progressed` is called whenever a remote agent shows that it works."""
        self._store, self._lease, self._progressed = store, lease, progressed

    @property
    def task(self) -> TaskKey:
        """Key of the turn's task."""
        return TaskKey(self._lease.context.owner, self._lease.turn.task_id)

    @property
    def context(self) -> ContextKey:
        """Key of the turn's context."""
        return self._lease.context

    @property
    def turn_id(self) -> str:
        """Id of the turn."""
        return self._lease.turn.id

    async def all(self) -> list[RemoteCall]:
        """Return all calls that the task's turns have begun, in no particular order."""
        return await self._store.of_task(self.task)

    async def begin(self, call: RemoteCall) -> RemoteCall:
        """Store the call before its message is sent; return the stored call if its key is known. Raises LeaseLost."""
        return await self._store.begin(self._lease, call)

    async def reached(self, call: RemoteCall, remote_task: str) -> None:
        """Store the id of the call's remote task, and that the remote agent calls back only if `call.callback` is set."""
        await self._store.reached(self.task, call.key, remote_task, calls_back=bool(call.callback))

    async def stopped_in_flight(self, call: RemoteCall) -> None:
        """Note that the turn was stopped while the call's message was sent, so that it may have arrived."""
        await self._store.reopen(self.task, call.key)

    async def settle(self, call: RemoteCall, state: CallState, answer: StreamResponse | None = None) -> None:
        """Store that the remote agent has answered (ENDED), perhaps with its answer, or asks a question (ASKS)."""
        await self._store.settle(self.task, call.key, state, answer)

    def progressed(self) -> None:
        """Note that the remote agent works: the turn that waits for it makes progress."""
        self._progressed()
