"""A graph's interrupts as a question to the client, and the client's answer as what the graph resumes with."""

import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import ParseDict
from langgraph.types import Command, Interrupt

from aion_core.ports import Asked, Asks
from aion_core.protocol.types import Message, Part, Role
from aion_core.tasks.questions import INTERRUPT_ID, INTERRUPTS, answer_value, named_id


def question(interrupts: Sequence[Interrupt]) -> Asks:
    """Return the turn's end that shows all that is asked: a text for each, and what comes with it as data."""
    message = Message(role=Role.ROLE_AGENT)
    for interrupt in interrupts:
        text, data = _shown(interrupt.value)
        message.parts.append(Part(text=text))
        if data:
            message.parts.append(ParseDict({"data": _as_json(data)}, Part()))
    message.metadata.update({INTERRUPT_ID: interrupts[0].id})
    if len(interrupts) > 1:
        message.metadata.update({INTERRUPTS: [{"id": interrupt.id} for interrupt in interrupts]})
    return Asks(message)


def breakpoint_before(nodes: Sequence[str]) -> Asks:
    """Return the turn's end of a graph that was compiled to pause here: any answer lets it go on."""
    text = f"Paused before {', '.join(nodes)}. Answer to go on."
    return Asks(Message(role=Role.ROLE_AGENT, parts=[Part(text=text)]))


def resumption(asked: Asked, interrupts: Sequence[Interrupt]) -> Command[Any] | None:
    """Return the answer for the interrupt that it is for; None where that is no longer asked: the graph just goes on.

    Which interrupt a message answers was settled before the turn began (`tasks.questions`).
    """
    pending = {interrupt.id for interrupt in interrupts}
    named = named_id(asked.message) or (next(iter(pending)) if len(pending) == 1 else "")
    if named not in pending:
        return None
    return Command(resume={named: answer_value(asked.message)})


def _shown(value: Any) -> tuple[str, Any]:
    """Return a question as a text and, where more came with it, data: a string, `value["prompt"]`, or what it is."""
    if isinstance(value, str):
        return value, None
    if isinstance(value, dict) and isinstance(value.get("prompt"), str):
        return value["prompt"], {key: kept for key, kept in value.items() if key != "prompt"}
    return str(value), value if isinstance(value, dict | list) else None


def _as_json(data: Any) -> Any:
    """Return the data as JSON can say it: LangGraph takes any value for a question, A2A does not."""
    return json.loads(json.dumps(data, default=str), parse_constant=lambda constant: None)
