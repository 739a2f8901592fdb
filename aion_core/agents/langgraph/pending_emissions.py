"""Emissions of a graph's nodes that the runner has not recorded yet."""

import asyncio
import logging
import threading

from aion_core.errors import LeaseLost

logger = logging.getLogger(__name__)

IDLE_SECONDS, IDLE_ROUNDS = 0.1, 3
"""Seconds to wait for a stream event, and number of waits, before a pending emission counts as lost.

Such an emission went to another stream, or nowhere. One wait is not enough, because a node that blocks the event loop
delays both the emission and this timer.
"""


class PendingEmissions:
    """Durable emissions of a turn's nodes that the runner has not recorded yet. Nodes may add them from any thread.

    After a node's writes are stored, LangGraph treats the node as finished and does not run it again. So the runner
    must record the node's emissions before its writes are stored. Otherwise a crash between the two would lose the
    emissions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Use the object's id as key, because two emissions may be equal.
        self._pending: dict[int, object] = {}
        self.reading = False
        """True while the turn waits for the next event of the graph's stream, False while it processes one."""
        self._events = 0
        self._aborted = False
        self._closed = False
        self._changed = asyncio.Event()

    def add(self, emission: object) -> None:
        """Add an emission that a node is about to write."""
        with self._lock:
            self._pending[id(emission)] = emission
        if self._closed:
            logger.warning("The agent emitted after the end of its turn: the emission is ignored.")

    def event_received(self) -> None:
        """Mark that the turn has received a stream event and is processing it."""
        self.reading = False
        self._events += 1

    def mark_recorded(self, emission: object) -> None:
        """Remove an emission, because the runner has recorded it in the task's event log."""
        with self._lock:
            self._pending.pop(id(emission), None)
        self._changed.set()

    def abort(self) -> None:
        """Mark the turn as aborted: its pending emissions will never be recorded."""
        self._aborted = True
        self._changed.set()

    def close(self) -> None:
        """Mark the turn as ended. Later emissions are ignored."""
        self._closed = True

    async def wait_recorded(self) -> None:
        """Wait until all current emissions are recorded. Raises LeaseLost if the turn was aborted."""
        with self._lock:
            awaited = dict(self._pending)
        idle = 0
        # Look for the newest emission first: the runner records them in order, so it is the last that is pending.
        while any(key in self._pending for key in reversed(awaited)):
            if self._aborted:
                raise LeaseLost("The turn was cut before its last emissions were recorded.")
            self._changed.clear()
            reading, events = self.reading, self._events
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._changed.wait()
                idle = 0
            except TimeoutError:
                idle = idle + 1 if reading and events == self._events else 0
                if idle == IDLE_ROUNDS:
                    logger.warning("An emission did not reach the turn's own stream: it is dropped.")
                    with self._lock:
                        for key in awaited:
                            self._pending.pop(key, None)
