"""What a context holds (its lease, the turns that wait, the task that asks) and whose turn it is. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from aion_core.ports import Held, Turn

CLAIM_TERMS = 2
"""For how many terms of a lease whoever has claimed what is overdue is left alone with it."""


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A context as read; times are milliseconds since 1970."""

    fence: int = 0
    line: int = 0
    """How often the line of waiting turns has changed: who has read it knows by this whether it still stands so."""
    holder: str = ""
    until: int = 0
    running: Turn | None = None
    waiting: tuple[Turn, ...] = ()
    interrupted: str | None = None
    """The id of the task that waits for an answer."""
    expired: bool = False
    """Whether nothing of it is in force any more but its fence."""

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits here."""
        return self.running is not None or bool(self.waiting)

    @property
    def at_work(self) -> str:
        """The task whose turn runs, or is the first that waits; "" where there is none."""
        turn = self.running or next(iter(self.waiting), None)
        return turn.task_id if turn else ""

    def runs(self, task_id: str) -> bool:
        """Tell whether it is this task's turn that runs."""
        return self.running is not None and self.running.task_id == task_id

    def waits_for(self, task_id: str) -> bool:
        """Tell whether a turn of this task waits."""
        return any(turn.task_id == task_id for turn in self.waiting)

    def without(self, task_id: str) -> tuple[Turn, ...]:
        """Return the waiting turns of the other tasks."""
        return tuple(turn for turn in self.waiting if turn.task_id != task_id)

    def held_until(self) -> datetime | None:
        """Return when the lease of the turn that runs runs out; None where none runs, or nobody holds it."""
        return moment(self.until) if self.holder else None


def turn_to_begin(record: ContextRecord, now: int) -> Turn | Held | None:
    """Return the turn whose time has come: the one whose holder is gone, else the first that waits.

    Held while the holder lives; None where nothing waits, and while a task of the context waits for its answer.
    """
    if record.running is not None:
        if record.until > now:
            return Held(record.fence, moment(record.until))
        return record.running
    if record.interrupted is not None:
        return None
    return next(iter(record.waiting), None)


def moment(milliseconds: int) -> datetime:
    """Return the time that so many milliseconds since 1970 are."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
