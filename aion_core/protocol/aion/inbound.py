"""Payloads of the Aion extensions in a received request. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import msgspec
from google.protobuf.struct_pb2 import Struct
from pydantic import ValidationError

from aion_core.errors import InvalidMessage
from aion_core.protocol.aion.extensions import (
    CARDS,
    DISTRIBUTION,
    EVENT,
    EVENT_KINDS,
    MESSAGING,
    PAYLOAD_SCHEMAS,
    SOURCE_SCHEMA,
    TRACEABILITY,
    EventKind,
    older,
)
from aion_core.protocol.aion.payloads import (
    CardActionEvent,
    CommandEvent,
    Distribution,
    EventEnvelope,
    EventPayload,
    ExtensionPayload,
    MessageEvent,
    ReactionEvent,
    SourceEvent,
    Traceability,
)
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, Part

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
