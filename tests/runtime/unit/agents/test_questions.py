"""Message of an interrupted turn: one or several questions, and the schemas of their answers."""

import pytest

from aion_core.agents.client_answers import InvalidResumeInput, accepted_answers
from aion_core.agents.questions import Question, question_message
from aion_core.protocol.message_json import to_json

SCHEMA = {"type": "object", "properties": {"day": {"type": "string"}}}


def test_interrupt_metadata_contains_schema_of_answer() -> None:
    metadata = to_json(question_message([Question("i", "Which day?", schema=SCHEMA)]).metadata)
    assert metadata == {"interruptId": "i", "interrupts": [{"id": "i", "text": "Which day?", "schema": SCHEMA}]}


def test_interrupt_metadata_without_schema_contains_only_id() -> None:
    assert to_json(question_message([Question("i", "Which day?")]).metadata) == {"interruptId": "i"}


def _yes(interrupt: str, given: str) -> bool:
    if given != "yes":
        raise InvalidResumeInput(f"{given} to {interrupt}")
    return True


def test_accepted_answers_leave_invalid_one_out() -> None:
    assert accepted_answers({"i": "yes", "j": "no"}, {"i": "a", "j": "b", "k": "c"}, _yes) == ({"i": True}, "no to b")
    assert accepted_answers({"i": "yes"}, {"i": "a"}, _yes) == ({"i": True}, "")


def test_invalid_answer_is_refused_unless_earlier_try_accepted_another() -> None:
    with pytest.raises(InvalidResumeInput, match="no to b"):
        accepted_answers({"j": "no"}, {"i": "a", "j": "b"}, _yes)
    assert accepted_answers({"i": "yes", "j": "no"}, {"j": "b"}, _yes) == ({}, "no to b")
