"""Worker of a process: takes the turns of wake-up messages and runs them, one after the other."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core import log
from aion_core.clock import Clock
from aion_core.engine.context.record import task_of
from aion_core.engine.outcomes import LeaseHeld, TurnStarted, TurnSuspended
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import WakeUp, WorkQueue
from aion_core.engine.records import AwaitedCall, StoppedBy
from aion_core.engine.remote_calls.cancellation import RemoteCancellations
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.turn.store import TurnStore
from aion_core.engine.wake_ups import wake, wake_to_look
from aion_core.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds, moment

logger = logging.getLogger(__name__)

AFTER_SECONDS = 1.0
"""Seconds from the end of a lease to the arrival of its wake-up message."""


Looks = Callable[[ContextKey, TaskKey, Sequence[AwaitedCall]], Awaitable[bool]]
"""Function that returns True if one of these calls of a context's task has an answer, or can have none any more."""

Tell = Callable[[ContextKey, TaskKey], Awaitable[None]]
"""Function that tells the agent of a context that its task was canceled while it waited for the client."""

Begun = TurnStarted | LeaseHeld | TurnSuspended | None


class Worker:
    """Handler of wake-up messages. It runs the queued turns of a context until the deadline of the process."""

    def __init__(
        self,
        store: TurnStore,
        runner: TaskRunner,
        work_queue: WorkQueue,
        clock: Clock,
        cancellations: RemoteCancellations | None = None,
        looks: Looks | None = None,
        tell: Tell | None = None,
    ) -> None:
        """`cancellations` cancels the remote tasks of canceled tasks; without it, their wake-up messages are dropped.

        `looks` looks at the remote agents that suspended turns await; without it, each look resumes the turn. `tell`
        tells an agent of a canceled task.
        """
        self._store, self._runner, self._work_queue, self._clock = store, runner, work_queue, clock
        self._cancellations, self._looks, self._tell = cancellations, looks, tell

    async def handle(self, wake_up: WakeUp, *, until: datetime | None = None, deadline: Deadline | None = None) -> None:
        """Run the queued turns of the message's context, unless another holder has the lease.

        `until` is the end of this process; `deadline` replaces it in a process that may stop earlier. While a lease is
        in force, the message is enqueued again for the end of the lease, if it is the lease's own message or the lease
        has nearly expired. While the context's turn is suspended, look whether its wait is over. Raises StoreError: the
        queue must deliver the message again.
        """
        if wake_up.task_id:
            if self._cancellations is not None:
                await self._cancellations.carry_out(wake_up)
            if self._tell is not None:
                await self._tell(wake_up.context, TaskKey(wake_up.context.owner, wake_up.task_id))
            return
        begun: Begun = None
        if wake_up.since:
            suspended = await self._look_at_calls(wake_up)
        else:
            begun = await self._store.begin(wake_up.context, holder=str(uuid7()))
            suspended = await self._look(wake_up, begun) if isinstance(begun, TurnSuspended) else None
        if suspended is not None:
            begun = await self._resumed(wake_up, suspended)
        if isinstance(begun, LeaseHeld):
            left = (begun.until - self._clock.now()).total_seconds()
            # Drop a wake-up message of an earlier lease, because each lease has its own wake-up message with its fence.
            if begun.fence == wake_up.fence or left < self._runner.lease_seconds / 2:
                # Check the lease again at its end: its holder has not renewed it so far, and may have died.
                await self._work_queue.enqueue(wake_up, delay=max(0.0, left) + AFTER_SECONDS)
        elif isinstance(begun, TurnStarted) and (broadcast := await self._broadcast_of(begun)) is not None:
            await self.run(begun, broadcast, deadline or Deadline(until))

    async def _look(self, wake_up: WakeUp, suspended: TurnSuspended) -> TurnSuspended | None:
        """Move the look at a suspended turn to its next time, if it is due. Return the turn; None if it isn't due."""
        now = self._clock.now()
        if suspended.look_at > now:
            # Drop a message that is not for this look: it is repeated, or another message has woken the context.
            if wake_up.look == milliseconds(suspended.look_at):
                await wake_to_look(self._work_queue, wake_up.context, suspended, now)
            return None
        look_at = self._store.next_look(suspended)
        moved = await self._store.look(wake_up.context, suspended, look_at=look_at)
        return replace(suspended, look_at=moment(look_at)) if moved else None

    async def _look_at_calls(self, wake_up: WakeUp) -> TurnSuspended | None:
        """Move the look at a turn that awaits remote agents, as `_look` does, without a read before."""
        now = self._clock.now()
        if milliseconds(now) < wake_up.look:
            await self._work_queue.enqueue(wake_up, delay=(moment(wake_up.look) - now).total_seconds())
            return None
        return await self._store.look_at_calls(wake_up.context, look=wake_up.look, since=wake_up.since)

    async def _resumed(self, wake_up: WakeUp, suspended: TurnSuspended) -> Begun:
        """Begin the suspended turn if its wait is over. Otherwise enqueue the message of its next look."""
        wait, now = suspended.wait, self._clock.now()
        task = task_of(wake_up.context, suspended.turn)
        if wait.until <= milliseconds(now) or (
            wait.calls and await self._has_answer(wake_up.context, task, wait.calls)
        ):
            return await self._store.begin(wake_up.context, holder=str(uuid7()), ended_wait=suspended.fence)
        await wake_to_look(self._work_queue, wake_up.context, suspended, now)
        return None

    async def _has_answer(self, context: ContextKey, task: TaskKey, calls: Sequence[AwaitedCall]) -> bool:
        if self._looks is None:
            return True
        with log.about(task_id=task.task_id, context_id=context.context_id, agent=context.agent):
            return await self._looks(context, task, calls)

    async def run(self, begun: TurnStarted, broadcast: EventBroadcast, deadline: Deadline | None = None) -> None:
        """Run a leased turn, then the next turns of its context. `broadcast` receives the events of the first turn."""
        following = await self._runner.run(begun, broadcast, deadline)
        while following is not None and (next_broadcast := await self._broadcast_of(following)) is not None:
            following = await self._runner.run(following, next_broadcast, deadline)

    async def _broadcast_of(self, begun: TurnStarted) -> EventBroadcast | None:
        """Return a broadcast for the turn, with the events in its task's log.

        With a corrupt log, return a broadcast without events: the turn then fails. If the store cannot be read, suspend
        the turn and return None. The try does not count if the store is only unavailable.
        """
        try:
            log = await self._store.log(begun.head.key)
        except StoreCorrupt:
            logger.exception("The log of a task cannot be read.", extra={"task_id": begun.head.key.task_id})
            return EventBroadcast(())
        except StoreError as error:
            logger.warning("The turn could not be read: %s", error, extra={"task_id": begun.head.key.task_id})
            try:
                cause = None if isinstance(error, StoreUnavailable) else StoppedBy.STORE
                await self._store.pause(begun.lease, made_progress=False, stopped_by=cause)
            except (LeaseLost, StoreError) as refused:
                # Only log the error, because the lease expires and the sweep then finds the turn by its timer.
                logger.warning("The turn could not be suspended: %s", refused)
            else:
                await wake(self._work_queue, begun.lease.context, delay=self._runner.lease_seconds / 2)
            return None
        return EventBroadcast(log.events if log is not None else ())
