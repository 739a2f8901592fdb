"""Wake-up messages: their queues, their JSON bodies, and dead letters."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from aion_core.errors import UnreadableWakeUp
from aion_core.ports.tasks import ContextKey, TaskKey

VERSION = 1

LONGEST_DELAY = 900
"""Longest delay of an SQS message, in seconds."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Wake-up message for a context; it may be lost, late, repeated or needless."""

    context: ContextKey
    fence: int = 0
    """Fence of the watched lease; 0 for any waiting turn."""


class WorkQueue(Protocol):
    """Queue to the function that runs turns. The table holds the work; a message only wakes the function."""

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """Enqueue the message with a delay of at most 900 seconds. Raises StoreUnavailable."""
        ...

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """Do as `enqueue` in the calling thread: an agent may block the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class PushWakeUp:
    """Wake-up message for the push delivery of a task; it may be lost, late, repeated or needless."""

    task: TaskKey
    generation: int = 0
    """The event to deliver; 0 for a retry or a new config."""


class PushQueue(Protocol):
    """Queue to the function that delivers notifications. The table holds the work; a message only wakes the function."""

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        """Enqueue the message with a delay of at most 900 seconds. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message without a successful handling."""

    id: str
    body: str
    sent_at: datetime
    """Time of the first send."""
    receipt: str = ""


class DeadLetters(Protocol):
    """Dead letters of one queue. Every method raises StoreError."""

    async def read(self, limit: int) -> list[DeadLetter]:
        """Return up to `limit` messages, each once; they may be invisible to others until `give_back`."""
        ...

    async def give_back(self, letters: Sequence[DeadLetter]) -> None:
        """Make the messages visible to others again."""
        ...

    async def redrive(self) -> None:
        """Move all messages back into their queue, perhaps after the return; a message may then be in both."""
        ...

    async def drop(self, letter: DeadLetter) -> None:
        """Delete the message, if it exists."""
        ...


def body_of(wake_up: WakeUp) -> str:
    """Return the message body of the wake-up."""
    context = wake_up.context
    ids = {"owner": context.owner, "agent": context.agent, "context_id": context.context_id, "fence": wake_up.fence}
    # ASCII: an id may have characters that SQS refuses.
    return json.dumps({"v": VERSION, **ids}, separators=(",", ":"))


def push_body_of(wake_up: PushWakeUp) -> str:
    """Return the message body of the push wake-up."""
    ids = {"owner": wake_up.task.owner, "task_id": wake_up.task.task_id, "generation": wake_up.generation}
    return json.dumps({"v": VERSION, **ids}, separators=(",", ":"))


def wake_up_of(body: str) -> WakeUp:
    """Return the wake-up of the message body; raises UnreadableWakeUp."""
    match _fields(body):
        case {"owner": str(owner), "agent": str(agent), "context_id": str(context_id), "fence": int(fence)} if (
            owner and agent and context_id
        ):
            return WakeUp(ContextKey(owner, agent, context_id), fence)
    raise UnreadableWakeUp(
        "The wake-up message must have the texts `owner`, `agent` and `context_id`, and the number `fence`."
    )


def push_wake_up_of(body: str) -> PushWakeUp:
    """Return the push wake-up of the message body; raises UnreadableWakeUp."""
    match _fields(body):
        case {"owner": str(owner), "task_id": str(task_id), "generation": int(generation)} if owner and task_id:
            return PushWakeUp(TaskKey(owner, task_id), generation)
    raise UnreadableWakeUp(
        "The wake-up message must have the texts `owner` and `task_id`, and the number `generation`."
    )


def _fields(body: str) -> dict[str, Any]:
    """Return the fields of the message body; raises UnreadableWakeUp if it is not of this version."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise UnreadableWakeUp("The message is not JSON: it is not from aion.") from None
    if not isinstance(fields, dict) or "v" not in fields:
        raise UnreadableWakeUp("The message has no version: it is not from aion.")
    if fields["v"] != VERSION:
        raise UnreadableWakeUp(
            f"The message has version {fields['v']!r}, and this function reads {VERSION}. Deploy the sender's version of aion."
        )
    return fields
