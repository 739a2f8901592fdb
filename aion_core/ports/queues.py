"""Wake-up messages: their text, the queues that carry them, and those that could not be handled."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from aion_core.errors import UnreadableWakeUp
from aion_core.ports.tasks import ContextKey, TaskKey

VERSION = 1

LONGEST_DELAY = 900
"""More than so many seconds ahead SQS takes no message."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Says that there may be something to do in a context; it may be lost, late, doubled or in vain."""

    context: ContextKey
    fence: int = 0
    """The lease over which it watches: it asks whether that is still alive. 0 where it asks for any turn that waits."""


class WorkQueue(Protocol):
    """Wakes a function that runs turns. The table says what is to be done; a bell says when to look."""

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """Let the bell be heard after so many seconds, at most 900. Raises StoreUnavailable."""
        ...

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """Do as `enqueue`, blocking, from a thread of one's own: an agent may block the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class PushWakeUp:
    """Says that there may be something to post for a task; it may be lost, late, doubled or in vain."""

    task: TaskKey
    generation: int = 0
    """The event that it is rung for; 0 where it is a retry, or a new config."""


class PushQueue(Protocol):
    """Wakes a function that delivers notifications. The table says what is to be posted; a bell says when to look."""

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        """Let the bell be heard after so many seconds, at most 900. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be handled."""

    id: str
    body: str
    sent_at: datetime
    """When it was first sent."""
    receipt: str = ""


class DeadLetters(Protocol):
    """The messages of one queue that could not be handled. Every method raises StoreError."""

    async def read(self, limit: int) -> list[DeadLetter]:
        """Return messages, each once, at most so many; they may be hidden from others until they are given back."""
        ...

    async def give_back(self, letters: Sequence[DeadLetter]) -> None:
        """Let others see the messages again."""
        ...

    async def redrive(self) -> None:
        """Move all messages back into their queue, perhaps after the return; a message may then be in both."""
        ...

    async def drop(self, letter: DeadLetter) -> None:
        """Delete the message, there or not."""
        ...


def body_of(wake_up: WakeUp) -> str:
    """Return the message that holds the bell."""
    context = wake_up.context
    ids = {"owner": context.owner, "agent": context.agent, "context_id": context.context_id, "fence": wake_up.fence}
    # ASCII, since SQS refuses some of the characters that an id may hold.
    return json.dumps({"v": VERSION, **ids}, separators=(",", ":"))


def push_body_of(wake_up: PushWakeUp) -> str:
    """Return the message that holds the bell of a notification."""
    ids = {"owner": wake_up.task.owner, "task_id": wake_up.task.task_id, "generation": wake_up.generation}
    return json.dumps({"v": VERSION, **ids}, separators=(",", ":"))


def wake_up_of(body: str) -> WakeUp:
    """Return the bell that the message holds; raises UnreadableWakeUp that says what is wrong with it."""
    match _said(body):
        case {"owner": str(owner), "agent": str(agent), "context_id": str(context_id), "fence": int(fence)} if (
            owner and agent and context_id
        ):
            return WakeUp(ContextKey(owner, agent, context_id), fence)
    raise UnreadableWakeUp(
        "The bell does not say in text whose, which agent's and which context it rings in, and over which lease it watches."
    )


def push_wake_up_of(body: str) -> PushWakeUp:
    """Return the bell of a notification; raises UnreadableWakeUp that says what is wrong with it."""
    match _said(body):
        case {"owner": str(owner), "task_id": str(task_id), "generation": int(generation)} if owner and task_id:
            return PushWakeUp(TaskKey(owner, task_id), generation)
    raise UnreadableWakeUp("The bell does not say in text whose and which task it is of, and which of its events.")


def _said(body: str) -> dict[str, Any]:
    """Return what the message says; raises UnreadableWakeUp where it says nothing, or in another version's words."""
    try:
        said = json.loads(body)
    except ValueError:
        raise UnreadableWakeUp("The message is not JSON: nothing of aion's has put it into this queue.") from None
    if not isinstance(said, dict) or "v" not in said:
        raise UnreadableWakeUp("The message has no version: nothing of aion's has put it into this queue.")
    if said["v"] != VERSION:
        raise UnreadableWakeUp(
            f"The bell is of version {said['v']!r}, and this function reads {VERSION}. Deploy it as new as its sender."
        )
    return said
