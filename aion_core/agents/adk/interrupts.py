"""Interrupts of an ADK turn: the question for the client, and the client's answer as ADK content.

ADK marks a function call as long-running if it waits for the user: a long-running tool, a tool confirmation or a
credential request. The call is pending until the session contains the user's response to it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events import Event
from google.adk.workflow._errors import WorkflowDataError
from google.adk.workflow.utils._rehydration_utils import _unwrap_response, _validate_resume_response
from google.genai import types as genai
from msgspec import Struct

from aion_core.agents.adk.approvals import confirmation_response, confirmation_schema
from aion_core.agents.adk.credentials import credential_prompt, credential_response
from aion_core.agents.client_answers import InvalidResumeInput, accepted_answers, interrupt_ids
from aion_core.agents.plain_json import json_part
from aion_core.agents.questions import Question, question_message
from aion_core.engine.agent import InputRequired, TurnRequest
from aion_core.engine.resume_input import has_only_files, parts_by_interrupt, resume_value
from aion_core.protocol.types import Message, Part, TaskState

CREDENTIAL = "adk_request_credential"
ABORTED = "INVOCATION_ABORTED"
"""ADK's error code of an event that answers the calls of an abandoned invocation."""

NODE_CONFIRMATION = "wf_tool_confirmation:"
"""Beginning of the id of a `RequestInput` by which ADK requests the confirmation of a workflow node."""

REMOTE_CREDENTIAL = "mock_function_call_for_required_user_auth"
"""Name of the call by which ADK's RemoteA2aAgent passes on a remote agent's request for a credential."""

_DEFAULT_HINT = "Please approve or reject the tool call "
"""Beginning of ADK's default confirmation hint. The hint names ADK's types, so users do not see it."""


class PendingCall(Struct, frozen=True):
    """Long-running function call to which the user has not responded, with the session event that contains the call."""

    call: genai.FunctionCall
    event: Event

    @property
    def id(self) -> str:
        """Id of the function call. A client's answer names it as `interruptId`."""
        return self.call.id or ""


def pending_calls(events: Sequence[Event]) -> list[PendingCall]:
    """Return a session's long-running calls to which the user has not responded, oldest first."""
    pending: dict[str, PendingCall] = {}
    for event in events:
        for call in event.get_function_calls():
            if call.id and call.id in (event.long_running_tool_ids or ()):
                pending[call.id] = PendingCall(call, event)
        if event.author == "user" or event.error_code == ABORTED:
            for response in event.get_function_responses():
                pending.pop(response.id or "", None)
    return list(pending.values())


def input_required(calls: Sequence[PendingCall], *, error: str = "") -> InputRequired:
    """Return the end of a turn: a message with the question of every pending call, as text and data.

    The message begins with `error`, the reason for refusing the client's earlier answer, if there is one.
    """
    message = question_message([_question(each) for each in calls], error=error)
    wants_credential = any(each.call.name in (CREDENTIAL, REMOTE_CREDENTIAL) for each in calls)
    return InputRequired(
        message, TaskState.TASK_STATE_AUTH_REQUIRED if wants_credential else TaskState.TASK_STATE_INPUT_REQUIRED
    )


def resume_contents(
    request: TurnRequest, question: Message, calls: Sequence[PendingCall]
) -> tuple[list[genai.Content], str]:
    """Return the accepted answers as ADK contents, one per branch, and the reason for refusing the others.

    There are no contents if the answered calls are no longer pending. Each branch needs its own content, because ADK
    stores a content only in the branch of its first call. Ambiguous answers were refused before the turn, by
    `engine.resume_input`. Raises InvalidResumeInput if no answer has the right form.
    """
    answers, pending = parts_by_interrupt(request.message, interrupt_ids(question)), {each.id: each for each in calls}
    responses, rejection = accepted_answers(answers, pending, lambda each, parts: _response(_request(each.call), parts))
    branches: dict[str | None, list[genai.Part]] = {}
    for name, response in responses.items():
        answered = genai.FunctionResponse(id=name, name=pending[name].call.name, response=response)
        branches.setdefault(pending[name].event.branch, []).append(genai.Part(function_response=answered))
    return [genai.Content(role="user", parts=parts) for parts in branches.values()], rejection


