"""Aion extensions: URIs, payloads of a request, target of its answer, and trace context. Pure.

request metadata   distribution, traceability
message metadata   event: its type, its source, its id
data parts         the event's payload, by the schema in the part's metadata
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar
from urllib.parse import unquote

import msgspec
from a2a.types.a2a_pb2 import AgentExtension
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from pydantic import ValidationError

from aion_core.errors import InvalidMessage
from aion_core.protocol.aion.payloads import (
    CardActionEvent,
    CommandEvent,
    Distribution,
    EventEnvelope,
    EventPayload,
    ExtensionPayload,
    MessageAction,
    MessageEvent,
    ReactionAction,
    ReactionEvent,
    SourceEvent,
    Traceability,
)
from aion_core.protocol.types import AgentCard, Artifact, Message, Part, to_json

# ── URIs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

EventKind = Literal["message", "reaction", "command", "card_action"]
"""Kind of an event of a source network. Such an event starts a turn."""

_AION = "https://docs.aion.to/a2a/extensions/aion"

DISTRIBUTION = f"{_AION}/distribution/1.0.0"
MESSAGING = f"{_AION}/distribution/messaging/1.0.0"
CARDS = f"{_AION}/distribution/cards/1.0.0"
EVENT = f"{_AION}/event/1.0.0"
TRACEABILITY = f"{_AION}/traceability/1.0.0"

EVENT_KINDS: dict[str, EventKind] = {
    "to.aion.distribution.message.1.0.0": "message",
    "to.aion.distribution.reaction.1.0.0": "reaction",
    "to.aion.distribution.command.1.0.0": "command",
    "to.aion.distribution.card-action.1.0.0": "card_action",
}
"""Kinds of events by the `type` in the event's envelope."""

PAYLOAD_SCHEMAS: dict[EventKind, str] = {
    "message": f"{MESSAGING}#MessageEventPayload",
    "reaction": f"{MESSAGING}#ReactionEventPayload",
    "command": f"{MESSAGING}#CommandEventPayload",
    "card_action": f"{CARDS}#CardActionEventPayload",
}
"""Schema in the metadata of the data part with an event's payload, by the kind of event."""

SOURCE_SCHEMA = f"{MESSAGING}#SourceSystemEventPayload"
"""Schema of the data part with the original event of the source network."""

MESSAGE_ACTION_SCHEMA = f"{MESSAGING}#MessageActionPayload"
REACTION_ACTION_SCHEMA = f"{MESSAGING}#ReactionActionPayload"
"""Schemas of the actions for a distribution: to send a message, and to react to a message."""

AION_EXTENSIONS = (
    AgentExtension(uri=DISTRIBUTION, description="Reads through which distribution, and from whom, a request comes."),
    AgentExtension(uri=EVENT, description="Takes events: a message's metadata name one, a data part is its payload."),
    AgentExtension(uri=MESSAGING, description="Takes messages, reactions and commands, and says where answers go."),
    AgentExtension(uri=CARDS, description="Takes the actions of cards."),
    AgentExtension(uri=TRACEABILITY, description="Reads a W3C trace context."),
)
"""Aion's extensions in the card of an agent. All of them are optional for clients."""


def reads_aion_extensions(card: AgentCard) -> bool:
    """Return True if the agent's card declares one of Aion's extensions."""
    known = {extension.uri for extension in AION_EXTENSIONS}
    return any(extension.uri in known for extension in card.capabilities.extensions)


@cache
def older(uri: str) -> str:
    """Return the older form of an extension's URI. Early clients use this form in requests."""
    return uri.replace("/a2a/extensions/", "/extensions/")


# ── Request ───────────────────────────────────────────────────────────────────────────────────────────────────────────

P = TypeVar("P", bound=ExtensionPayload)

_PAYLOADS: dict[EventKind, type[EventPayload]] = {
    "message": MessageEvent,
    "reaction": ReactionEvent,
    "command": CommandEvent,
    "card_action": CardActionEvent,
}
_EVENT_SCHEMAS = (*PAYLOAD_SCHEMAS.values(), SOURCE_SCHEMA)


class InboundEvent(msgspec.Struct, frozen=True):
    """Event of a known kind in a received message, from a source network such as Slack."""

    kind: EventKind
    envelope: EventEnvelope
    payload: EventPayload | None
    """Payload of the event. Only a message event may have no payload."""
    source: SourceEvent | None = None


