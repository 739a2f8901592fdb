"""What a turn has emitted and what of it is recorded, so that no checkpoint runs ahead of the log.

LangGraph takes a node for finished once its writes are stored. Were they stored before what the node emitted is in the
log, a crash in between would lose that for good: the node does not run again.
"""

import asyncio
import logging
import threading

from aion_core.errors import LeaseLost

logger = logging.getLogger(__name__)

IDLE_SECONDS, IDLE_TIMES = 0.1, 3
"""How long the reader of the graph's stream may have nothing to read, and how often in a row, before an emission that
has not reached it is given up: it went to a stream of the author's own, or to none.

More than once, since a node that blocks the loop delays the emission and the patience alike.
"""


class Handover:
    """Knows a turn's durable emissions: handed over by its nodes, from any thread, and recorded by its runner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By identity: two emissions may be equal.
        self._under_way: dict[int, object] = {}
        self._reading = False
        self._events = 0
        self._cut = False
        self._ended = False
        self._moved = asyncio.Event()

    def hand(self, emission: object) -> None:
        """Note that a node is handing over an emission."""
        with self._lock:
            self._under_way[id(emission)] = emission
        if self._ended:
            logger.warning("The agent went on after its turn's end: what it says is ignored.")

    def read(self) -> None:
        """Note that whoever reads the stream waits for what comes next."""
        self._reading = True

    def heard(self) -> None:
        """Note that something has come; until `read` it is being recorded and spoken."""
        self._reading = False
        self._events += 1

    def record(self, emission: object) -> None:
        """Note that the emission is in the log."""
        with self._lock:
            self._under_way.pop(id(emission), None)
        self._moved.set()

    def cut(self) -> None:
        """Note that the turn is cut: what is under way will not be recorded."""
        self._cut = True
        self._moved.set()

    def end(self) -> None:
        """Note that the turn has ended: what is handed over from here on goes nowhere."""
        self._ended = True

    async def caught_up(self) -> None:
        """Return when all that has been handed over by now is recorded; raises LeaseLost where it never will be."""
        with self._lock:
            awaited = dict(self._under_way)
        idle = 0
        while any(key in self._under_way for key in awaited):
            if self._cut:
                raise LeaseLost("The turn was cut before its last words were recorded.")
            self._moved.clear()
            reading, events = self._reading, self._events
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._moved.wait()
                idle = 0
            except TimeoutError:
                idle = idle + 1 if reading and events == self._events else 0
                if idle == IDLE_TIMES:
                    logger.warning("An emission did not reach the turn's own stream: nobody is told of it.")
                    with self._lock:
                        for key in awaited:
                            self._under_way.pop(key, None)
