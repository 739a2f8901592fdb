"""Which question a turn's message answers, and that it may not fit. Pure, and the same for both frameworks."""

from google.protobuf.json_format import MessageToDict

from aion_core.ports import Asked
from aion_core.protocol.types import Message, Role
from aion_core.tasks.questions import INTERRUPT_ID, INTERRUPTS

PAUSED = "pausedBefore"
"""The metadata key of the nodes before which a graph was compiled to pause."""


class Unfit(ValueError):
    """The answer is none that the question takes; the sentence says what would be."""


def asked_before(asked: Asked) -> Message | None:
    """Return the question that the turn's message answers, None where it is a message by itself."""
    said = asked.task.history
    place = next((n for n, message in enumerate(said) if message.message_id == asked.message.message_id), 0)
    before = said[place - 1] if place else None
    if before is None or before.role != Role.ROLE_AGENT:
        return None
    return before if {INTERRUPT_ID, PAUSED} & before.metadata.fields.keys() else None


def ids_of(question: Message | None) -> list[str]:
    """Return the ids of what was asked, in its order."""
    metadata = MessageToDict(question.metadata) if question is not None else {}
    listed = metadata.get(INTERRUPTS) or [{"id": metadata.get(INTERRUPT_ID)}]
    return [str(each["id"]) for each in listed if each["id"]]
