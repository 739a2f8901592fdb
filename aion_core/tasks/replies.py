"""The answer of a turn: in a status message, in an artifact, or as a Message in place of the task. Pure.

At its end the turn decides between Message and task, and notes it in the task's metadata. So each process gives the
same response to a repeated message.
"""

from collections.abc import Sequence
from datetime import datetime

from google.protobuf.struct_pb2 import Struct

from aion_core.ports import InputRequired, Numbered, Reply, ReplyAs, Turn
from aion_core.protocol.types import (
    Artifact,
    Message,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from aion_core.tasks import lifecycle

ANSWERS = "aion:answers"
"""Metadata key of an answer's artifact: the id of the answered message."""
NAME = "answer"

REPLY = "aion:reply"
"""Metadata key of a task: `message` if its client received the answer as a Message."""

QUICK_SECONDS = 1.0
"""Longest time to an answer as a Message under `auto`; the client receives nothing until then."""

_BESIDE = frozenset({TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED})

# ── Artifacts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def as_artifact(answer: Message, message: Message) -> Artifact:
    """Return the answer to the message as an artifact with the answer's id."""
    artifact = Artifact(
        artifact_id=answer.message_id,
        name=NAME,
        parts=answer.parts,
        metadata=answer.metadata,
        extensions=answer.extensions,
    )
    artifact.metadata.update({ANSWERS: message.message_id})
    return artifact


def is_answer(artifact: Artifact) -> bool:
    """Return True if the artifact is the answer of a turn; authors cannot set its metadata key."""
    return ANSWERS in artifact.metadata


def as_message(artifact: Artifact, task: Task) -> Message:
    """Return the answer of the artifact as a message again."""
    message = Message(
        message_id=artifact.artifact_id,
        role=Role.ROLE_AGENT,
        task_id=task.id,
        context_id=task.context_id,
        parts=artifact.parts,
        extensions=artifact.extensions,
    )
    if len(artifact.metadata) > 1:
        message.metadata.CopyFrom(artifact.metadata)
        del message.metadata[ANSWERS]
    return message


def messages_in(task: Task) -> list[Message]:
    """Return the messages of the task, oldest first and each once; answers in artifacts follow their messages."""
    last = [task.status.message] if task.status.HasField("message") else []
    known = {message.message_id for message in (*task.history, *last)}
    answers: dict[str, list[Message]] = {}
    for artifact in task.artifacts:
        if is_answer(artifact) and artifact.artifact_id not in known:
            answers.setdefault(str(artifact.metadata[ANSWERS]), []).append(as_message(artifact, task))
    messages: list[Message] = []
    pending: list[Message] = []
    for message in task.history:
        if message.role == Role.ROLE_USER:
            messages += pending
            pending = answers.get(message.message_id, [])
        messages.append(message)
    return [*messages, *pending, *last]


# ── Message or task ───────────────────────────────────────────────────────────────────────────────────────────────────


def is_message(
    reply: ReplyAs,
    turn: Turn,
    ending: Reply | InputRequired,
    event: TaskStatusUpdateEvent,
    log: Sequence[Numbered],
) -> bool:
    """Return True if the turn that ends by this event gives its client a Message; `reply` is not TASK.

    The turn must complete with an answer. A message to an existing task gets its task: the client knows the task and
    has to see it complete. Under `auto` the answer must also be quick, and the log must hold nothing else.
    """
    if turn.message_generation != 1 or not isinstance(ending, Reply):
        return False
    if ending.state != TaskState.TASK_STATE_COMPLETED or ending.message is None or not ending.message.parts:
        return False
    if reply is ReplyAs.MESSAGE:
        return True
    is_quick = seconds_left(log, lifecycle.timestamp_of(event.status)) >= 0
    return is_quick and may_be_message([*log, Numbered(0, event)])


def seconds_left(log: Sequence[Numbered], at: datetime) -> float:
    """Return the seconds left for a Message under `auto`; negative after that time."""
    first = log[0].event if log else None
    if not isinstance(first, Task):
        return -QUICK_SECONDS
    return QUICK_SECONDS - (at - lifecycle.timestamp_of(first.status)).total_seconds()


def may_be_message(log: Sequence[Numbered]) -> bool:
    """Return True if one Message can hold the log: at most one answer, and nothing else."""
    answers: set[str] = set()
    for entry in log:
        match entry.event:
            case TaskArtifactUpdateEvent(artifact=artifact):
                if not is_answer(artifact):
                    return False
                answers.add(artifact.artifact_id)
            case TaskStatusUpdateEvent(status=status, metadata=metadata):
                if entry.message is not None or status.state not in _BESIDE or any(key != REPLY for key in metadata):
                    return False
                if status.HasField("message"):
                    answers.add(status.message.message_id)
            case Message(message_id=message_id):
                answers.add(message_id)
    return len(answers) <= 1


def message_of(task: Task) -> Message | None:
    """Return the Message for the task's client, None if the client gets the task.

    It has the parts of the answer, then those of other artifacts. The answer's metadata overrides the task's. It names
    its context and no task.
    """
    if REPLY not in task.metadata:
        return None
    answers = [artifact for artifact in task.artifacts if is_answer(artifact)]
    message = Message()
    message.CopyFrom(task.status.message if task.status.HasField("message") else as_message(answers[-1], task))
    message.ClearField("task_id")
    for artifact in task.artifacts:
        if artifact not in answers:
            message.parts.extend(artifact.parts)
    if len(task.metadata) > 1:
        metadata = Struct()
        metadata.CopyFrom(task.metadata)
        del metadata[REPLY]
        metadata.fields.MergeFrom(message.metadata.fields)
        message.metadata.CopyFrom(metadata)
    return message
