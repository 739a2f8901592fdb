"""What an invocation waits for, as a question to the client, and the client's answer as ADK takes it.

ADK marks a call that waits for somebody as long-running: a tool of that kind, a call that has to be confirmed, a
credential that is wanted. It is open until a user's response to it lies in the session.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events import Event
from google.genai import types as genai

from aion_core.agents.adk import credentials
from aion_core.agents.adk.parts import data_part
from aion_core.agents.inbound import InvalidResumeInput, ids_of
from aion_core.ports import InputRequired, TurnRequest
from aion_core.protocol.types import Message, Part, Role, TaskState
from aion_core.tasks.resume_input import INTERRUPT_ID, INTERRUPTS, interrupt_id_of, resume_value

CREDENTIAL = "adk_request_credential"
ABORTED = "INVOCATION_ABORTED"
"""ADK's error code of an event that answers the calls of an invocation that nobody goes on with."""

_DEFAULT_HINT = "Please approve or reject the tool call "
"""What ADK says where the tool's author says nothing: it speaks of its own types, to a developer."""

_YES = frozenset({"yes", "y", "ok", "okay", "confirm", "confirmed", "approve", "approved", "true"})
_NO = frozenset({"no", "n", "deny", "denied", "reject", "rejected", "false"})


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for the user."""

    call: genai.FunctionCall
    event: Event

    @property
    def id(self) -> str:
        """The call's id, which an answer names."""
        return self.call.id or ""


def pending(events: Sequence[Event]) -> list[Question]:
    """Return what the events have asked and no user has answered, in the order of the asking."""
    asked: dict[str, Question] = {}
    for event in events:
        for call in event.get_function_calls():
            if call.id and call.id in (event.long_running_tool_ids or ()):
                asked[call.id] = Question(call, event)
        if event.author == "user" or event.error_code == ABORTED:
            for response in event.get_function_responses():
                asked.pop(response.id or "", None)
    return list(asked.values())


def question(questions: Sequence[Question], *, unfit: str = "") -> InputRequired:
    """Return the turn's end that shows all that is asked: a text for each, and what comes with it as data.

    `unfit` is what was wrong with an answer: it is said first, and everything is asked again.
    """
    message = Message(role=Role.ROLE_AGENT, parts=[Part(text=unfit)] if unfit else [])
    for each in questions:
        text, data = _shown(each.call)
        message.parts.append(Part(text=text))
        if data:
            message.parts.append(data_part(data))
    message.metadata.update({INTERRUPT_ID: questions[0].id})
    if len(questions) > 1:
        message.metadata.update({INTERRUPTS: [{"id": each.id} for each in questions]})
    wants_credential = any(each.call.name == CREDENTIAL for each in questions)
    return InputRequired(
        message, TaskState.TASK_STATE_AUTH_REQUIRED if wants_credential else TaskState.TASK_STATE_INPUT_REQUIRED
    )


def answer(asked: TurnRequest, asking: Message, questions: Sequence[Question]) -> genai.Content | None:
    """Return the answer as what ADK resumes with; None where its question is no longer asked.

    Which question a message answers was settled before the turn began (`tasks.questions`): the one it names, or the one
    that was asked. Raises Unfit where the question does not take such an answer.
    """
    was_asked = ids_of(asking)
    named = interrupt_id_of(asked.message) or (was_asked[0] if len(was_asked) == 1 else "")
    found = next((each for each in questions if each.id == named), None)
    if found is None:
        return None
    response = _response(found.call, resume_value(asked.message))
    given = genai.FunctionResponse(id=found.id, name=found.call.name, response=response)
    return genai.Content(role="user", parts=[genai.Part(function_response=given)])


def sealing(events: Sequence[Event]) -> list[Event]:
    """Return what answers the calls that an earlier turn left open, because it was canceled or failed: "canceled".

    A model takes no conversation with an open call; and what was asked then is not to be answered now.
    """
    answered = {response.id for event in events for response in event.get_function_responses()}
    asks = {each.id for each in pending(events)}
    seals = []
    for event in events:
        calls = [
            call for call in event.get_function_calls() if call.id and (call.id not in answered or call.id in asks)
        ]
        if calls:
            parts = [
                genai.Part(
                    function_response=genai.FunctionResponse(id=call.id, name=call.name, response={"error": "canceled"})
                )
                for call in calls
            ]
            seals.append(
                Event(
                    invocation_id=event.invocation_id,
                    author=event.author,
                    branch=event.branch,
                    isolation_scope=event.isolation_scope,
                    content=genai.Content(role="user", parts=parts),
                    error_code=ABORTED,
                    error_message="canceled",
                )
            )
    return seals


def _response(call: genai.FunctionCall, given: Any) -> dict[str, Any]:
    match call.name:
        case "adk_request_confirmation":
            return _confirmed(given)
        case "adk_request_credential":
            return credentials.response(call.args or {}, given)
        case _:
            return given if isinstance(given, dict) else {"result": given}


def _confirmed(given: Any) -> dict[str, Any]:
    if isinstance(given, dict) and isinstance(given.get("confirmed"), bool):
        return {"confirmed": given["confirmed"], **({"payload": given["payload"]} if "payload" in given else {})}
    word = given.strip().strip(".!").lower() if isinstance(given, str) else ""
    if word not in _YES | _NO:
        raise InvalidResumeInput('That is no decision. Answer yes or no, or send {"confirmed": true} as data.')
    return {"confirmed": word in _YES}


def _shown(call: genai.FunctionCall) -> tuple[str, dict[str, Any]]:
    """Return a question in words, and as data."""
    args = call.args or {}
    match call.name:
        case "adk_request_confirmation":
            original, wanted = args.get("originalFunctionCall") or {}, args.get("toolConfirmation") or {}
            shown: dict[str, Any] = {"name": original.get("name"), "args": original.get("args") or {}}
            if wanted.get("payload") is not None:
                shown["payload"] = wanted["payload"]
            text = f"May the agent call {_call(shown['name'], shown['args'])}? Answer yes or no."
            hint = str(wanted.get("hint") or "")
            return "\n".join(filter(None, ["" if hint.startswith(_DEFAULT_HINT) else hint, text])), shown
        case "adk_request_credential":
            return credentials.shown(args)
        case "adk_request_input":
            wanted = {key: args[key] for key in ("payload", "responseSchema", "response_schema") if args.get(key)}
            return str(args.get("message") or "An answer is needed."), wanted
        case _:
            own = next((args[key] for key in ("prompt", "question") if isinstance(args.get(key), str)), "")
            return own or f"{_call(call.name, args)} waits for its result.", {"name": call.name, "args": args}


def _call(name: Any, args: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={json.dumps(value, default=str)}' for key, value in args.items())})"
