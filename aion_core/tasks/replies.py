"""When a client gets its answer as a plain Message instead of the task behind it (R23). Pure.

The turn decides it as it ends, and says so in the task's metadata: whoever asks again, in whichever process, reads the
same there.
"""

from collections.abc import Sequence
from datetime import datetime

from google.protobuf.struct_pb2 import Struct

from aion_core.ports import InputRequired, Numbered, Reply, ReplyAs, Turn
from aion_core.protocol.types import (
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from aion_core.tasks import answer_artifacts, lifecycle

REPLY = "aion:reply"
"""The key of a task's metadata that says `message` where its client has got its answer as a Message."""

QUICK_SECONDS = 1.0
"""How long an answer may take, by `auto`, to be a Message: a client that hears nothing waits no longer for its task."""

_BESIDE = frozenset({TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED})


def is_message(
    reply: ReplyAs,
    turn: Turn,
    ending: Reply | InputRequired,
    event: TaskStatusUpdateEvent,
    log: Sequence[Numbered],
) -> bool:
    """Tell whether the turn that ends by this event has a Message for its client, whose agent's reply is not the task.

    It has none where it does not simply complete with something to say, and where its message continued a task, which
    the client knows, and has to see complete. By `auto` it has none either where there is more than the answer, or it
    took long.
    """
    if turn.message_generation != 1 or not isinstance(ending, Reply):
        return False
    if ending.state != TaskState.TASK_STATE_COMPLETED or ending.message is None or not ending.message.parts:
        return False
    if reply is ReplyAs.MESSAGE:
        return True
    return is_quick(log, lifecycle.timestamp_of(event.status)) and may_be_message([*log, Numbered(0, event)])


def is_quick(log: Sequence[Numbered], at: datetime) -> bool:
    """Tell whether no more time than `auto` gives has passed since the task's message came in."""
    return seconds_left(log, at) >= 0


def seconds_left(log: Sequence[Numbered], at: datetime) -> float:
    """Return how much of the time that `auto` gives is left of the task; less than nothing where none is."""
    first = log[0].event if log else None
    if not isinstance(first, Task):
        return -QUICK_SECONDS
    return QUICK_SECONDS - (at - lifecycle.timestamp_of(first.status)).total_seconds()


def may_be_message(log: Sequence[Numbered]) -> bool:
    """Tell whether what is in the log so far may all be one Message: one answer, if said on the way, and nothing else."""
    said: set[str] = set()
    for entry in log:
        match entry.event:
            case TaskArtifactUpdateEvent(artifact=artifact):
                if not answer_artifacts.is_answer(artifact):
                    return False
                said.add(artifact.artifact_id)
            case TaskStatusUpdateEvent(status=status, metadata=metadata):
                if entry.message is not None or status.state not in _BESIDE or any(key != REPLY for key in metadata):
                    return False
                if status.HasField("message"):
                    said.add(status.message.message_id)
            case Message(message_id=message_id):
                said.add(message_id)
    return len(said) <= 1


def message_of(task: Task) -> Message | None:
    """Return the Message that the task's client gets instead of it, None where it gets the task.

    It holds all that the turn has made: the parts of the answer, then those of its other artifacts; and the task's
    metadata, where the answer's own does not say otherwise. It names its context, and no task.
    """
    if REPLY not in task.metadata:
        return None
    held = [artifact for artifact in task.artifacts if answer_artifacts.is_answer(artifact)]
    message = Message()
    message.CopyFrom(
        task.status.message if task.status.HasField("message") else answer_artifacts.as_message(held[-1], task)
    )
    message.ClearField("task_id")
    for artifact in task.artifacts:
        if artifact not in held:
            message.parts.extend(artifact.parts)
    if len(task.metadata) > 1:
        metadata = Struct()
        metadata.CopyFrom(task.metadata)
        del metadata[REPLY]
        metadata.fields.MergeFrom(message.metadata.fields)
        message.metadata.CopyFrom(metadata)
    return message
