"""Forms of a turn's answer: a status message, an artifact, or a Message in place of the task. Pure.

The agent's adapter decides what answers the turn, in `aion_core.agents.final_answer`.

The turn decides at its end if the client receives a Message or the task, and records this in the task's metadata. So
every process returns the same response to a repeated message.
"""

from collections.abc import Sequence
from datetime import datetime

from google.protobuf import struct_pb2
from msgspec import Struct

from aion_core.engine.agent import AgentArtifact, InputRequired, Reply
from aion_core.engine.agent_options import AnswerAs, ReplyAs
from aion_core.engine.records import Numbered, Turn
from aion_core.engine.task import timestamps
from aion_core.errors import StoreCorrupt
from aion_core.protocol.answer_artifacts import ANSWERS, NAME, as_artifact, as_message, is_answer
from aion_core.protocol.types import (
    Message,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)

REPLY = "aion:reply"
"""Metadata key of a task; its value is `message` if the client received the answer as a Message."""

QUICK_SECONDS = 1.0
"""Time limit for an answer as a Message with `reply: auto`. The client receives nothing until then."""

_BESIDE = frozenset({TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED})


class AnswerForm(Struct, frozen=True):
    """Place of a turn's answer in its task, by `answer` in aion.yaml."""

    artifact: AgentArtifact | None = None
    """Artifact to record before the turn's last status. None if there is none, or if it has been recorded already."""
    message: Message | None = None
    """Message of the turn's last status."""


def form_of(
    message: Message, ending: Reply | InputRequired, answer_as: AnswerAs, turn: Turn, log: Sequence[Numbered]
) -> AnswerForm:
    """Return the place of a turn's last message in its task. Only the answer of a completed turn becomes an artifact.

    `log` has the task's events. Raises StoreCorrupt if it lacks the client's message.
    """
    answers = isinstance(ending, Reply) and ending.state == TaskState.TASK_STATE_COMPLETED
    if answer_as is AnswerAs.MESSAGE or not answers or not message.parts:
        return AnswerForm(message=message)
    key = f"{NAME}:{turn.id}"
    recorded = next((entry.event for entry in log if entry.key == key), None)
    if isinstance(recorded, TaskArtifactUpdateEvent):
        # Use the answer recorded by an earlier try of the turn, because the answers of two tries may differ.
        artifact, message = None, as_message(recorded.artifact, message.task_id, message.context_id)
    else:
        artifact = AgentArtifact(as_artifact(message, inbound_message(log, turn)), key=key)
    return AnswerForm(artifact, message if answer_as is AnswerAs.BOTH else None)


def inbound_message(log: Sequence[Numbered], turn: Turn) -> Message:
    """Return the client's message that a turn answers. Raises StoreCorrupt if the log has no message for the turn."""
    entry = next((entry for entry in log if entry.generation == turn.message_generation), None)
    if entry is not None and entry.message is not None:
        return entry.message
    if entry is not None and isinstance(entry.event, Task) and entry.event.history:
        return entry.event.history[-1]
    raise StoreCorrupt(f"Event {turn.message_generation} of the task has no message to answer.")


def messages_in(task: Task) -> list[Message]:
    """Return the task's messages, oldest first, without duplicates.

    An answer stored as an artifact becomes a message and follows the user's message that it answers. It precedes the
    message of the task's status, such as the reason of a cancellation.
    """
    known = {message.message_id for message in task.history}
    answers: dict[str, list[Message]] = {}
    for artifact in task.artifacts:
        if is_answer(artifact) and artifact.artifact_id not in known:
            answers.setdefault(str(artifact.metadata[ANSWERS]), []).append(
                as_message(artifact, task.id, task.context_id)
            )
    messages: list[Message] = []
    pending: list[Message] = []
    for message in task.history:
        if message.role == Role.ROLE_USER:
            messages += pending
            pending = answers.get(message.message_id, [])
        elif message.message_id == task.status.message.message_id:
            messages += pending
            pending = []
        messages.append(message)
    return [*messages, *pending]


def is_message(
    reply: ReplyAs,
    turn: Turn,
    ending: Reply | InputRequired,
    event: TaskStatusUpdateEvent,
    log: Sequence[Numbered],
    *,
    replies_with_task: bool,
) -> bool:
    """Return True if a turn with this last event answers its client with a Message.

    The turn must complete with an answer. A message to an existing task always returns the task, because the client has
    to see that task complete. With `agent`, the agent must have answered with a Message; with `auto`, the answer must
    be quick. In both cases the log must have no other content, and the client must not have received the task already
    (`replies_with_task`).
    """
    if reply is ReplyAs.TASK or (replies_with_task and reply is not ReplyAs.MESSAGE):
        return False
    if turn.message_generation != 1 or not isinstance(ending, Reply):
        return False
    if ending.state != TaskState.TASK_STATE_COMPLETED or ending.message is None or not ending.message.parts:
        return False
    if reply is ReplyAs.MESSAGE:
        return True
    is_quick = seconds_left(log, timestamps.timestamp_of(event.status)) >= 0
    fits = ending.as_message if reply is ReplyAs.AGENT else is_quick
    return fits and may_be_message([*log, Numbered(0, event)])


def seconds_left(log: Sequence[Numbered], at: datetime) -> float:
    """Return the seconds left to answer with a Message under `reply: auto`; negative if it is too late."""
    first = log[0].event if log else None
    if not isinstance(first, Task):
        return -QUICK_SECONDS
    return QUICK_SECONDS - (at - timestamps.timestamp_of(first.status)).total_seconds()


def may_be_message(log: Sequence[Numbered]) -> bool:
    """Return True if one Message can hold the log's content: at most one answer and nothing else."""
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
    """Return the Message that the client receives in place of the task; None if the client receives the task.

    The Message has the parts of the answer, then the parts of other artifacts. The answer's metadata overrides the
    task's metadata. The Message has a contextId and no taskId.
    """
    if REPLY not in task.metadata:
        return None
    answers = [artifact for artifact in task.artifacts if is_answer(artifact)]
    message = Message()
    message.CopyFrom(
        task.status.message if task.status.HasField("message") else as_message(answers[-1], task.id, task.context_id)
    )
    message.ClearField("task_id")
    for artifact in task.artifacts:
        if artifact not in answers:
            message.parts.extend(artifact.parts)
    if len(task.metadata) > 1:
        metadata = struct_pb2.Struct()
        metadata.CopyFrom(task.metadata)
        del metadata[REPLY]
        metadata.fields.MergeFrom(message.metadata.fields)
        message.metadata.CopyFrom(metadata)
    return message
