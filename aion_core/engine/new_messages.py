"""Messages to store: a new task with its first turn, or a further message to a task."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Head, Turn
from aion_core.protocol.types import Event, Message, Task, TaskStatusUpdateEvent
from aion_core.table.keys import ContextKey, TaskKey


class NewTask(Struct, frozen=True):
    """Input of `TaskStore.create`: a task with its message, first events and turn."""

    key: TaskKey
    context: ContextKey
    context_is_new: bool
    """True if the server has just generated the contextId: the store then need not read the context's record."""
    message_id: str
    content_hash: bytes
    """Hash of the message's content, to distinguish a repeat from a reused messageId."""
    events: tuple[Task | TaskStatusUpdateEvent, ...]
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request's metadata, stored with the first event."""
    idempotency_key: str = ""
    """The client's Idempotency-Key, to recognise a repeat of a message without contextId."""
    push: PushConfig | None = None
    """The client's push config, stored in the task's transaction. Its webhook receives all events."""


class FollowUp(Struct, frozen=True):
    """Input of `TaskStore.follow_up`: a message to an existing task, and its turn."""

    head: Head
    """The task's head as read by the caller."""
    task: Task
    """The task as read by the caller. It is stored as a snapshot if older events would expire before the task."""
    message_id: str
    content_hash: bytes
    event: Event
    """The status update that sets an interrupted task to TASK_STATE_WORKING."""
    message: Message
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    push: PushConfig | None = None
    """The client's push config, stored in the message's transaction. Its webhook receives later events."""


class WhenBusy(StrEnum):
    """Policy for a message to a busy context: `double_texting` in aion.yaml."""

    ENQUEUE = "enqueue"
    """The message waits in the context's queue."""
    REJECT = "reject"
    """The message is refused with an error."""
    INTERRUPT = "interrupt"
    """The running task is canceled first."""
