"""Call of a remote agent as an item of its task's partition."""

from collections.abc import Collection

from aion_core.engine.remote_calls.records import CANCELABLE, CallState, CallToCancel, RemoteCall
from aion_core.engine.task.rows import LogRows
from aion_core.errors import StoreCorrupt
from aion_core.protocol.types import Message, StreamResponse
from aion_core.table import keys
from aion_core.table.conditions import Absent, Condition, OneOf
from aion_core.table.item import Item, readable
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import Times
from aion_core.table.writes import Change, Put


class CallRows:
    """Items of the remote calls of all tasks."""

    def __init__(self, rows: LogRows) -> None:
        self._rows = rows

    async def begun(self, task: TaskKey, context: ContextKey, call: RemoteCall, times: Times) -> Put:
        """Return the write of a new call. It fails if the task has a call with this key."""
        item: Item = {
            "agent": context.agent,
            "context_id": context.context_id,
            "call": call.key,
            "remote": call.remote,
            "caller": call.agent,
            "state": call.state.value,
            **await self._rows.payload(task, call.message.message_id, "message", call.message.SerializeToString()),
            **({"remote_task": call.remote_task} if call.remote_task else {}),
            **({"callback": call.callback} if call.callback else {}),
        }
        return Put(keys.call_key(task, call.key), {**item, **times.stamp(task.owner)}, only_if=Absent())

    async def call_of(self, item: Item) -> RemoteCall:
        """Return the call in an item. Raises StoreCorrupt."""
        packed, answer = await self._rows.unpacked("message", item), await self._rows.unpacked("answer", item)
        with readable("A remote call"):
            if packed is None:
                raise StoreCorrupt("The message of a remote call is missing.")
            return RemoteCall(
                item["call"],
                item["remote"],
                Message.FromString(packed),
                item["caller"],
                item.get("remote_task", ""),
                CallState(item["state"]),
                StreamResponse.FromString(answer) if answer is not None else None,
                item.get("callback", ""),
            )

    async def answered(self, task: TaskKey, answer: StreamResponse) -> Item:
        """Return the attribute of a call with its answer."""
        name = f"{answer.task.id or answer.message.message_id}-answer"
        return await self._rows.payload(task, name, "answer", answer.SerializeToString())

    async def to_cancel(self, task: TaskKey, item: Item) -> CallToCancel:
        """Return the call in an item whose state is CANCELING. Raises StoreCorrupt."""
        call = await self.call_of(item)
        with readable("A remote call"):
            context = ContextKey(task.owner, item["agent"], item["context_id"])
            return CallToCancel(task, context, call, item["canceled_at"], item["due_at"], item["tries"])


def canceling(times: Times, *, before: Collection[CallState] = CANCELABLE) -> Change:
    """Return the change that sets the timer to cancel a call that is in one of the states `before`."""
    values = {
        "state": CallState.CANCELING.value,
        "canceled_at": times.now,
        "due_shard": keys.CALL_TIMERS,
        "due_at": times.lease_until,
        "tries": 0,
    }
    return Change(values, only_if=is_in(before))


def is_in(states: Collection[CallState]) -> Condition:
    """Return the condition that the call is in one of these states."""
    return OneOf("state", tuple(state.value for state in states))
