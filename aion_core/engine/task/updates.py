"""Status updates that the engine itself records: a turn begins, a client cancels. Pure."""

from datetime import datetime

from uuid_utils import uuid7

from aion_core.engine.records import Head
from aion_core.engine.task import timestamps
from aion_core.protocol.types import Message, Part, Role, TaskState, TaskStatusUpdateEvent


def working_event(head: Head, at: datetime) -> TaskStatusUpdateEvent:
    """Return the status event that sets a task to working when a message is recorded."""
    return TaskStatusUpdateEvent(
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        status=timestamps.status_at(TaskState.TASK_STATE_WORKING, at),
    )


def canceled(head: Head, at: datetime, reason: str) -> TaskStatusUpdateEvent:
    """Return the status event that cancels a task. Its message has the reason."""
    message = Message(
        message_id=str(uuid7()),
        role=Role.ROLE_AGENT,
        task_id=head.key.task_id,
        context_id=head.context.context_id,
        parts=[Part(text=reason)],
    )
    status = timestamps.status_at(TaskState.TASK_STATE_CANCELED, at)
    status.message.CopyFrom(message)
    return TaskStatusUpdateEvent(task_id=message.task_id, context_id=message.context_id, status=status)