def _request(call: genai.FunctionCall) -> genai.FunctionCall:
    """Return the call; convert a workflow node's request for confirmation to the form of a tool's request."""
    if not (call.id or "").startswith(NODE_CONFIRMATION):
        return call
    args = call.args or {}
    payload = args.get("payload") or {}
    wanted = {"hint": args.get("message"), "payload": payload.get("confirmation_payload")}
    original = {"name": payload.get("tool_name"), "args": _without_none(payload.get("args"))}
    confirmation = {"originalFunctionCall": original, "toolConfirmation": wanted}
    return genai.FunctionCall(id=call.id, name="adk_request_confirmation", args=confirmation)


def _without_none(value: Any) -> Any:
    """Return the value without None in its dicts. Most fields of a Content, the input of a first node, are None."""
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _response(call: genai.FunctionCall, parts: Sequence[Part]) -> dict[str, Any]:
    if has_only_files(parts):
        # Refuse the answer: many models accept no file as the result of a call, and each later turn would send it again.
        raise InvalidResumeInput("A file alone is no answer. Send a text or data.")
    given = resume_value(parts)
    match call.name:
        case "adk_request_confirmation":
            return confirmation_response(call.args or {}, given)
        case "adk_request_credential":
            return credential_response(call.args or {}, given)
        case "adk_request_input":
            return _input_response(call.args or {}, given)
        case _:
            return given if isinstance(given, dict) else {"result": given}


def _input_response(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Convert the client's answer to a `RequestInput`. Raises InvalidResumeInput if it does not fit the schema.

    Without this check, such an answer would make the turn fail in ADK. ADK parses a text as JSON where possible. If the
    schema requires a text, an answer such as `42` is quoted, so that it stays a text.
    """
    schema = args.get("response_schema")
    response = given if isinstance(given, dict) else {"result": given}
    quoted = [{"result": json.dumps(given)}] if isinstance(given, str) else []
    for each in [response, *quoted]:
        try:
            _validate_resume_response(_unwrap_response(each), schema)
        except WorkflowDataError:
            continue
        return each
    raise InvalidResumeInput("The answer does not fit its schema. Send it as data, or as JSON text.")


def _question(pending: PendingCall) -> Question:
    """Return what a pending function call asks the client: its id, a text, data, and the schema of the answer."""
    call = _request(pending.call)
    text, data = _prompt(call)
    args = call.args or {}
    schema = confirmation_schema(args) if call.name == "adk_request_confirmation" else None
    if call.name == "adk_request_input":
        schema = args.get("responseSchema") or args.get("response_schema")
    return Question(pending.id, text, [json_part(data)] if data else (), schema)


def _prompt(call: genai.FunctionCall) -> tuple[str, dict[str, Any]]:
    """Return the text and the data of the question that a pending call asks the client."""
    args = call.args or {}
    match call.name:
        case "adk_request_confirmation":
            original, wanted = args.get("originalFunctionCall") or {}, args.get("toolConfirmation") or {}
            data: dict[str, Any] = {"name": original.get("name"), "args": original.get("args") or {}}
            if wanted.get("payload") is not None:
                data["payload"] = wanted["payload"]
            text = f"May the agent call {_call_text(data['name'], data['args'])}? Answer yes or no."
            hint = str(wanted.get("hint") or "")
            return "\n".join(filter(None, ["" if hint.startswith(_DEFAULT_HINT) else hint, text])), data
        case "adk_request_credential":
            return credential_prompt(args)
        case "adk_request_input":
            data = {key: args[key] for key in ("payload", "responseSchema", "response_schema") if args.get(key)}
            return str(args.get("message") or "An answer is needed."), data
        case _:
            own = next((args[key] for key in _QUESTIONS if isinstance(args.get(key), str)), "")
            return own or f"{_call_text(call.name, args)} waits for its result.", {"name": call.name, "args": args}


_QUESTIONS = ("prompt", "question", "input_required", "auth_required")
"""Arguments that contain the text of a call's question. A RemoteA2aAgent uses the last two for a remote question."""


def _call_text(name: Any, args: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={json.dumps(value, default=str)}' for key, value in args.items())})"
