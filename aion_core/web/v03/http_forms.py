"""Form of a v0.3 request in HTTP+JSON, which has two.

The SDKs of v0.3 use the JSON of v0.3's proto file. The text of the v0.3 specification uses the types of JSON-RPC, with
their `kind`. A response has the form of its request.
"""

from typing import Any

from aion_core.web.request.body import JSON, StrictRequest


def prefers_kinds(request: StrictRequest) -> bool:
    """Return True if the response to a v0.3 HTTP+JSON request has JSON-RPC's types, not the proto file's JSON.

    The response to a message has the message's form, and a push config in the proto file's JSON gets that form. For any
    other request, the media type `application/json` in the Accept header selects the types of JSON-RPC. The SDKs expect
    the proto file's JSON: the Python SDK of v0.3 does not send this media type, the JavaScript SDK of v0.3 sends a
    Content-Type even without a body, and SDKs of v1.0 in their v0.3 mode send the header A2A-Version, which v0.3 did
    not have.
    """
    body = request.read
    if isinstance(body, dict) and "message" in body:
        return has_kinds(body["message"])
    if (
        "a2a-version" in request.headers
        or _has_proto_form(body)
        or (body is None and "content-type" in request.headers)
    ):
        return False
    accepted = request.headers.get("accept", "").lower()
    return any(media.partition(";")[0].strip() == JSON for media in accepted.split(","))


def decodes_files_twice(request: StrictRequest) -> bool:
    """Return True if the client encodes and decodes files in the proto file's JSON twice, as only the Python SDK does.

    That SDK sends the Accept header `*/*`, or requests a stream with the header Cache-Control. No other SDK does so.
    """
    accepted = request.headers.get("accept", "").lower()
    return accepted == "*/*" or (accepted == "text/event-stream" and "cache-control" in request.headers)


def reads_kinds_of_card(request: StrictRequest) -> bool:
    """Return True if a client of v0.3's HTTP+JSON reads the card in JSON-RPC's types, not the proto file's JSON.

    The Python SDK of v0.3 does so, although it reads the proto file's JSON in all other responses.
    """
    return prefers_kinds(request) or ("a2a-version" not in request.headers and "content-type" not in request.headers)


def _has_proto_form(body: Any) -> bool:
    """Return True if the body is a push config in the proto file's JSON: it has a `name` or a `config` field."""
    return isinstance(body, dict) and ("name" in body or "config" in body)


def has_kinds(message: Any) -> bool:
    """Return True if a message in a request's JSON has the form of JSON-RPC's types."""
    return isinstance(message, dict) and ("kind" in message or "parts" in message)
