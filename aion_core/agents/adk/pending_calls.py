"""Function calls of an ADK session that wait for the user.

ADK marks a function call as long-running if it waits for the user: a long-running tool, a tool confirmation or a
credential request. The call is pending until the session contains the user's response to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events import Event
from google.genai import types as genai
from msgspec import Struct
from msgspec.structs import replace

CONFIRMATION, CREDENTIAL, INPUT = "adk_request_confirmation", "adk_request_credential", "adk_request_input"
"""Names of the calls by which ADK asks the user. They are ADK's own: clients do not see them."""

REMOTE_INPUT = "mock_function_call_for_required_user_input"
REMOTE_CREDENTIAL = "mock_function_call_for_required_user_auth"
"""Names of the calls by which ADK's RemoteA2aAgent passes on a remote agent's question or request for a credential."""

ABORTED = "INVOCATION_ABORTED"
"""ADK's error code of an event that answers the calls of an abandoned invocation."""

NODE_CONFIRMATION = "wf_tool_confirmation:"
"""Beginning of the id of a `RequestInput` by which ADK requests the confirmation of a workflow node."""


class PendingCall(Struct, frozen=True):
    """Long-running function call to which the user has not responded, with the session event that contains the call."""

    call: genai.FunctionCall
    event: Event
    first_result: Mapping[str, Any] | None = None
    """What a long-running tool has returned itself, such as the id of a ticket; None if it has returned nothing."""
    tool_call: genai.FunctionCall | None = None
    """The tool's call that needs the requested credential; None for other calls, and for a node or a toolset."""
    is_refused: bool = False
    """True if the session has the event by which the user refuses the requested credential."""

    @property
    def id(self) -> str:
        """Id of the function call. A client's answer names it as `interruptId`."""
        return self.call.id or ""

    def request(self) -> genai.FunctionCall:
        """Return the call; convert a workflow node's request for confirmation to the form of a tool's request."""
        if not self.id.startswith(NODE_CONFIRMATION):
            return self.call
        args = self.call.args or {}
        payload = args.get("payload") or {}
        wanted = {"hint": args.get("message"), "payload": payload.get("confirmation_payload")}
        original = {"name": payload.get("tool_name"), "args": _without_none(payload.get("args"))}
        confirmation = {"originalFunctionCall": original, "toolConfirmation": wanted}
        return genai.FunctionCall(id=self.id, name=CONFIRMATION, args=confirmation)


def pending_calls(events: Sequence[Event]) -> list[PendingCall]:
    """Return a session's long-running calls to which the user has not responded, oldest first.

    A refused credential stays pending until the tool that needs it has got the refusal.
    """
    calls: dict[str, genai.FunctionCall] = {}
    pending: dict[str, PendingCall] = {}
    for event in events:
        for call in event.get_function_calls():
            if not call.id:
                continue
            if call.id in (event.long_running_tool_ids or ()):
                needs = str((call.args or {}).get("functionCallId")) if call.name == CREDENTIAL else ""
                pending[call.id] = PendingCall(call, event, tool_call=calls.get(needs))
            calls[call.id] = call
        for response in event.get_function_responses():
            found = pending.get(response.id or "")
            if event.author == "user" or event.error_code == ABORTED:
                if response.response == _REFUSED:
                    pending |= {found.id: replace(found, is_refused=True)} if found is not None else {}
                else:
                    pending = {name: each for name, each in pending.items() if not _is_answered(each, response)}
            elif found is not None and response.response:
                pending[found.id] = replace(found, first_result=response.response)
    return list(pending.values())


def _is_answered(pending: PendingCall, response: genai.FunctionResponse) -> bool:
    """Return True for a response to the call, or to the tool's call that needs the requested credential."""
    return response.id in (pending.id, pending.tool_call.id if pending.tool_call is not None else pending.id)


_REFUSED = {"error": "aion:refused"}
"""Response to a request for a credential that the user has refused. The tool's own call gets the refusal's reason."""


def refused_credential(pending: PendingCall) -> Event:
    """Return the session event by which the user refuses a credential that a tool has requested.

    Without it, ADK would wait for the credential before it passes the tool's error on. It must precede the tool's error:
    ADK runs a tool again if the last event responds to its credential request.
    """
    response = genai.FunctionResponse(id=pending.id, name=CREDENTIAL, response=dict(_REFUSED))
    return Event(
        invocation_id=pending.event.invocation_id,
        author="user",
        branch=pending.event.branch,
        isolation_scope=pending.event.isolation_scope,
        content=genai.Content(role="user", parts=[genai.Part(function_response=response)]),
    )


def _without_none(value: Any) -> Any:
    """Return the value without None in its dicts. Most fields of a Content, the input of a first node, are None."""
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
