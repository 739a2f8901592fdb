"""Runs the turns of a context: what a function does that a bell has woken."""

import logging
from datetime import datetime

from uuid_utils.compat import uuid7

from aion_core.errors import LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.ports import Begun, Bell, Bells, Clock, Held, TaskStore
from aion_core.tasks.notifications import wake
from aion_core.tasks.run import Run
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.time_up import TimeUp

logger = logging.getLogger(__name__)

AFTER_SECONDS = 1.0
"""How long after the end of a lease the bell that watches it is heard again."""


class Worker:
    """Answers bells: one turn after the other of a context, for as long as there is time."""

    def __init__(self, store: TaskStore, runner: TaskRunner, bells: Bells, clock: Clock) -> None:
        self._store, self._runner, self._bells, self._clock = store, runner, bells, clock

    async def answer(self, bell: Bell, *, until: datetime | None = None, time_up: TimeUp | None = None) -> None:
        """Run whatever turn of the bell's context has its time; where there is none, nothing happens.

        `until`: when this process ends, by which the turn has to be handed on; `time_up` says it instead where the
        process may be told to stop before. A bell that watches over a lease whose
        holder lives is rung again for the end of that lease, and so is any that finds a lease nearly out. Raises
        StoreError where the table cannot be asked: the bell is to be heard again.
        """
        begun = await self._store.begin(bell.context, holder=str(uuid7()))
        if isinstance(begun, Held):
            left = (begun.until - self._clock.now()).total_seconds()
            # Each begin of a turn has a bell of its own that watches; those of earlier ones fall silent.
            if begun.fence == bell.fence or left < self._runner.lease_seconds / 2:
                # Nobody who lives lets a lease run down so far: its holder is gone, or is a clock that is behind.
                await self._bells.ring(bell, delay=max(0.0, left) + AFTER_SECONDS)
        elif begun is not None and (run := await self._run_of(begun)) is not None:
            await self.run(begun, run, time_up or TimeUp(until))

    async def run(self, begun: Begun, run: Run, time_up: TimeUp | None = None) -> None:
        """Run the turn, then the turns that wait behind it; `run` receives the events of the first."""
        following = await self._runner.run(begun, run, time_up)
        while following is not None and (next_run := await self._run_of(following)) is not None:
            following = await self._runner.run(following, next_run, time_up)

    async def _run_of(self, begun: Begun) -> Run | None:
        """Return the run of a turn, with the log of its task; without a log that cannot be read: the turn fails then.

        If the store is out of reach, leave the turn for later and return None: this try does not count.
        """
        try:
            log = await self._store.log(begun.head.key)
        except StoreCorrupt:
            logger.exception("The log of a task cannot be read.", extra={"task_id": begun.head.key.task_id})
            return Run(())
        except StoreError as error:
            logger.warning("The turn could not be read: %s", error, extra={"task_id": begun.head.key.task_id})
            try:
                await self._store.pause(begun.lease, got_on=False, spent=not isinstance(error, StoreUnavailable))
            except (LeaseLost, StoreError) as refused:
                # The lease runs out, and its timer finds the turn.
                logger.warning("The turn could not be left: %s", refused)
            else:
                await wake(self._bells, begun.lease.context, delay=self._runner.lease_seconds / 2)
            return None
        return Run(log.events if log is not None else ())