class Inbound(msgspec.Struct, frozen=True):
    """Payloads of the Aion extensions in a received request. Those that the request lacks are None."""

    distribution: Distribution | None = None
    event: InboundEvent | None = None
    trace: Traceability | None = None

    @property
    def sender_id(self) -> str | None:
        """Id of the sender in the source network, None if it is unknown."""
        if self.event is not None and self.event.payload is not None:
            return self.event.payload.user_id
        return self.distribution.sender_id if self.distribution is not None else None

    @property
    def network(self) -> str | None:
        """Name of the request's source network, such as Slack; None if it is unknown."""
        return self.distribution.distribution.endpoint_type or None if self.distribution is not None else None


def read(message: Message, request: Mapping[str, Any]) -> Inbound:
    """Parse the payloads of Aion extensions in a message and in its request's metadata. Null counts as missing.

    An event of an unknown type is ignored, and the message is then a plain message. An invalid payload raises
    InvalidMessage, because its event would be lost otherwise. The error has the field, but not the value.
    """
    if not request and not message.metadata.fields:
        return Inbound()
    return Inbound(
        distribution=_on_request(Distribution, DISTRIBUTION, message, request),
        event=_event(message),
        trace=_on_request(Traceability, TRACEABILITY, message, request),
    )


def schemas_of(part: Part) -> list[Any]:
    """Return the schema names in a message part's metadata, listed under the URIs of the Aion extensions."""
    payloads = (_under(part.metadata, uri) for uri in (EVENT, MESSAGING, CARDS))
    return [payload.get("schema") for payload in payloads if isinstance(payload, dict)]


def is_payload(part: Part) -> bool:
    """Return True if a message part is the payload of an event instead of content for the agent."""
    return part.WhichOneof("content") == "data" and any(schema in _EVENT_SCHEMAS for schema in schemas_of(part))


def _on_request(model: type[P], uri: str, message: Message, request: Mapping[str, Any]) -> P | None:
    for key in (uri, older(uri)):
        if request.get(key) is not None:
            return _parsed(model, request[key], f"metadata.{key}")
        if (payload := _under(message.metadata, key)) is not None:
            return _parsed(model, payload, f"message.metadata.{key}")
    return None


def _event(message: Message) -> InboundEvent | None:
    field = f"message.metadata.{EVENT}"
    given = _under(message.metadata, EVENT)
    if given is None:
        return None
    envelope = _parsed(EventEnvelope, given, field)
    kind = EVENT_KINDS.get(envelope.type)
    if kind is None:
        return None
    payload = next(_with_schema(message, PAYLOAD_SCHEMAS[kind], _PAYLOADS[kind]), None)
    if payload is None and kind != "message":
        schema = PAYLOAD_SCHEMAS[kind]
        raise InvalidMessage(
            f"{field} announces {envelope.type}, and no data part holds its payload: "
            f'send one with the metadata {{"{EVENT}": {{"schema": "{schema}"}}}}.',
            field="message.parts",
        )
    return InboundEvent(kind, envelope, payload, next(_with_schema(message, SOURCE_SCHEMA, SourceEvent), None))


def _with_schema(message: Message, schema: str, model: type[P]) -> Iterator[P]:
    for index, part in enumerate(message.parts):
        if part.WhichOneof("content") == "data" and schema in schemas_of(part):
            yield _parsed(model, to_json(part.data), f"message.parts[{index}].data")


def _under(metadata: Struct, key: str) -> Any:
    return to_json(metadata.fields[key]) if key in metadata.fields else None


def _parsed(model: type[P], given: Any, field: str) -> P:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        _refuse(error, field)


def _refuse(error: ValidationError, field: str) -> NoReturn:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    why = first["msg"].lower() if first["type"] == "missing" else f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    # Omit the values from the error, because they may be secrets and the error is logged.
    raise InvalidMessage(f"{field}{path} cannot be used: {why}.", field=f"{field}{path}") from None


# ── Answer ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def answer_to(inbound: Inbound) -> MessageAction | None:
    """Return the default target for an answer to a request; None if the request has no event of a source network.

    The target is the conversation of the event, or the sender of a direct message.
    """
    payload = inbound.event.payload if inbound.event is not None else None
    if payload is None:
        return None
    trajectory = payload.trajectory if isinstance(payload, MessageEvent) else "conversation"
    return MessageAction(
        trajectory=trajectory,
        context_id=payload.context_id,
        parent_context_id=payload.parent_context_id,
        user_id=payload.user_id if trajectory == "direct-message" else None,
        reply_to_message_id=payload.message_id if isinstance(payload, MessageEvent | ReactionEvent) else None,
    )


