"""Repeats of a message: the same messageId with the same content returns the first task. Pure."""

import hashlib

from msgspec import Struct

from aion_core.engine.outcomes import Duplicate
from aion_core.engine.records import Log
from aion_core.errors import MessageIdReused
from aion_core.protocol.types import Message, Role, Task
from aion_core.table import keys
from aion_core.table.conditions import Absent, AtMost, Either
from aion_core.table.item import Key
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import Times
from aion_core.table.writes import Put


class KnownMessage(Struct, frozen=True):
    """Record of a stored message id or idempotency key: its task and a hash of its content."""

    task_id: str
    content_hash: bytes

    def repeated(self, content_hash: bytes) -> Duplicate:
        """Return the Duplicate outcome if this hash equals the stored one; otherwise raise MessageIdReused."""
        return repeat_of(content_hash, self.task_id, self.content_hash)


def content_hash(message: Message) -> bytes:
    """Return a hash of a message's parts, role, taskId, references and extensions, to recognise repeats."""
    content = Message(
        role=message.role,
        task_id=message.task_id,
        parts=message.parts,
        extensions=message.extensions,
        reference_task_ids=message.reference_task_ids,
    )
    return hashlib.sha256(content.SerializeToString(deterministic=True)).digest()


def holds_message(task: Task, message: Message) -> bool:
    """Return True if the task's history has the message. The stored message key expires before the history.

    Raises MessageIdReused if the history has another message with this id.
    """
    held = next((each for each in task.history if each.message_id == message.message_id), None)
    if held is None or held.role != Role.ROLE_USER:
        return False
    # Compare with the taskId of the message, because the message may omit it and the history always has it.
    as_sent = Message()
    as_sent.CopyFrom(held)
    as_sent.task_id = message.task_id
    repeat_of(content_hash(message), task.id, content_hash(as_sent))
    return True


def repeated_at(message: Message, log: Log) -> int:
    """Return the number of the event that recorded a repeated message; 0 for the message that created the task.

    A stream after this event omits earlier questions: the client would ask its user again. If the log begins with a
    snapshot that holds the message, return the snapshot's number. A message that still waits for its turn is not
    recorded: return the number of the last event.
    """
    for each in log.events:
        held = [each.message] if each.message else each.event.history if isinstance(each.event, Task) else []
        if each.generation > 1 and any(one.message_id == message.message_id for one in held):
            return each.generation
    return log.head.generation if message.task_id else 0


def repeat_of(content_hash: bytes, task_id: str, known_hash: bytes) -> Duplicate:
    """Return the Duplicate outcome for a repeated message. Raises MessageIdReused if its content has changed."""
    if content_hash != known_hash:
        raise MessageIdReused(
            "This messageId or Idempotency-Key was used with different content. Use a new one for the new message."
        )
    return Duplicate(task_id)


def message_row(key: Key, task: TaskKey, content_hash: bytes, times: Times) -> Put:
    """Return the write of a message's record. The table refuses it if the record exists and has not expired."""
    # Allow the write to replace an expired record, because DynamoDB deletes expired items late.
    only_if = Either((Absent(), AtMost("expires", times.seconds)))
    return Put(key, {"task_id": task.task_id, "content_hash": content_hash, **times.stamp(task.owner)}, only_if)


def message_keys_of(context: ContextKey, message_id: str, idempotency_key: str) -> list[Key]:
    """Return the keys of a message's records: by messageId and, if it has one, by Idempotency-Key."""
    first = [keys.idempotency_key(context.owner, context.agent, idempotency_key)] if idempotency_key else []
    return [*first, keys.message_key(context, message_id)]
