"""Callbacks of remote agents: one-use tokens that bring forward the looks at the turns which wait for their calls.

A call's message gives the remote agent a token for the notifications about its task (A2A 4.3). The token is stored as a
hash, beside the call. A notification with it wakes the turn, and says nothing else: the look asks the remote agent.
"""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from aion_core.clock import Clock
from aion_core.engine.context import changes
from aion_core.engine.context.changes import context_update
from aion_core.engine.context.conditions import fence_is
from aion_core.engine.context.record import ContextRecord, record_of
from aion_core.engine.outcomes import TurnSuspended
from aion_core.engine.queues import WorkQueue
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.wake_ups import wake_to_look
from aion_core.table import keys
from aion_core.table.conditions import Exists
from aion_core.table.item import Item, readable
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.port import Table
from aion_core.table.reads import Reads
from aion_core.table.retries import TransactionPlan, commit
from aion_core.table.stamp import stamp
from aion_core.table.times import Times, moment
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write

TOKEN_SECONDS = 26 * 3600
"""Seconds for which a token is valid: longer than a turn waits for a remote agent."""

BUSY = "The task changes too fast to note a callback. Try again in a moment."


class Callback(Struct, frozen=True):
    """A valid callback: the call whose remote agent has the token."""

    token_hash: str
    task: TaskKey
    context: ContextKey
    call: str
    """Key of the call in its task."""


def new_token() -> tuple[str, str]:
    """Return a new token, of 256 random bits, and its hash."""
    token = secrets.token_urlsafe(32)
    return token, hash_of(token)


def hash_of(token: str) -> str:
    """Return the hash by which a token is stored and found."""
    return hashlib.sha256(token.encode()).hexdigest()


def expected(task: TaskKey, context: ContextKey, call: RemoteCall, times: Times) -> list[Write]:
    """Return the write that stores the token of a call's callback; no write for a call without one."""
    if not call.callback:
        return []
    item: Item = {
        "caller": task.owner,
        "agent": context.agent,
        "context_id": context.context_id,
        "task_id": task.task_id,
        "call": call.key,
        **stamp(task.owner, times.seconds + TOKEN_SECONDS),
    }
    return [Put(keys.callback_key(call.callback), item)]


def expected_still(task: TaskKey, calls: Sequence[AwaitedCall]) -> list[Write]:
    """Return the checks that the callbacks of these calls have not come before their turn is suspended."""
    return [ConditionCheck(keys.call_key(task, call.key), Exists("callback")) for call in calls if call.calls_back]


class RemoteCallbacks:
    """Callbacks of the remote agents of all tasks. Its methods raise StoreError."""

    def __init__(self, table: Table, work_queue: WorkQueue, clock: Clock, *, lease_seconds: float) -> None:
        self._table, self._reads, self._work_queue, self._clock = table, Reads(table, clock), work_queue, clock
        self._times = partial(Times.read, clock, lease_seconds, timedelta())

    async def find(self, token: str) -> Callback | None:
        """Return the callback with this token; None if the token is unknown, used or expired.

        The token is looked up by its hash, so that the time of an answer tells nothing about other tokens.
        """
        token_hash = hash_of(token)
        item = await self._reads.get(keys.callback_key(token_hash))
        if item is None:
            return None
        with readable("A callback"):
            task = TaskKey(item["caller"], item["task_id"])
            context = ContextKey(task.owner, item["agent"], item["context_id"])
            return Callback(token_hash, task, context, item["call"])

    async def use(self, callback: Callback) -> bool:
        """Use the token up, and look now at the turn that waits for its call. Return False if it was used before.

        If no turn waits for the call yet, the next one that does looks as soon as without a callback.
        """
        woken: TurnSuspended | None = None

        async def plan(attempt: int) -> TransactionPlan[bool]:
            nonlocal woken
            token = keys.callback_key(callback.token_hash)
            if attempt and await self._reads.get(token) is None:
                return TransactionPlan(outcome=False)
            times, used = self._times(), Delete(token, only_if=Exists())
            place = keys.call_key(callback.task, callback.call)
            call = await self._reads.get(place)
            if call is None or call["state"] != CallState.OPEN or call.get("callback") != callback.token_hash:
                return TransactionPlan(outcome=True, writes=[used])
            record = record_of(await self._table.get(keys.context_key(callback.context)), times.seconds)
            noted = Update(place, Change(remove=("callback",), only_if=Exists()))
            woken = _without(record, callback, times)
            if woken is not None:
                sooner = changes.called_back(woken.turn, record, times)
                return TransactionPlan(outcome=True, writes=[used, noted, context_update(callback.context, sooner)])
            # The turn is not suspended. It must not be, in the meantime, with this callback still expected.
            unchanged = [ConditionCheck(keys.context_key(callback.context), fence_is(record.fence))]
            return TransactionPlan(outcome=True, writes=[used, noted, *(unchanged if record.exists else ())])

        is_first = await commit(self._table, plan, busy=BUSY)
        if woken is not None:
            # Also if the token is gone after a lost response: a look that was not moved drops the message.
            await wake_to_look(self._work_queue, callback.context, woken, self._clock.now())
        return is_first


def _without(record: ContextRecord, callback: Callback, times: Times) -> TurnSuspended | None:
    """Return the suspended turn that waits for the callback's call, to be looked at now; None if no turn does.

    It does not expect this callback any more.
    """
    turn, wait = record.running, record.wait
    if turn is None or wait is None or turn.task_id != callback.task.task_id:
        return None
    calls = tuple(replace(call, calls_back=call.calls_back and call.key != callback.call) for call in wait.calls)
    if all(call.key != callback.call for call in calls):
        return None
    return TurnSuspended(replace(turn, wait=replace(wait, calls=calls)), record.fence, moment(times.now))
