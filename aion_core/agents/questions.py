"""Message of an interrupted turn: the question of each interrupt with its id, text, data and form of the answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from aion_core.protocol.interrupts import INTERRUPT_ID, INTERRUPTS, OpenQuestion
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Message, Part, Role


class Question(Struct, frozen=True):
    """Question that an interrupt asks the client."""

    id: str
    """Id of the interrupt. The answer names it as `interruptId`."""
    text: str
    details: Sequence[Part] = ()
    """Parts after the text, such as a data part with a tool's arguments or the options, or files."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of an answer as data; None if any answer is accepted."""
    choices: Sequence[Any] = ()
    """Answers to choose from: texts, or other JSON values. Other answers may be accepted too."""


def question_message(questions: Sequence[Question], *, error: str = "") -> Message:
    """Return the status message with the questions in order, after `error`, the reason for refusing an answer.

    `metadata.interruptId` is the id of the first interrupt. If there are several, the metadata of each part has the id
    of its interrupt. `metadata.interrupts` lists id, text, schema and choices of each interrupt if there are several or
    if one has a schema or choices: `aion_core.protocol.interrupts.questions_of` reads them.
    """
    message = Message(role=Role.ROLE_AGENT, parts=[Part(text=error)] if error else [])
    for question in questions:
        texts = [Part(text=utf8(question.text))] if question.text or not question.details else []
        parts = [*texts, *question.details]
        for part in parts if len(questions) > 1 else ():
            part.metadata.update({INTERRUPT_ID: question.id})
        message.parts.extend(parts)
    message.metadata.update({INTERRUPT_ID: questions[0].id})
    if len(questions) > 1 or questions[0].schema or questions[0].choices:
        message.metadata.update({INTERRUPTS: [_listed(question) for question in questions]})
    return message


def _listed(question: Question) -> dict[str, Any]:
    asked = OpenQuestion(question.id, utf8(question.text), question.schema or {}, question.choices)
    return {"text": "", **asked.document()}
