"""Exporters of traces, which must send what they hold before Lambda freezes the process."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

from aion_core.authoring.before_freeze import flushes
from aion_core.telemetry import NoopTraces, Traces

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 3.0
"""Time limit for all exporters together, at the end of an invocation."""


class Exporters:
    """Exporters of this process: aion's own traces, LangSmith's tracer, and those of the agents' code."""

    def __init__(self, traces: Traces, *, freezes: bool) -> None:
        """`freezes` is True on Lambda, which freezes the process between two invocations."""
        self._traces, self._freezes = traces, freezes

    @property
    def hold(self) -> bool:
        """True if there may be something to send."""
        return any(True for _ in self._flushes())

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Let all exporters send at once, and wait for them for at most this number of seconds. Blocks."""
        until = time.monotonic() + seconds
        running = []
        for name, flush in self._flushes():
            thread = threading.Thread(target=_flush, args=(name, flush), name=f"flush-{name}", daemon=True)
            thread.start()
            running.append(thread)
        for thread in running:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                logger.warning(
                    "%s has not sent everything within %.0f s. Lambda may freeze the rest until the next invocation.",
                    thread.name.removeprefix("flush-"),
                    seconds,
                )

    def _flushes(self) -> Iterator[tuple[str, Callable[[], object]]]:
        if not isinstance(self._traces, NoopTraces):
            yield "The exporter of traces", self._traces.flush
        if not self._freezes:
            return
        # Do not import LangSmith: a process that has not made its client has no runs to send.
        if getattr(sys.modules.get("langsmith.run_trees"), "_CLIENT", None) is not None:
            from langchain_core.tracers.langchain import wait_for_all_tracers

            yield "LangSmith's tracer", wait_for_all_tracers
        for flush in flushes:
            yield getattr(flush, "__qualname__", repr(flush)), flush


def _flush(name: str, flush: Callable[[], object]) -> None:
    try:
        flush()
    except Exception:  # the author's code may raise any exception
        logger.exception("%s could not send what it holds.", name)
