"""Cancellation of remote tasks whose caller's task is canceled (A2A 3.1.5), by whichever process wakes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from aion_core.clock import Clock
from aion_core.engine.queues import WakeUp, WorkQueue
from aion_core.engine.remote_calls.records import CallState, CallToCancel
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.errors import StoreError
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds

logger = logging.getLogger(__name__)

GIVE_UP_AFTER = 600.0
"""Seconds after which a remote agent that cannot be reached is left alone."""

ATTEMPT_SECONDS = 20.0
"""Longest attempt to cancel a remote task."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 2.0, 60.0
"""Wait before the second attempt, which doubles up to the longest wait."""


class Canceled(Enum):
    """Outcome of an attempt to cancel a remote task."""

    DONE = auto()
    """The remote task is canceled, had ended already, or never existed."""
    NOT_YET = auto()
    """The remote agent cannot be reached, or does not know the task yet. Try again later."""
    NEVER = auto()
    """The remote agent refuses, so that another attempt would not help."""


CancelRemote = Callable[[CallToCancel], Awaitable[Canceled]]
"""Function that asks the remote agent of a call to cancel its task. It may raise any exception: then try again."""

Note = Callable[[ContextKey, TaskKey, str], Awaitable[None]]
"""Function that notes in a canceled task's metadata that this remote agent was not reached."""


class RemoteCancellations:
    """Cancellations of remote tasks, with attempts until the remote agent is reached or ten minutes have passed."""

    def __init__(
        self, store: RemoteCallStore, cancel: CancelRemote, note: Note, work_queue: WorkQueue, clock: Clock
    ) -> None:
        self._store, self._cancel, self._note = store, cancel, note
        self._work_queue, self._clock = work_queue, clock

    async def carry_out(self, wake_up: WakeUp) -> None:
        """Cancel the remote tasks of a canceled task. Enqueue the wake-up message again for those not reached.

        Raises StoreError: the queue must deliver the message again.
        """
        calls = await self._store.to_cancel(TaskKey(wake_up.context.owner, wake_up.task_id))
        waits: list[float | None] = await asyncio.gather(*map(self._attempt, calls))
        delays = [wait for wait in waits if wait is not None]
        if delays:
            await self._work_queue.enqueue(wake_up, delay=min(delays))

    async def _attempt(self, call: CallToCancel) -> float | None:
        """Try once to cancel. Return the seconds until the next attempt; None if there is no more to do."""
        wait: float = min(FIRST_WAIT_SECONDS * 2**call.tries, LONGEST_WAIT_SECONDS)
        # Set the timer later than the wake-up message, because it is only the net below it.
        if not await self._store.claim(call, until=self._now() + int((wait + 2 * ATTEMPT_SECONDS) * 1000)):
            return None
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                outcome = await self._cancel(call)
        except StoreError:
            raise
        except Exception as error:  # the remote agent and the author's client may raise anything
            logger.warning("A remote task could not be canceled yet: %r", error, extra={"task_id": call.task.task_id})
            outcome = Canceled.NOT_YET
        if outcome is Canceled.DONE:
            await self._store.close(call, CallState.CANCELED)
            return None
        if outcome is Canceled.NOT_YET and self._now() - call.canceled_at < GIVE_UP_AFTER * 1000:
            return wait
        await self._note(call.context, call.task, call.call.remote)
        await self._store.close(call, CallState.UNREACHED)
        return None

    def _now(self) -> int:
        return milliseconds(self._clock.now())
