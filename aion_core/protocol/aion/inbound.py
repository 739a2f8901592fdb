"""What a request says by the Aion extensions, read from wherever their payloads stand. Pure.

    request metadata   distribution, traceability
    message metadata   event: its type, its source, its id
    data parts         the event's payload, by the schema in the part's metadata

(R51, R53, R58)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pydantic import ValidationError

from aion_core.errors import InvalidMessage
from aion_core.protocol.aion import uris
from aion_core.protocol.aion.payloads import (
    CardActionEvent,
    CommandEvent,
    Distribution,
    EventEnvelope,
    EventPayload,
    MessageEvent,
    Payload,
    ReactionEvent,
    SourceEvent,
    Traceability,
)
from aion_core.protocol.types import Message, Part

P = TypeVar("P", bound=Payload)

_PAYLOADS: dict[uris.EventKind, type[EventPayload]] = {
    "message": MessageEvent,
    "reaction": ReactionEvent,
    "command": CommandEvent,
    "card_action": CardActionEvent,
}
_EVENT_SCHEMAS = (*uris.PAYLOAD_SCHEMAS.values(), uris.SOURCE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of one of the kinds that are known."""

    kind: uris.EventKind
    envelope: EventEnvelope
    payload: EventPayload | None
    """None only for a message: that speaks for itself."""
    source: SourceEvent | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """What the extensions say of a request; None for each that says nothing."""

    distribution: Distribution | None = None
    event: Happened | None = None
    trace: Traceability | None = None

    @property
    def sender_id(self) -> str | None:
        """Who did what the request is about, in the source network."""
        if self.event is not None and self.event.payload is not None:
            return self.event.payload.user_id
        return self.distribution.sender_id if self.distribution is not None else None

    @property
    def network(self) -> str | None:
        """The network that the request comes from."""
        return self.distribution.distribution.endpoint_type or None if self.distribution is not None else None


def read(message: Message, request: Mapping[str, Any]) -> Inbound:
    """Return what the extensions say; `request` is the request's metadata. No payload, or null, is none.

    An event of a type that is not known is none: the message is then just a message. Raises InvalidMessage, which names
    the field and no value, where a payload is not as its schema has it: an event that is left aside would be lost.
    """
    return Inbound(
        distribution=_on_request(Distribution, uris.DISTRIBUTION, message, request),
        event=_event(message),
        trace=_on_request(Traceability, uris.TRACEABILITY, message, request),
    )


def schemas_of(part: Part) -> list[Any]:
    """Return what the part's metadata say of its schema, under the event's URI, or that of who defines the schema."""
    given = (_under(part.metadata, uri) for uri in (uris.EVENT, uris.MESSAGING, uris.CARDS))
    return [held.get("schema") for held in given if isinstance(held, dict)]


def is_payload(part: Part) -> bool:
    """Tell whether the part carries an event, rather than what the agent is to read."""
    return part.WhichOneof("content") == "data" and any(schema in _EVENT_SCHEMAS for schema in schemas_of(part))


def _on_request(model: type[P], uri: str, message: Message, request: Mapping[str, Any]) -> P | None:
    for spelled in (uri, uris.older(uri)):
        if request.get(spelled) is not None:
            return _parsed(model, request[spelled], f"metadata.{spelled}")
        if (held := _under(message.metadata, spelled)) is not None:
            return _parsed(model, held, f"message.metadata.{spelled}")
    return None


def _event(message: Message) -> Happened | None:
    field = f"message.metadata.{uris.EVENT}"
    given = _under(message.metadata, uris.EVENT)
    if given is None:
        return None
    envelope = _parsed(EventEnvelope, given, field)
    kind = uris.EVENT_KINDS.get(envelope.type)
    if kind is None:
        return None
    payload = next(_with_schema(message, uris.PAYLOAD_SCHEMAS[kind], _PAYLOADS[kind]), None)
    if payload is None and kind != "message":
        schema = uris.PAYLOAD_SCHEMAS[kind]
        raise InvalidMessage(
            f"{field} announces {envelope.type}, and no data part holds its payload: "
            f'send one with the metadata {{"{uris.EVENT}": {{"schema": "{schema}"}}}}.',
            field="message.parts",
        )
    return Happened(kind, envelope, payload, next(_with_schema(message, uris.SOURCE_SCHEMA, SourceEvent), None))


def _with_schema(message: Message, schema: str, model: type[P]) -> Iterator[P]:
    for index, part in enumerate(message.parts):
        if part.WhichOneof("content") == "data" and schema in schemas_of(part):
            yield _parsed(model, MessageToDict(part.data), f"message.parts[{index}].data")


def _under(metadata: Struct, key: str) -> Any:
    return MessageToDict(metadata.fields[key]) if key in metadata.fields else None


def _parsed(model: type[P], given: Any, field: str) -> P:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        _refuse(error, field)


def _refuse(error: ValidationError, field: str) -> NoReturn:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    why = first["msg"].lower() if first["type"] == "missing" else f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    # The values stay out of it, and of the log: among them are the secrets of an environment.
    raise InvalidMessage(f"{field}{path} cannot be used: {why}.", field=f"{field}{path}") from None
