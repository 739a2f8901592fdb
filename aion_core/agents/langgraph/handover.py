"""What a turn has emitted and what of it is recorded, so that no checkpoint runs ahead of the log.

LangGraph takes a node for finished once its writes are stored. Were they stored before what the node emitted is in the
log, a crash in between would lose that for good: the node does not run again.
"""

import asyncio
import logging
import threading

from aion_core.errors import LeaseLost

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
"""How long a checkpoint waits at the most: an emission may have gone to a stream that nobody reads."""


class Handover:
    """Counts a turn's durable emissions: handed over by its nodes, from any thread, and recorded by its runner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handed = 0
        self._recorded = 0
        self._cut = False
        self._ended = False
        self._moved = asyncio.Event()

    def hand(self) -> None:
        """Note that a node is handing over an emission."""
        with self._lock:
            self._handed += 1
        if self._ended:
            logger.warning("The agent went on after its turn's end: what it says is ignored.")

    def record(self) -> None:
        """Note that one more is in the log."""
        self._recorded += 1
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
        handed = self._handed
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self._recorded < handed:
                    if self._cut:
                        raise LeaseLost("The turn was cut before its last words were recorded.")
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            logger.error("An emission of a graph did not reach its stream; the checkpoint goes on without it.")
            self._recorded = handed
