"""Interrupts of an ADK turn: the question for the client, and the client's answer as ADK content.

ADK marks a function call as long-running if it waits for the user: a long-running tool, a tool confirmation or a
credential request. The call is pending until the session contains the user's response to it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.auth import AuthConfig, AuthCredential
from google.adk.auth.auth_tool import AuthToolArguments
from google.adk.events import Event
from google.adk.workflow._errors import WorkflowDataError
from google.adk.workflow.utils._rehydration_utils import _unwrap_response, _validate_resume_response
from google.genai import types as genai
from msgspec import Struct
from pydantic import ValidationError

from aion_core.agents.inbound import InvalidResumeInput, accepted_answers, interrupt_ids
from aion_core.agents.questions import Question, question_message
from aion_core.agents.readable_json import json_part
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

_YES = frozenset({"yes", "y", "ok", "okay", "confirm", "confirmed", "approve", "approved", "true"})
_NO = frozenset({"no", "n", "deny", "denied", "reject", "rejected", "false"})


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
    `tasks.resume_input`. Raises InvalidResumeInput if no answer has the right form.
    """
    answers, pending = parts_by_interrupt(request.message, interrupt_ids(question)), {each.id: each for each in calls}
    responses, rejection = accepted_answers(answers, pending, lambda each, parts: _response(_request(each.call), parts))
    branches: dict[str | None, list[genai.Part]] = {}
    for name, response in responses.items():
        answered = genai.FunctionResponse(id=name, name=pending[name].call.name, response=response)
        branches.setdefault(pending[name].event.branch, []).append(genai.Part(function_response=answered))
    return [genai.Content(role="user", parts=parts) for parts in branches.values()], rejection


