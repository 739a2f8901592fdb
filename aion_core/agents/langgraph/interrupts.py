"""A graph's interrupts as a question to the client, and the client's answer as what the graph resumes with."""

import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import ParseDict
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt
from pydantic import ValidationError

from aion_core.agents.asked import PAUSED, ids_of
from aion_core.agents.langgraph.reviews import review_of
from aion_core.ports import Asked, Asks
from aion_core.protocol.types import Message, Part, Role
from aion_core.tasks.questions import INTERRUPT_ID, INTERRUPTS, answer_value, named_id


def question(interrupts: Sequence[Interrupt], *, unfit: str = "") -> Asks:
    """Return the turn's end that shows all that is asked: a text for each, and what comes with it as data.

    `unfit` is what was wrong with an answer: it is said first, and everything is asked again.
    """
    message = Message(role=Role.ROLE_AGENT, parts=[Part(text=unfit)] if unfit else [])
    for interrupt in interrupts:
        text, data = _shown(interrupt)
        message.parts.append(Part(text=text))
        if data:
            message.parts.append(ParseDict({"data": _as_json(data)}, Part()))
    message.metadata.update({INTERRUPT_ID: interrupts[0].id})
    if len(interrupts) > 1:
        message.metadata.update({INTERRUPTS: [{"id": interrupt.id} for interrupt in interrupts]})
    return Asks(message)


def breakpoint_before(nodes: Sequence[str]) -> Asks:
    """Return the turn's end of a graph that was compiled to pause here: any answer lets it go on."""
    text = f"Paused before {', '.join(nodes)}. Any answer lets it go on; cancel the task to stop."
    return Asks(Message(role=Role.ROLE_AGENT, parts=[Part(text=text)], metadata={PAUSED: list(nodes)}))


def resumption(asked: Asked, question: Message, pending: Sequence[Interrupt]) -> Command[Any] | None:
    """Return the answer for the interrupt that it is for; None where that is no longer asked: the graph just goes on.

    Which interrupt a message answers was settled before the turn began (`tasks.questions`): the one it names, or the
    one that was asked. What is pending now may be a later question, where this turn has been begun before.

    Raises Unfit where the question does not take such an answer.
    """
    was_asked = ids_of(question)
    named = named_id(asked.message) or (was_asked[0] if len(was_asked) == 1 else "")
    interrupt = next((each for each in pending if each.id == named), None)
    if interrupt is None:
        return None
    answer, review = answer_value(asked.message), review_of(interrupt)
    return Command(resume={named: review.decided(answer) if review is not None else answer})


def unfit_by_schema(error: Exception) -> str:
    """Return why the question's own schema refuses the answer, "" where that is not what the error is about."""
    if not isinstance(error, ValidationError) or not is_invalid_resume(error):
        return ""
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    return f"The answer does not fit the question{f', in {where}' if where else ''}: {first['msg']}."


def _shown(interrupt: Interrupt) -> tuple[str, Any]:
    """Return a question as a text and, where more came with it, data: a string, `value["prompt"]`, or what it is."""
    value, review = interrupt.value, review_of(interrupt)
    if review is not None:
        return review.text(), value
    if isinstance(value, str):
        return value, None
    if isinstance(value, dict) and isinstance(value.get("prompt"), str):
        return value["prompt"], {key: kept for key, kept in value.items() if key != "prompt"}
    if isinstance(value, dict | list):
        return json.dumps(_as_json(value), ensure_ascii=False), value
    return str(value), None


def _as_json(data: Any) -> Any:
    """Return the data as JSON can say it: LangGraph takes any value for a question, A2A does not."""
    return json.loads(json.dumps(data, default=str), parse_constant=lambda constant: None)
