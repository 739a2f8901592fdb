"""Settings of a deployment of the simulation."""

from dataclasses import dataclass
from datetime import timedelta

from aion_core.engine.agent_options import AnswerAs, ReplyAs, WhenBusy


@dataclass(frozen=True)
class Deployment:
    """Settings of a simulated deployment; a scenario may change them while turns run."""

    when_busy: WhenBusy = WhenBusy.ENQUEUE
    reply: ReplyAs = ReplyAs.TASK
    answer: AnswerAs = AnswerAs.MESSAGE
    watch_seconds: float = 1.0
    """Pause between two lease checks; longer in scenarios of hours without a cancel."""
    snapshot_every: int = 100
    """Number of events before a snapshot at the end of a turn."""
    retention: timedelta = timedelta(days=30)
    open_tasks: int | None = None
    """Limit of open tasks of an owner."""
    delegates: bool = False
    """True if the agents call a remote agent."""
    calls_back: bool = False
    """True if the remote agent is asked to report the ends of its tasks."""
    patience: float | None = None
    """Longest wait for the remote agent in seconds; None for the engine's own limit."""
