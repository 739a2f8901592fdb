"""Questions that ADK's pending function calls ask the client."""

import json
from typing import Any

from google.genai import types as genai

from aion_core.agents.adk.approvals import confirmation_schema
from aion_core.agents.adk.credentials import credential_prompt
from aion_core.agents.adk.pending_calls import (
    CONFIRMATION,
    CREDENTIAL,
    INPUT,
    REMOTE_CREDENTIAL,
    REMOTE_INPUT,
    PendingCall,
)
from aion_core.agents.adk.waits.pauses import FRAMEWORK
from aion_core.agents.call_text import call_text
from aion_core.agents.expected_answers import ExpectedAnswer, expected_answer
from aion_core.agents.plain_json import json_part
from aion_core.agents.questions import Question
from aion_core.authoring.a2a_objects import message_of

_DEFAULT_HINT = "Please approve or reject the tool call "
"""Beginning of ADK's default confirmation hint. The hint names ADK's types, so users do not see it."""

_AN_ANSWER = "An answer is needed."

_QUESTIONS = ("prompt", "question", "input_required", "auth_required")
"""Arguments that contain the text of a call's question. A RemoteA2aAgent uses the last two for a remote question."""


def question_of(pending: PendingCall) -> Question:
    """Return what a pending function call asks the client: its id, a text, data, and the form of the answer."""
    call = pending.request()
    if call.name == FRAMEWORK:
        return _remote_question(pending.id, call.args or {})
    text, data = _prompt(call, pending)
    form = _form(call)
    return Question(pending.id, text, [json_part(data)] if data else (), form.schema, form.choices)


def _remote_question(name: str, args: dict[str, Any]) -> Question:
    """Return the question of a remote agent that a tool has called."""
    text = next((str(args[key]) for key in _QUESTIONS if args.get(key)), "")
    asked = message_of(args["message"]).parts if args.get("message") else ()
    return Question(name, text, list(asked), args.get("schema") or None, args.get("choices") or ())


def _form(call: genai.FunctionCall) -> ExpectedAnswer:
    args = call.args or {}
    match call.name:
        case "adk_request_confirmation":
            return expected_answer(None, confirmation_schema(args))
        case "adk_request_input":
            return expected_answer(args.get("payload"), args.get("responseSchema") or args.get("response_schema"))
        case _:
            return ExpectedAnswer()


def _prompt(call: genai.FunctionCall, pending: PendingCall) -> tuple[str, dict[str, Any]]:
    """Return the text and the data of the question that a pending call asks the client."""
    args = call.args or {}
    if call.name == CONFIRMATION:
        return _confirmation_prompt(args)
    if call.name == CREDENTIAL:
        return credential_prompt(args)
    if call.name == INPUT:
        data = {key: args[key] for key in ("payload", "responseSchema", "response_schema") if args.get(key)}
        return str(args.get("message") or _AN_ANSWER), data
    own = next((args[key] for key in _QUESTIONS if isinstance(args.get(key), str)), "")
    if call.name in (REMOTE_INPUT, REMOTE_CREDENTIAL):
        return own or _AN_ANSWER, {}
    text = own or f"{call_text(call.name, args)} waits for its result."
    if pending.first_result is None:
        return text, {"name": call.name, "args": args}
    result = json.dumps(pending.first_result, default=str, ensure_ascii=False)
    return f"{text} So far: {result}", {"name": call.name, "args": args, "response": pending.first_result}


def _confirmation_prompt(args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    original, wanted = args.get("originalFunctionCall") or {}, args.get("toolConfirmation") or {}
    data: dict[str, Any] = {"name": original.get("name"), "args": original.get("args") or {}}
    if wanted.get("payload") is not None:
        data["payload"] = wanted["payload"]
    text = f"May the agent call {call_text(data['name'], data['args'])}? Answer yes or no."
    hint = str(wanted.get("hint") or "")
    return "\n".join(filter(None, ["" if hint.startswith(_DEFAULT_HINT) else hint, text])), data
