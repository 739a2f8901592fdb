"""Requests of Aion's distributions, with the payloads of its extensions at their places in A2A."""

from typing import Any

_AION = "https://docs.aion.to/a2a/extensions/aion"
DISTRIBUTION = f"{_AION}/distribution/1.0.0"
MESSAGING = f"{_AION}/distribution/messaging/1.0.0"
CARDS = f"{_AION}/distribution/cards/1.0.0"
EVENT = f"{_AION}/event/1.0.0"
TRACEABILITY = f"{_AION}/traceability/1.0.0"

MESSAGE_ACTION = {MESSAGING: {"schema": f"{MESSAGING}#MessageActionPayload"}}
REACTION_ACTION = {MESSAGING: {"schema": f"{MESSAGING}#ReactionActionPayload"}}

SCHEMAS = {
    "message": f"{MESSAGING}#MessageEventPayload",
    "reaction": f"{MESSAGING}#ReactionEventPayload",
    "command": f"{MESSAGING}#CommandEventPayload",
    "card-action": f"{CARDS}#CardActionEventPayload",
}
PAYLOADS: dict[str, dict[str, Any]] = {
    "message": {"userId": "U42", "contextId": "C-room", "messageId": "1715.100", "trajectory": "conversation"},
    "reaction": {
        "userId": "U42",
        "contextId": "C-room",
        "messageId": "1715.103",
        "reactionKey": "party-parrot",
        "action": "added",
        "displayValue": ":party_parrot:",
        "isCustom": True,
    },
    "command": {"userId": "U42", "contextId": "C-room", "command": "/deploy", "arguments": "service=api env=staging"},
    "card-action": {"userId": "U42", "contextId": "C-room", "actionId": "approve"},
}

THE_DISTRIBUTION: dict[str, Any] = {
    "senderId": "sender-1",
    "distribution": {
        "id": "d-1",
        "endpointType": "Slack",
        "url": "https://example.com/d-1/.well-known/agent-card.json",
        "identities": [
            {
                "kind": "service",
                "id": "B7",
                "identityNetwork": "Slack",
                "identityKind": "Bot",
                "organizationId": "o-1",
                "userName": "helper-bot",
            },
            {
                "kind": "principal",
                "id": "p-1",
                "identityNetwork": "Aion",
                "identityKind": "Personal",
                "organizationId": "o-1",
                "displayName": "Helper",
            },
        ],
    },
    "behavior": {"id": "b-1", "behaviorKey": "helper", "versionId": "v-1"},
    "environment": {
        "id": "e-1",
        "name": "Production",
        "projectId": "pr-1",
        "deploymentId": "de-1",
        "configurationVariables": {"API_KEY": "s3cr3t"},
    },
}


def request(
    kind: str = "",
    *,
    old: bool = False,
    text: str = "",
    payload: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    stream: bool = False,
    **message: Any,
) -> dict[str, Any]:
    """Return a JSON-RPC request in v1, or in v0.3 if `old`, of a `kind` of event; `payload` replaces the default."""

    def part(content: dict[str, Any], **also: Any) -> dict[str, Any]:
        return {**({"kind": next(iter(content))} if old else {}), **content, **also}

    parts = [part({"text": text})] if text else []
    if kind:
        held = PAYLOADS[kind] if payload is None else payload
        parts.append(part({"data": held}, metadata={EVENT: {"schema": SCHEMAS[kind]}}))
        message["metadata"] = {
            EVENT: {"type": f"to.aion.distribution.{kind}.1.0.0", "source": "aion://distribution/d-1", "id": "ev-1"},
            **message.get("metadata", {}),
        }
        message.setdefault("extensions", [DISTRIBUTION, EVENT, MESSAGING])
    if source is not None:
        parts.append(part({"data": source}, metadata={EVENT: {"schema": f"{MESSAGING}#SourceSystemEventPayload"}}))
    names = {(False, False): "SendMessage", (False, True): "SendStreamingMessage"}
    names |= {(True, False): "message/send", (True, True): "message/stream"}
    role = "user" if old else "ROLE_USER"
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": names[old, stream],
        "params": {
            "message": {"messageId": "m-1", "role": role, "parts": parts, **message},
            "metadata": {DISTRIBUTION: THE_DISTRIBUTION} if metadata is None else metadata,
        },
    }
