"""Call of a remote agent by a turn, and what became of it."""

from enum import StrEnum

from msgspec import Struct

from aion_core.protocol.types import Message, StreamResponse
from aion_core.table.keys import ContextKey, TaskKey


class CallState(StrEnum):
    """State of a call of a remote agent."""

    OPEN = "open"
    """The message may have been sent. The remote task may be running."""
    ASKS = "asks"
    """The remote task is interrupted: it waits for an answer, which a further call sends."""
    ENDED = "ended"
    """The remote agent has answered: with a message, or with a task that has ended."""
    CANCELING = "canceling"
    """The caller's task is canceled, and the remote task is to be canceled too. The call has a timer."""
    CANCELED = "canceled"
    """The remote task is canceled, or it had ended already."""
    UNREACHED = "unreached"
    """The remote agent could not be reached to cancel its task."""


CANCELABLE = (CallState.OPEN, CallState.ASKS)
"""States of a call whose remote task may still run, or wait for an answer."""

CLOSED = (CallState.CANCELED, CallState.UNREACHED)
NOT_CLOSED = (*CANCELABLE, CallState.ENDED, CallState.CANCELING)
"""States of a call after and before the last attempt to cancel its remote task."""


class RemoteCall(Struct, frozen=True):
    """One message to a remote agent. A repeated send has the same message, so that a remote agent can recognise it."""

    key: str
    """Identifies the call in its task: the same position in the agent's code has the same key after a crash."""
    remote: str
    """Name of the remote agent in aion.yaml, or the URL of its card."""
    message: Message
    agent: str = ""
    """Name of the ADK agent that makes the call; "" for a call by the author's code."""
    remote_task: str = ""
    """Id of the remote agent's task; "" before the remote agent has answered, and if it answers with a message."""
    state: CallState = CallState.OPEN
    answer: StreamResponse | None = None
    """Task or message with which the remote agent has answered, if the caller keeps it."""
    callback: str = ""
    """Hash of the one-use token with which the remote agent may report the end of its task; "" for none, or a used one."""


class CallToCancel(Struct, frozen=True):
    """A call whose task was canceled, with the times and number of its attempts."""

    task: TaskKey
    context: ContextKey
    call: RemoteCall
    canceled_at: int
    """Time of the task's cancellation, in milliseconds."""
    due_at: int
    """Time of the next attempt, in milliseconds. It changes with each claim."""
    tries: int = 0
