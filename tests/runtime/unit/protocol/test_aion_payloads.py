"""Payloads of the Aion extensions, without HTTP."""

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from aion_core.agents.helper_calls import Reaction
from aion_core.agents.reactions import reaction_artifact
from aion_core.engine.agent import TurnRequest
from aion_core.engine.records import Turn
from aion_core.errors import InvalidMessage
from aion_core.protocol.aion import extensions
from aion_core.protocol.aion.actions import answer_to, send
from aion_core.protocol.aion.inbound import Inbound, read
from aion_core.protocol.aion.payloads import Distribution, MessageAction
from aion_core.protocol.aion.trace_context import from_headers, traceparent_of, tracestate_of
from aion_core.protocol.types import Message, Part, Task
from aion_core.table.keys import ContextKey
from tests.runtime.unit.protocol import aion_requests
from tests.runtime.unit.protocol.aion_requests import PAYLOADS, THE_DISTRIBUTION
from tests.support.rows import each_row

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def of(kind: str = "", **given: Any) -> tuple[Message, dict[str, Any]]:
    params = aion_requests.request(kind, **given)["params"]
    return ParseDict(params["message"], Message()), params["metadata"]


def test_extension_uris_and_payload_schemas_have_expected_values() -> None:
    assert (
        extensions.DISTRIBUTION,
        extensions.MESSAGING,
        extensions.CARDS,
        extensions.EVENT,
        extensions.TRACEABILITY,
    ) == (
        aion_requests.DISTRIBUTION,
        aion_requests.MESSAGING,
        aion_requests.CARDS,
        aion_requests.EVENT,
        aion_requests.TRACEABILITY,
    )
    assert {
        kind.replace("_", "-"): schema for kind, schema in extensions.PAYLOAD_SCHEMAS.items()
    } == aion_requests.SCHEMAS


def test_message_without_extensions_yields_no_extension_data() -> None:
    message, _ = of(text="hi")
    assert read(message, {}) == Inbound()
    assert (Inbound().sender_id, Inbound().network, answer_to(Inbound())) == (None, None, None)


@each_row("kind", list(PAYLOADS))
def test_aion_payload_is_serialized_as_received(kind: str) -> None:
    event = read(*of(kind, text="hi")).event
    assert event is not None
    assert event.payload is not None
    assert event.payload.as_json() == PAYLOADS[kind]


def test_reading_extension_payloads_does_not_change_message() -> None:
    message, metadata = of("message", text="hi")
    before = MessageToDict(message), json.dumps(metadata)
    read(message, metadata)
    assert (MessageToDict(message), json.dumps(metadata)) == before


@pytest.mark.parametrize("uri", [extensions.EVENT, extensions.MESSAGING])
def test_payload_schema_is_read_under_both_extension_uris(uri: str) -> None:
    message, metadata = of("command")
    message.parts[0].ClearField("metadata")
    message.parts[0].metadata.update({uri: {"schema": extensions.PAYLOAD_SCHEMAS["command"]}})
    event = read(message, metadata).event
    assert event is not None
    assert event.kind == "command"


def test_payload_of_other_schema_than_event_type_is_refused() -> None:
    message, metadata = of("command", payload=PAYLOADS["reaction"])
    message.metadata.fields[extensions.EVENT].struct_value.update({"type": "to.aion.distribution.reaction.1.0.0"})
    with pytest.raises(InvalidMessage, match="no data part holds its payload"):
        read(message, metadata)


def test_payload_error_does_not_expose_values() -> None:
    """The error must have no chained cause, whose traceback would show an environment's secrets."""
    message, metadata = of(text="hi", metadata={extensions.DISTRIBUTION: {**THE_DISTRIBUTION, "senderId": ["s3cr3t"]}})
    with pytest.raises(InvalidMessage) as refusal:
        read(message, metadata)
    assert refusal.value.field == f"metadata.{extensions.DISTRIBUTION}.senderId"
    assert (refusal.value.__cause__, refusal.value.__suppress_context__) == (None, True)


