"""Calls of remote agents by the turns of all tasks, stored before they are sent."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.engine.records import AwaitedCall, Head, Lease
from aion_core.engine.remote_calls import callbacks
from aion_core.engine.remote_calls.records import CANCELABLE, CLOSED, NOT_CLOSED, CallState, CallToCancel, RemoteCall
from aion_core.engine.remote_calls.rows import CallRows, canceling, is_in
from aion_core.engine.task.rows import LogRows
from aion_core.engine.timers import NO_TIMER, TimerIndex
from aion_core.errors import LeaseLost, StoreCorrupt
from aion_core.protocol.types import StreamResponse, TaskState
from aion_core.table import keys
from aion_core.table.conditions import Both, Equals, Exists
from aion_core.table.item import LAST, Item
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.refusals import WriteRefused
from aion_core.table.retries import TransactionPlan, commit, write_unless_refused
from aion_core.table.times import Times
from aion_core.table.writes import Change, Update, Write

CALLS_AT_ONCE = 60
"""Number of calls whose timers one transaction sets: it has at most 100 writes in all."""

BUSY = "The task changes too fast to call a remote agent. Try again in a moment."


class RemoteCallStore:
    """Calls of remote agents. A call is stored under the turn's fence, before its message is sent.

    The head of the task counts its calls, so that a cancellation misses none: it cancels the remote tasks too.
    """

    def __init__(
        self, table: Table, rows: LogRows, clock: Clock, *, lease_seconds: float, retention: timedelta
    ) -> None:
        self._table, self._reads, self._rows = table, Reads(table, clock), CallRows(rows)
        self._times = partial(Times.read, clock, lease_seconds, retention)
        self._timers = TimerIndex(table, clock, (keys.CALL_TIMERS,), lease_seconds=lease_seconds)

    async def of_task(self, task: TaskKey) -> list[RemoteCall]:
        """Return all calls of a task, in no particular order. Raises StoreCorrupt."""
        return [await self._rows.call_of(item) for item in await self._items(task)]

    async def cancellations(self, head: Head) -> list[Write]:
        """Return the writes that set the timers of a task's calls, for the transaction that cancels the task or its turn.

        They are for calls whose remote task may still run, or wait for an answer. If they are too many, `to_cancel` of
        the canceled task finds the rest.
        """
        calls = _cancelable(await self._items(head.key)) if head.calls else ()
        return [Update(keys.call_key(head.key, call), canceling(self._times())) for call in calls[:CALLS_AT_ONCE]]

    async def begin(self, lease: Lease, call: RemoteCall) -> RemoteCall:
        """Store a call of the running turn and return it, or return the call that has this key already.

        A stored call keeps its message: a turn that runs again sends the same message. Raises LeaseLost if the task was
        canceled, or another process has taken the turn over.
        """
        task = TaskKey(lease.context.owner, lease.turn.task_id)

        async def plan(attempt: int) -> TransactionPlan[RemoteCall]:
            item = await self._reads.get(keys.call_key(task, call.key))
            if item is not None:
                return TransactionPlan(await self._rows.call_of(item))
            if attempt:
                head = await self._table.get(keys.head_key(task))
                if head is None or head.get("fence") != lease.fence:
                    raise LeaseLost("The task was canceled, or another process runs it now.")
            mine = Change(add={"calls": 1}, only_if=Both((Exists(), Equals("fence", lease.fence))))
            writes: list[Write] = [
                await self._rows.begun(task, lease.context, call, self._times()),
                Update(keys.head_key(task), mine),
                *callbacks.expected(task, lease.context, call, self._times()),
            ]
            return TransactionPlan(call, writes)

        return await commit(self._table, plan, busy=BUSY)

    async def reached(self, task: TaskKey, call: str, remote_task: str, *, calls_back: bool = False) -> None:
        """Store the id of the remote task. A cancellation needs it, so it is stored for a canceled task too.

        Without `calls_back` the remote agent has not accepted the callback of the call, so that nobody waits for it. A
        process that was frozen may send its message long after the task was canceled. The remote task is then canceled
        again.
        """
        forgotten = () if calls_back else ("callback",)
        change = Change({"remote_task": remote_task}, remove=forgotten, only_if=is_in(NOT_CLOSED))
        if not await self._change(task, call, change):
            late = canceling(self._times(), before=CLOSED)
            await self._change(task, call, replace(late, values={**late.values, "remote_task": remote_task}))

    async def still_expected(self, task: TaskKey, awaited: Sequence[AwaitedCall]) -> tuple[AwaitedCall, ...]:
        """Return the calls, marked as expecting a callback only if it has not come yet."""
        if not any(call.calls_back for call in awaited):
            return tuple(awaited)
        items = {item["call"]: item for item in await self._items(task)}
        return tuple(
            replace(call, calls_back=call.calls_back and "callback" in items.get(call.key, {})) for call in awaited
        )

    async def reopen(self, task: TaskKey, call: str) -> None:
        """Set the timer again if the call's last attempt to cancel is over: its message may have been sent since."""
        await self._change(task, call, canceling(self._times(), before=CLOSED))

    async def settle(self, task: TaskKey, call: str, state: CallState, answer: StreamResponse | None = None) -> None:
        """Store the state in which the remote agent has left the call: ASKS or ENDED. A canceled call keeps its own.

        A stored `answer` stays known when the remote agent has forgotten its task.
        """
        kept = await self._rows.answered(task, answer) if answer is not None else {}
        await self._change(task, call, Change({"state": state.value, **kept}, only_if=is_in([CallState.OPEN])))

    async def to_cancel(self, task: TaskKey) -> list[CallToCancel]:
        """Return the calls of a task that are to be canceled. Raises StoreCorrupt.

        First set the timers of the calls for which the transaction that canceled the task had no room.
        """
        items = await self._items(task)
        if rest := _cancelable(items):
            head = await self._table.get(keys.head_key(task))
            if head is not None and head["state"] == TaskState.Name(TaskState.TASK_STATE_CANCELED):
                for call in rest:
                    await self._change(task, call, canceling(self._times()))
                items = await self._items(task)
        waiting = [item for item in items if item.get("state") == CallState.CANCELING.value]
        return [await self._rows.to_cancel(task, item) for item in waiting]

    async def claim(self, call: CallToCancel, *, until: int) -> bool:
        """Count an attempt to cancel, and set the timer to `until`. Return False if another process did so before."""
        as_read = Both((Equals("due_at", call.due_at), is_in([CallState.CANCELING])))
        change = Change({"due_at": until, "tries": call.tries + 1}, only_if=as_read)
        try:
            await self._table.write(Update(keys.call_key(call.task, call.call.key), change))
        except WriteRefused:
            return False
        return True

    async def close(self, call: CallToCancel, state: CallState) -> None:
        """Record that the remote task is canceled, or cannot be: CANCELED or UNREACHED. The timer is removed."""
        change = Change({"state": state.value}, remove=NO_TIMER, only_if=is_in([CallState.CANCELING]))
        await self._change(call.task, call.call.key, change)

    async def overdue(self, *, limit: int) -> Sequence[tuple[ContextKey, TaskKey]]:
        """Claim up to `limit` overdue timers of calls to cancel. Return their tasks, each once, with their contexts.

        Raises StoreError.
        """
        found: dict[TaskKey, ContextKey] = {}
        for _, key in (await self._timers.expired(limit))[:limit]:
            item = await self._table.get(key)
            if item is not None and await self._timers.claimed(key) is not None:
                task = keys.task_of(key)
                try:
                    found[task] = ContextKey(task.owner, item["agent"], item["context_id"])
                except KeyError as error:
                    raise StoreCorrupt("A remote call cannot be read.") from error
        return [(context, task) for task, context in found.items()]

    async def _items(self, task: TaskKey) -> list[Item]:
        return await self._reads.query(keys.task_partition(task), keys.CALLS, f"{keys.CALLS}{LAST}")

    async def _change(self, task: TaskKey, call: str, change: Change) -> bool:
        return await write_unless_refused(lambda: self._table.write(Update(keys.call_key(task, call), change)))


def _cancelable(items: Sequence[Item]) -> list[str]:
    """Return the keys of the calls whose remote task may still run, or wait for an answer.

    A question stays ASKS after its answer, which is a call of its own: skip it if that call has ended the remote task.
    """
    ended = {(item["remote"], item.get("remote_task")) for item in items if item["state"] == CallState.ENDED}
    return [
        item["call"]
        for item in items
        if item["state"] in CANCELABLE
        and (not item.get("remote_task") or (item["remote"], item["remote_task"]) not in ended)
    ]
