"""What an interrupted task asks, and whether a message answers it. Pure.

The question stands in the task's own status, whose message says by `metadata.interruptId` what is asked; where more
than one thing is, `metadata.interrupts` lists them, each with its `id`, and an answer has to name the one it is for.
"""

from typing import Any

from google.protobuf.json_format import MessageToDict

from aion_core.authoring.json_forms import with_integers
from aion_core.errors import InvalidMessage, TaskFinished
from aion_core.protocol.aion.extensions import SOURCE_SCHEMA, schemas_of
from aion_core.protocol.types import Message, Task
from aion_core.tasks import lifecycle

INTERRUPT_ID, INTERRUPTS = "interruptId", "interrupts"


def check_resume_input(task: Task, message: Message) -> None:
    """Refuse a message that cannot continue the task, before anything runs, and say what would.

    A task at work takes any message. Raises TaskFinished or InvalidMessage.
    """
    if task.status.state in lifecycle.TERMINAL:
        raise TaskFinished(
            f"The task is {lifecycle.state_name(task.status.state)} and takes no more messages. "
            "Send the message without taskId, in the same context, to start a new task."
        )
    if task.status.state not in lifecycle.INTERRUPTED:
        return
    if not any(part.WhichOneof("content") in ("text", "data") for part in message.parts):
        raise InvalidMessage(
            "The answer has neither text nor data: give it a part with one of them.", field="message.parts"
        )
    asked = interrupt_ids(task)
    named = interrupt_id_of(message)
    if named and asked and named not in asked:
        raise InvalidMessage(
            f"metadata.{INTERRUPT_ID} names no question of this task. It asks: {', '.join(asked)}.",
            field=f"message.metadata.{INTERRUPT_ID}",
        )
    if not named and len(asked) > 1:
        raise InvalidMessage(
            f"The task asks {len(asked)} questions. Say which one this answers: metadata.{INTERRUPT_ID} is one of "
            f"{', '.join(asked)}.",
            field=f"message.metadata.{INTERRUPT_ID}",
        )


def interrupt_ids(task: Task) -> list[str]:
    """Return the ids of what the task asks, in its order."""
    metadata = _metadata(task.status.message)
    listed = metadata.get(INTERRUPTS) or [{"id": metadata[INTERRUPT_ID]}] if INTERRUPT_ID in metadata else []
    return [str(question["id"]) for question in listed]


def interrupt_id_of(message: Message) -> str:
    """Return the id of the question that the message names, "" where it names none."""
    return str(_metadata(message).get(INTERRUPT_ID, ""))


def resume_value(message: Message) -> Any:
    """Return what the message answers: its text, or its data part where it has no text.

    Of an event that is its payload, such as a card's action; how the source network had it is no answer.
    """
    text = "".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    if text:
        return text
    data = [
        with_integers(MessageToDict(part.data))
        for part in message.parts
        if part.WhichOneof("content") == "data" and SOURCE_SCHEMA not in schemas_of(part)
    ]
    return data[0] if len(data) == 1 else data or ""


def _metadata(message: Message) -> dict[str, Any]:
    return MessageToDict(message.metadata)