def conversation_at(context_id: str) -> MessageAction:
    """Return the action that sends a message to this conversation of the network from which the request came."""
    return MessageAction(trajectory="conversation", context_id=context_id)


def send(message: Message, action: MessageAction) -> None:
    """Add a target to a message of the agent, unless the agent has already set a target."""
    if any(MESSAGE_ACTION_SCHEMA in schemas_of(part) for part in message.parts):
        return
    message.parts.append(_data(action, MESSAGE_ACTION_SCHEMA))
    if MESSAGING not in message.extensions:
        message.extensions.append(MESSAGING)


def react(inbound: Inbound, key: str) -> Artifact | None:
    """Return an artifact with a reaction to the received message; None if it is not from a source network."""
    payload = inbound.event.payload if inbound.event is not None else None
    if not isinstance(payload, MessageEvent):
        return None
    action = ReactionAction(
        context_id=payload.context_id, message_id=payload.message_id, reaction_key=key, operation="add"
    )
    artifact = Artifact(parts=[_data(action, REACTION_ACTION_SCHEMA)], extensions=[MESSAGING])
    artifact.metadata.update(schema_named(REACTION_ACTION_SCHEMA))
    return artifact


def schema_named(schema: str) -> dict[str, Any]:
    """Return metadata for a part or artifact. It names the schema, as defined by the messaging extension."""
    return {MESSAGING: {"schema": schema}}


def _data(payload: ExtensionPayload, schema: str) -> Part:
    return ParseDict({"data": payload.as_json(), "metadata": schema_named(schema)}, Part())


# ── Trace context ─────────────────────────────────────────────────────────────────────────────────────────────────────

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_MAX_BAGGAGE, _MAX_ENTRIES = 8192, 64
_MAX_STATE, _MAX_STATES = 512, 32


def from_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    """Convert W3C trace context and baggage headers to a payload of the traceability extension, or to {}.

    The names of the headers must be in lower case. Malformed headers are ignored. See
    https://www.w3.org/TR/trace-context/ and https://www.w3.org/TR/baggage/
    """
    traceparent = headers.get("traceparent", "").strip()
    if not _TRACEPARENT.fullmatch(traceparent):
        return {}
    trace: dict[str, Any] = {"traceparent": traceparent}
    state, baggage = headers.get("tracestate", ""), headers.get("baggage", "")
    if (states := _pairs(state)) and len(state) <= _MAX_STATE and len(states) <= _MAX_STATES:
        trace["tracestate"] = [{"key": key, "value": value} for key, value in states]
    if (entries := _pairs(baggage)) and len(baggage) <= _MAX_BAGGAGE and len(entries) <= _MAX_ENTRIES:
        # Drop the properties of a baggage entry, which follow a semicolon.
        trace["baggage"] = {key: unquote(value.partition(";")[0].strip()) for key, value in entries}
    return trace


def traceparent_of(request: Mapping[str, Any]) -> str:
    """Return the `traceparent` from a request's metadata; "" if it is missing or malformed."""
    traceparent: str = _trace_of(request).get("traceparent", "")
    return traceparent


def tracestate_of(request: Mapping[str, Any]) -> str:
    """Return the `tracestate` beside `traceparent_of` as a header; "" if it is missing, malformed or too long."""
    try:
        state = ",".join(f"{entry['key']}={entry['value']}" for entry in _trace_of(request).get("tracestate") or ())
    except (TypeError, KeyError):
        return ""
    return state if len(state) <= _MAX_STATE else ""


def _trace_of(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first payload of the traceability extension with a valid `traceparent`, or {}."""
    for uri in (TRACEABILITY, older(TRACEABILITY)):
        payload = request.get(uri)
        if isinstance(payload, Mapping):
            given = payload.get("traceparent")
            if isinstance(given, str) and _TRACEPARENT.fullmatch(given):
                return payload
    return {}


def _pairs(header: str) -> list[tuple[str, str]]:
    entries = (entry.partition("=") for entry in header.split(","))
    return [(key.strip(), value.strip()) for key, _, value in entries if key.strip() and value.strip()]
