"""Message of an interrupted turn: one or several questions, and the schemas of their answers."""

from aion_core.agents.questions import Question, question_message
from aion_core.protocol.types import to_json

SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}}


def test_interrupt_metadata_contains_schema_of_answer() -> None:
    metadata = to_json(question_message([Question("i", "Which day?", schema=SCHEMA)]).metadata)
    assert metadata == {"interruptId": "i", "interrupts": [{"id": "i", "text": "Which day?", "schema": SCHEMA}]}


def test_interrupt_metadata_without_schema_contains_only_id() -> None:
    assert to_json(question_message([Question("i", "Which day?")]).metadata) == {"interruptId": "i"}