def canceled_responses(events: Sequence[Event]) -> list[Event]:
    """Return events with the response "canceled" for each function call that a canceled or failed turn left open.

    Without these responses, models would reject the conversation, and the client can no longer answer these calls. A
    call to an agent in task mode stays open if that agent waits for the user's next message.
    """
    answered = {response.id for event in events for response in event.get_function_responses()}
    pending, waiting = {each.id for each in pending_calls(events)}, _waiting_tasks(events)
    responses = []
    for event in events:
        calls = [
            call for call in event.get_function_calls() if call.id and (call.id not in answered or call.id in pending)
        ]
        # Skip an event with a call to a waiting agent in task mode, because ADK starts the event's other agents in task
        # mode only after that agent.
        if calls and not waiting.intersection(call.id for call in calls):
            canceled = {"error": "canceled"}
            parts = [
                genai.Part(function_response=genai.FunctionResponse(id=call.id, name=call.name, response=canceled))
                for call in calls
            ]
            responses.append(
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
    return responses


def _waiting_tasks(events: Sequence[Event]) -> set[str | None]:
    """Return the ids of the calls to agents in task mode that wait for the user, directly or through an inner agent.

    ADK gives each event of such an agent the id of its call as `isolation_scope`. The agent waits for the user if its
    last event is a final response.
    """
    last = {event.isolation_scope: event for event in events if event.content is not None or event.error_code}
    waiting: set[str | None] = {
        scope
        for scope, event in last.items()
        if scope and event.author != "user" and event.content is not None and event.is_final_response()
    }
    while more := {
        scope
        for scope, event in last.items()
        if scope and scope not in waiting and waiting.intersection(call.id for call in event.get_function_calls())
    }:
        waiting |= more
    return waiting


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
            return _confirmation(call.args or {}, given)
        case "adk_request_credential":
            return _credential_response(call.args or {}, given)
        case "adk_request_input":
            return _input_response(call.args or {}, given)
        case _:
            return given if isinstance(given, dict) else {"result": given}


def _confirmation(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Convert the client's decision to ADK's ToolConfirmation, by default with the payload of the question."""
    wanted = _wanted_payload(args)
    payload = {} if wanted is None else {"payload": wanted}
    if isinstance(given, dict) and isinstance(given.get("confirmed"), bool):
        return {"confirmed": given["confirmed"], **({"payload": given["payload"]} if "payload" in given else payload)}
    word = given.strip().strip(".!").lower() if isinstance(given, str) else ""
    if word not in _YES | _NO:
        raise InvalidResumeInput('That is no decision. Answer yes or no, or send {"confirmed": true} as data.')
    return {"confirmed": word in _YES, **payload}


def _wanted_payload(args: Mapping[str, Any]) -> Any:
    """Return the payload in the confirmation that a tool requests, or None."""
    return (args.get("toolConfirmation") or {}).get("payload")


def _confirmation_schema(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a confirmation as data. The answer's payload defaults to the question's payload."""
    wanted = _wanted_payload(args)
    kinds: Mapping[type, Mapping[str, str]] = {dict: {"type": "object"}, list: {"type": "array"}}
    payload = {} if wanted is None else {"payload": {**kinds.get(type(wanted), {}), "default": wanted}}
    return {"type": "object", "properties": {"confirmed": {"type": "boolean"}, **payload}, "required": ["confirmed"]}


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
    schema = _confirmation_schema(args) if call.name == "adk_request_confirmation" else None
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
            return _credential_prompt(args)
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


# ── Credentials ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Neither a log record nor an error message may contain the user's credential.

_INVALID_CREDENTIAL = (
    "That is not a credential. Send the token or the key as text, the redirect address after signing in, or an "
    "AuthCredential as data."
)
_OAUTH2 = ("oauth2", "openIdConnect")


def _credential_prompt(args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the request for a credential: its text, and ADK's AuthConfig as data.

    ADK has already removed the agent's own secrets from the AuthConfig.
    """
    config = args.get("authConfig") or {}
    address = ((config.get("exchangedAuthCredential") or {}).get("oauth2") or {}).get("authUri")
    text = (
        f"Sign in at {address}, then send the address that you are sent back to."
        if address
        else "A credential is needed: send it."
    )
    return text, {"authConfig": config}


def _credential_response(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Convert the client's answer to ADK's AuthConfig. Raises InvalidResumeInput, without quoting the answer."""
    try:
        wanted = AuthToolArguments.model_validate(args).auth_config
        if isinstance(given, Mapping) and {"exchangedAuthCredential", "exchanged_auth_credential"} & given.keys():
            config = AuthConfig.model_validate(given)
        else:
            config = wanted.model_copy(deep=True)
            config.exchanged_auth_credential = AuthCredential.model_validate(_credential(wanted, given))
    except (ValidationError, TypeError, AttributeError) as error:
        raise InvalidResumeInput(_INVALID_CREDENTIAL) from error
    if config.exchanged_auth_credential is None:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


def _credential(wanted: AuthConfig, given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        if {"authType", "auth_type"} & given.keys():
            return dict(given)
        fields = dict(given)
    elif isinstance(given, str) and given.strip():
        fields = {}
    else:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    kind = str(getattr(wanted.auth_scheme.type_, "value", wanted.auth_scheme.type_))
    if kind in _OAUTH2:
        requested = wanted.exchanged_auth_credential or wanted.raw_auth_credential
        known = requested.oauth2.model_dump(by_alias=True, exclude_none=True) if requested and requested.oauth2 else {}
        if isinstance(given, str):
            text = given.strip()
            fields = {"authResponseUri": text} if "://" in text else {"accessToken": text}
        return {"authType": kind, "oauth2": {**known, **fields}}
    value = given if isinstance(given, str) else next(iter(fields.values()), None)
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    if kind == "apiKey":
        return {"authType": "apiKey", "apiKey": text}
    scheme = getattr(wanted.auth_scheme, "scheme", "bearer")
    return {"authType": "http", "http": {"scheme": scheme, "credentials": {"token": text}}}
