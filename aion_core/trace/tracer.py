"""Tracer of a process: makes the recorders of its turns."""

from aion_core.clock import Clock
from aion_core.trace.recorder import ExportSpans, TurnTrace
from aion_core.trace.step import TracedTurn
from aion_core.trace.store import TraceStore


class Tracer:
    """Tracer of a process that stores its turns' steps, exports them as spans, or both."""

    def __init__(
        self,
        clock: Clock,
        store: TraceStore | None = None,
        spans: ExportSpans | None = None,
        *,
        content: bool = True,
    ) -> None:
        """Without `content`, the steps have no arguments and no results."""
        self._clock, self._store, self._spans, self._content = clock, store, spans, content

    def recorder(self, turn: TracedTurn) -> TurnTrace:
        """Return the recorder for one try of a turn."""
        return TurnTrace(turn, self._clock, self._store, self._spans, content=self._content)
