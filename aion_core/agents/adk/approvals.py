"""Approvals of tool calls: ADK's requests for a confirmation, and the client's decision."""

from collections.abc import Mapping
from typing import Any

from aion_core.agents.client_answers import InvalidResumeInput

_YES = frozenset({"yes", "y", "ok", "okay", "confirm", "confirmed", "approve", "approved", "true"})
_NO = frozenset({"no", "n", "deny", "denied", "reject", "rejected", "false"})


def confirmation_response(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Convert the client's decision to ADK's ToolConfirmation, by default with the payload of the question."""
    wanted = _wanted_payload(args)
    payload = {} if wanted is None else {"payload": wanted}
    if isinstance(given, dict) and isinstance(given.get("confirmed"), bool):
        return {"confirmed": given["confirmed"], **({"payload": given["payload"]} if "payload" in given else payload)}
    word = given.strip().strip(".!").lower() if isinstance(given, str) else ""
    if word not in _YES | _NO:
        raise InvalidResumeInput('That is not a decision. Answer yes or no, or send {"confirmed": true} as data.')
    return {"confirmed": word in _YES, **payload}


def _wanted_payload(args: Mapping[str, Any]) -> Any:
    """Return the payload in the confirmation that a tool requests, or None."""
    return (args.get("toolConfirmation") or {}).get("payload")


def confirmation_schema(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a confirmation as data. The answer's payload defaults to the question's payload."""
    wanted = _wanted_payload(args)
    kinds: Mapping[type, Mapping[str, str]] = {dict: {"type": "object"}, list: {"type": "array"}}
    payload = {} if wanted is None else {"payload": {**kinds.get(type(wanted), {}), "default": wanted}}
    return {"type": "object", "properties": {"confirmed": {"type": "boolean"}, **payload}, "required": ["confirmed"]}
