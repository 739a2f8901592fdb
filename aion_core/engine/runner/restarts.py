"""Restarts of a turn in its trace: a retry, a handoff, a takeover or the end of a wait."""

from aion_core.engine.records import StoppedBy, Turn
from aion_core.table.times import moment
from aion_core.trace.recorder import TurnTrace
from aion_core.trace.step import Kind


def note_restart(trace: TurnTrace, turn: Turn) -> None:
    """Record why the turn does not begin here, if it has begun before."""
    if turn.tries > 1 and turn.stopped_by is StoppedBy.WORKER:
        trace.note(Kind.TAKEOVER, f"try {turn.tries}: the worker before died or froze")
    elif turn.tries > 1:
        trace.note(Kind.RETRY, f"try {turn.tries}: stopped by {turn.stopped_by or 'an unknown cause'}")
    elif turn.wait is not None:
        since = moment(turn.wait.since)
        trace.note(Kind.WAIT, f"waited since {since:%Y-%m-%d %H:%M:%S} UTC")
    elif turn.handoffs:
        trace.note(Kind.HANDOFF, f"handoff {turn.handoffs}: the process before reached its deadline")
