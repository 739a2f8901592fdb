"""Transition: changes of a context, of task heads and of their logs, to be written in one transaction."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from aion_core.engine.records import Head
from aion_core.engine.task.subscribers import has_subscriber_for
from aion_core.protocol.types import Event, Message
from aion_core.table.keys import TaskKey
from aion_core.table.writes import Change

T = TypeVar("T", covariant=True)


MOST_TOGETHER = 25
"""Maximum number of events in one transaction. With payloads of LARGE_BYTES each, it stays far below DynamoDB's 4 MB."""


class NewEvent(Struct, frozen=True):
    """A new event to write to a task's log."""

    task: TaskKey
    generation: int
    event: Event
    message: Message | None = None
    """The client's message recorded by the event."""
    request: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    token: str = ""
    """Identifies the write of the event. A repeated write after a lost response finds the event by it."""
    notifies: bool = False
    """True if a push subscriber may want the event."""


class HeadMove(Struct, frozen=True):
    """A change of a task's head item (current state), and the resulting head."""

    change: Change
    after: Head


class Transition(Struct, Generic[T], frozen=True):
    """Changes of a context, of task heads (current states) and of logs in one transaction, and the caller's outcome."""

    outcome: T
    context: Change | None = None
    heads: tuple[HeadMove, ...] = ()
    events: tuple[NewEvent, ...] = ()
    recorded_message: tuple[TaskKey, str] | None = None
    """Task and turn id of a message that was queued until now. The transaction records the message in the log."""


def new_event(head: Head, generation: int, event: Event, **more: Any) -> NewEvent:
    """Return a new event for a task's log. It notifies the push subscribers of `head`, if they receive this kind."""
    return NewEvent(head.key, generation, event, notifies=has_subscriber_for(head, event), **more)


class QueuedMessage(Struct, frozen=True):
    """A message to a running task, queued until its own turn begins, with the metadata of its request."""

    message: Message | None = None
    """None if the message's item is missing or unreadable. Its turn then begins and fails."""
    request: Mapping[str, Any] = field(default_factory=dict)
