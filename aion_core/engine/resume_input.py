"""Interrupts of a task, and the check of client messages to resume it. Pure.

If a task has several interrupts, an answer must name its interrupt. One message may answer several interrupts: each part
names its interrupt in its own `metadata.interruptId`. See `aion_core.protocol.interrupts` for the questions.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from aion_core.engine.task import states
from aion_core.errors import InvalidMessage, TaskFinished
from aion_core.protocol.aion.extensions import SOURCE_SCHEMA
from aion_core.protocol.aion.inbound import schemas_of
from aion_core.protocol.interrupts import (
    INTERRUPT_ID,
    input_not_required,
    interrupt_id_of,
    names_interrupt,
    questions_of,
)
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Part, Task

_ANSWERS, _FILES = ("text", "data"), ("raw", "url")
"""Kinds of parts that answer an interrupt. Files beside a text or data are not the answer."""


def check_resume_input(task: Task, message: Message) -> None:
    """Check that the message can resume the interrupted task. A running task accepts any message without interrupt id.

    Raises TaskFinished if the task has ended, InputNotRequired if the message names an interrupt of a running task or
    names no task, or InvalidMessage for a missing or wrong interrupt id.
    """
    if task.status.state in states.TERMINAL and message.task_id:
        raise TaskFinished(
            f"The task is {states.state_name(task.status.state)} and takes no more messages. "
            "Send the message without taskId, in the same context, to start a new task."
        )
    if task.status.state not in states.INTERRUPTED:
        if names_interrupt(message) or not message.task_id:
            raise input_not_required()
        return
    ids, named = interrupt_ids(task), interrupt_id_of(message)
    kinds = _ANSWERS if not has_only_files(message.parts) else _FILES
    fields = {"message": named}
    for index, part in enumerate(message.parts):
        field = f"message.parts[{index}]"
        fields[field] = interrupt_id_of(part)
        if part.WhichOneof("content") in kinds and len(ids) > 1 and not (named or fields[field]):
            raise InvalidMessage(
                f"The task has {len(ids)} interrupts. Set metadata.{INTERRUPT_ID} of the message, or of each part, to "
                f"the one that it answers: {', '.join(ids)}.",
                field=f"message.metadata.{INTERRUPT_ID}",
            )
    for field, name in fields.items():
        if name and ids and name not in ids:
            raise InvalidMessage(
                f"metadata.{INTERRUPT_ID} names no interrupt of this task. Its interrupts are {', '.join(ids)}.",
                field=f"{field}.metadata.{INTERRUPT_ID}",
            )


def interrupt_ids(task: Task) -> list[str]:
    """Return the ids of the task's interrupts, in the order of its status message."""
    message = task.status.message
    return [question.id for question in questions_of(message)] if INTERRUPT_ID in message.metadata.fields else []


def parts_by_interrupt(message: Message, ids: Sequence[str]) -> dict[str, list[Part]]:
    """Map each answered interrupt id to the parts that answer it.

    A part answers the interrupt in its own metadata, else the one in the message's metadata, else the only one in
    `ids`.
    """
    default = interrupt_id_of(message) or (ids[0] if len(ids) == 1 else "")
    parts: dict[str, list[Part]] = {}
    for part in message.parts:
        parts.setdefault(interrupt_id_of(part) or default, []).append(part)
    return {name: each for name, each in parts.items() if name}


def has_only_files(parts: Iterable[Part]) -> bool:
    """Return True if all parts are files."""
    return all(part.WhichOneof("content") in _FILES for part in parts)


def resume_value(parts: Sequence[Part]) -> Any:
    """Return the value of an answer: its text, or its data if it has no text, or else "".

    For an event of a network such as Slack, the data is its payload, such as the action on a card. The original event
    of the network is left out.
    """
    text = "".join(part.text for part in parts if part.WhichOneof("content") == "text")
    if text:
        return text
    data = [
        to_json(part.data)
        for part in parts
        if part.WhichOneof("content") == "data" and SOURCE_SCHEMA not in schemas_of(part)
    ]
    return data[0] if len(data) == 1 else data or ""
