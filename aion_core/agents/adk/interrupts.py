"""Interrupts of an ADK turn: the question for the client, and the client's answer as ADK content."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events import Event
from google.adk.workflow._errors import WorkflowDataError
from google.adk.workflow.utils._rehydration_utils import _unwrap_response, _validate_resume_response
from google.genai import types as genai
from msgspec import Struct

from aion_core.agents.adk.approvals import confirmation_response
from aion_core.agents.adk.call_questions import question_of
from aion_core.agents.adk.credentials import credential_response, node_refusal, refusal_of
from aion_core.agents.adk.pending_calls import CREDENTIAL, REMOTE_CREDENTIAL, PendingCall, refused_credential
from aion_core.agents.adk.waits.tool_calls import asks_authorization
from aion_core.agents.client_answers import InvalidResumeInput, accepted_answers, interrupt_ids
from aion_core.agents.expected_answers import expected_answer, unwrapped
from aion_core.agents.questions import question_message
from aion_core.engine.agent import InputRequired, TurnRequest
from aion_core.engine.resume_input import has_only_files, parts_by_interrupt, resume_value
from aion_core.protocol.types import Message, Part, TaskState


class Answers(Struct, frozen=True):
    """Client's answers to pending calls, for ADK."""

    contents: Sequence[genai.Content] = ()
    """The accepted answers, one content per branch. There are none if the answered calls are no longer pending."""
    refused: Sequence[Event] = ()
    """Events to append to the session before the contents: refusals of credentials that tools have requested."""
    rejection: str = ""
    """Reason for refusing the other answers; "" if all are accepted."""


def input_required(calls: Sequence[PendingCall], *, error: str = "") -> InputRequired:
    """Return the end of a turn: a message with the question of every pending call, as text and data.

    The message begins with `error`, the reason for refusing the client's earlier answer, if there is one.
    """
    message = question_message([question_of(each) for each in calls], error=error)
    wants_credential = any(
        each.call.name in (CREDENTIAL, REMOTE_CREDENTIAL) or asks_authorization(each.call) for each in calls
    )
    return InputRequired(
        message, TaskState.TASK_STATE_AUTH_REQUIRED if wants_credential else TaskState.TASK_STATE_INPUT_REQUIRED
    )


def resume_contents(request: TurnRequest, question: Message, calls: Sequence[PendingCall]) -> Answers:
    """Return the client's answers for ADK.

    Each branch needs its own content, because ADK stores a content only in the branch of its first call. Ambiguous
    answers were refused before the turn, by `engine.resume_input`. Raises InvalidResumeInput if no answer has the right
    form, and AgentFailed if the client refuses a credential without which the agent has no tools.
    """
    answers, pending = parts_by_interrupt(request.message, interrupt_ids(question)), {each.id: each for each in calls}
    responses, rejection = accepted_answers(answers, pending, _response)
    branches: dict[str | None, list[genai.Part]] = {}
    for name, response in responses.items():
        branches.setdefault(pending[name].event.branch, []).append(genai.Part(function_response=response))
    refused = [pending[name] for name, response in responses.items() if response.id != name]
    return Answers(
        [genai.Content(role="user", parts=parts) for parts in branches.values()],
        # A turn that starts over finds the event of its lost attempt.
        [refused_credential(each) for each in refused if not each.is_refused],
        rejection,
    )


def _response(pending: PendingCall, parts: Sequence[Part]) -> genai.FunctionResponse:
    """Return the response to a pending call; for a refused credential, the response to the tool's call that needs it."""
    if has_only_files(parts):
        # Refuse the answer: many models accept no file as the result of a call, and each later turn would send it again.
        raise InvalidResumeInput("A file alone isn't an answer. Send text or data.")
    given, call = resume_value(parts), pending.request()
    if call.name == CREDENTIAL and (error := refusal_of(call.args or {}, given)) is not None:
        if pending.tool_call is not None:
            needs = pending.tool_call
            return genai.FunctionResponse(id=needs.id, name=needs.name, response=dict(error))
        return genai.FunctionResponse(id=pending.id, name=CREDENTIAL, response=node_refusal(call.args or {}, error))
    return genai.FunctionResponse(id=pending.id, name=pending.call.name, response=_answer(call, given))


def _answer(call: genai.FunctionCall, given: Any) -> dict[str, Any]:
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
    schema = args.get("response_schema") or args.get("responseSchema")
    response = given if isinstance(given, dict) else {"result": given}
    quoted = [{"result": json.dumps(given)}] if isinstance(given, str) else []
    wrapped = [{"result": unwrapped(given)}] if isinstance(given, dict) else []
    for each in [response, *quoted, *wrapped]:
        try:
            _validate_resume_response(_unwrap_response(each), schema)
        except WorkflowDataError:
            continue
        return each
    # ADK says only that the answer does not fit. Our own check of the schema says why.
    expected_answer({}, schema, is_checked=True).fitted(given)
    raise InvalidResumeInput("The answer does not fit its schema. Send it as data, or as JSON text.")
