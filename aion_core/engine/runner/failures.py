"""Failures of turns: too many tries, and the error text for the client."""

import asyncio
from collections.abc import Mapping

from aion_core.engine.records import StoppedBy, Turn
from aion_core.errors import CANCELED_ITSELF, AgentFailed

MAX_TRIES = 3
"""Maximum number of tries of a turn. Then its task fails, because the turn itself may crash its processes."""

MAX_HANDOFFS = 200
"""Maximum number of handoffs of a turn between processes, about two days of work. Then its task fails."""

LAST_STOP: Mapping[StoppedBy | None, str] = {
    StoppedBy.DEADLINE: "The last try used up the time of its process: the agent may run without an end. ",
    StoppedBy.STORE: "In the last try a read or write of the store failed. ",
    StoppedBy.WORKER: "In the last try the process ended or froze: the agent may crash it, use up its memory, or block it "
    "until the end of its time. ",
}
"""Sentence of the error text for a turn without progress, by the cause of its last stop."""

UNREADABLE = "A record of this task can no longer be read. Send the message again, in a new task."
"""Error text for a task with a lost or unreadable log or message."""


def check_tries(turn: Turn, max_tries: int) -> None:
    """Raise AgentFailed for a turn with too many tries or handoffs."""
    if turn.tries > max_tries:
        raise AgentFailed(
            f"The turn was begun {max_tries} times without progress. {LAST_STOP.get(turn.stopped_by, '')}"
            "Read the server's log before you send the message again with a new id."
        )
    if turn.handoffs > MAX_HANDOFFS:
        raise AgentFailed("The turn took too long: it was suspended too often and did not end.")


def reason_of(error: BaseException, *, reveal: bool) -> str:
    """Return the error text for the client after an agent's failure: the error's class and a fixed sentence.

    With `reveal`, as in development, add the text of the agent's error. The notes of an AgentFailed contain a text of
    the agent's code or model, so they are added only then, too.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # name the agent's own exception instead of the group of an asyncio.TaskGroup
    if isinstance(error, asyncio.CancelledError):
        return CANCELED_ITSELF
    if isinstance(error, AgentFailed):
        return " ".join([str(error), *(getattr(error, "__notes__", ()) if reveal else ())])
    reason = f"{type(error).__name__}: the agent could not finish this turn."
    if not reveal:
        return reason
    try:
        return f"{reason} {error}".rstrip()
    except Exception:  # the author's `__str__` may raise any exception
        return reason
