"""Worker of a process: takes the turns of wake-up messages and runs them, one after the other."""

import logging
from datetime import datetime

from uuid_utils import uuid7

from aion_core.clock import Clock
from aion_core.engine.outcomes import LeaseHeld, TurnStarted, TurnSuspended
from aion_core.engine.process.deadline import Deadline
from aion_core.engine.queues import WakeUp, WorkQueue
from aion_core.engine.records import StoppedBy
from aion_core.engine.remote_calls.cancellation import RemoteCancellations
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.turn.store import TurnStore
from aion_core.engine.wake_ups import wake, wake_to_look
from aion_core.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.table.times import milliseconds, moment

logger = logging.getLogger(__name__)

AFTER_SECONDS = 1.0
"""Seconds from the end of a lease to the arrival of its wake-up message."""


class Worker:
    """Handler of wake-up messages. It runs the queued turns of a context until the deadline of the process."""

    def __init__(
        self,
        store: TurnStore,
        runner: TaskRunner,
        work_queue: WorkQueue,
        clock: Clock,
        cancellations: RemoteCancellations | None = None,
    ) -> None:
        """`cancellations` cancels the remote tasks of canceled tasks; without it, their wake-up messages are dropped."""
        self._store, self._runner, self._work_queue, self._clock = store, runner, work_queue, clock
        self._cancellations = cancellations

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
            return
        begun = await self._store.begin(wake_up.context, holder=str(uuid7()))
        if isinstance(begun, LeaseHeld):
            left = (begun.until - self._clock.now()).total_seconds()
            # Drop a wake-up message of an earlier lease, because each lease has its own wake-up message with its fence.
            if begun.fence == wake_up.fence or left < self._runner.lease_seconds / 2:
                # Check the lease again at its end: its holder has not renewed it so far, and may have died.
                await self._work_queue.enqueue(wake_up, delay=max(0.0, left) + AFTER_SECONDS)
        elif isinstance(begun, TurnSuspended):
            await self._look(wake_up, begun)
        elif begun is not None and (broadcast := await self._broadcast_of(begun)) is not None:
            await self.run(begun, broadcast, deadline or Deadline(until))

    async def _look(self, wake_up: WakeUp, suspended: TurnSuspended) -> None:
        """Enqueue the message of the next look, if the present one is due."""
        context, now = wake_up.context, self._clock.now()
        if suspended.look_at > now:
            # Drop a message that is not for this look: it is repeated, or another message has woken the context.
            if wake_up.look == milliseconds(suspended.look_at):
                await wake_to_look(self._work_queue, context, suspended.look_at, now)
            return
        look_at = self._store.next_look(suspended)
        # Enqueue the message before the write. If the write fails, the message costs a look, and nothing else.
        await wake_to_look(self._work_queue, context, moment(look_at), now)
        await self._store.look(context, suspended, look_at=look_at)

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