@each_row(
    ("kinds", "chosen"),
    [
        (("service", "principal"), "principal"),
        (("external", "agent"), "agent"),
        (("other", "service"), "service"),
        (("other",), "other"),
        ((), None),
    ],
)
def test_principal_identity_is_preferred_to_service_identity(kinds: tuple[str, ...], chosen: str | None) -> None:
    identities = [{"kind": "principal"}, *({"kind": kind, "id": kind} for kind in kinds)]
    identity = Distribution.model_validate({"distribution": {"identities": identities}}).identity()
    assert (identity.id if identity else None) == chosen


def test_second_target_for_message_does_not_replace_first_target() -> None:
    message = Message(parts=[Part(text="hi")], extensions=[extensions.MESSAGING])
    send(message, MessageAction(trajectory="timeline", context_id="T"))
    once = MessageToDict(message)
    send(message, MessageAction(trajectory="timeline", context_id="other"))
    assert MessageToDict(message) == once
    assert once["extensions"] == [extensions.MESSAGING]
    assert once["parts"][1]["data"] == {"trajectory": "timeline", "contextId": "T"}


def test_reaction_to_earlier_message_contains_its_message_id() -> None:
    message, metadata = of("message", text="hi")
    asked = TurnRequest(ContextKey("o", "a", "c"), Turn("t", "task", 1), 1, Task(id="task"), message, metadata)
    opened: set[str] = set()
    earlier = reaction_artifact(asked, Reaction("eyes", "m-0", ""), "k", opened).artifact
    assert (earlier.artifact_id, MessageToDict(earlier.parts[0])) == (
        "aion:reaction:m-0",
        {"data": {"key": "eyes", "messageId": "m-0"}},
    )
    own = reaction_artifact(asked, Reaction("eyes", "m-1", ""), "k", opened)
    assert (own.artifact.artifact_id, own.metadata, own.key) == ("aion:reaction", aion_requests.REACTION_ACTION, "k")
    assert opened == {"aion:reaction"}


@each_row(
    ("baggage", "carried"),
    [
        ("a=1,b=%C3%A9;ttl=5", {"a": "1", "b": "é"}),
        ("nonsense", None),
        ("a=" + "x" * 9000, None),
        (",".join(f"k{n}=1" for n in range(65)), None),
    ],
)
def test_baggage_above_w3c_limits_is_ignored(baggage: str, carried: dict[str, str] | None) -> None:
    """Ignore baggage that is longer or has more members than W3C Baggage 3.3.2 requires a server to pass on."""
    assert from_headers({"traceparent": TRACEPARENT, "baggage": baggage}).get("baggage") == carried


@each_row(
    ("entries", "state"),
    [
        ([{"key": "v", "value": "1"}, {"key": "w", "value": "2"}], "v=1,w=2"),
        ([{"key": "v", "value": "1" * 511}], ""),
        ([{"key": "v"}], ""),
        ([7], ""),
        (7, ""),
        (None, ""),
    ],
)
def test_unusable_tracestate_in_metadata_is_ignored(entries: Any, state: str) -> None:
    assert tracestate_of({extensions.TRACEABILITY: {"traceparent": TRACEPARENT, "tracestate": entries}}) == state
    assert tracestate_of({}) == tracestate_of({extensions.TRACEABILITY: "text"}) == ""


def test_tracestate_is_that_of_valid_traceparent() -> None:
    request = {
        extensions.TRACEABILITY: {"traceparent": "x", "tracestate": [{"key": "v", "value": "1"}]},
        extensions.older(extensions.TRACEABILITY): {
            "traceparent": TRACEPARENT,
            "tracestate": [{"key": "w", "value": "2"}],
        },
    }
    assert (traceparent_of(request), tracestate_of(request)) == (TRACEPARENT, "w=2")


def test_invalid_traceparent_is_ignored() -> None:
    assert traceparent_of({extensions.TRACEABILITY: {"traceparent": TRACEPARENT}}) == TRACEPARENT
    for other in ({}, {"traceparent": "x"}, {"traceparent": 5}, "text", None):
        assert traceparent_of({extensions.TRACEABILITY: other}) == ""
