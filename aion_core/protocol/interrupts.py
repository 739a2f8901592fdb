"""Ids of interrupts in messages: which question a message asks or answers. Pure."""

from aion_core.errors import InputNotRequired
from aion_core.protocol.types import Message, Part

INTERRUPT_ID = "interruptId"
"""Key in the metadata of a message or part. Its value is the id of the interrupt that it asks or answers."""


def interrupt_id_of(named: Message | Part) -> str:
    """Return the interrupt id from the metadata of a message or part; "" if it is missing or null."""
    name = named.metadata[INTERRUPT_ID] if INTERRUPT_ID in named.metadata.fields else None
    return "" if name is None else str(name)


def names_interrupt(message: Message) -> bool:
    """Return True if the message or one of its parts has an interrupt id: it answers a question."""
    return bool(interrupt_id_of(message)) or any(map(interrupt_id_of, message.parts))


def input_not_required() -> InputNotRequired:
    """Return the error for a message that names an interrupt, although none waits for an answer."""
    return InputNotRequired(
        f"No question waits for an answer now: it may have been answered already. GetTask returns the task's state. Send "
        f"the message without metadata.{INTERRUPT_ID} if it answers no question."
    )
