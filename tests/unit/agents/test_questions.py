"""Message of an interrupted turn: one or several questions, and the schemas of their answers."""

from aion_core.agents.questions import Question, question_message
from aion_core.protocol.types import to_json

SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}}


def test_metadata_of_question_with_schema_contains_schema() -> None:
    metadata = to_json(question_message([Question("i", "Which day?", schema=SCHEMA)]).metadata)
    assert metadata == {"interruptId": "i", "interrupts": [{"id": "i", "text": "Which day?", "schema": SCHEMA}]}


def test_metadata_of_question_without_schema_contains_only_id() -> None:
    assert to_json(question_message([Question("i", "Which day?")]).metadata) == {"interruptId": "i"}
