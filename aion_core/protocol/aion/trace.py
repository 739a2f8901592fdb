"""A request's W3C trace context: from its headers where its metadata have none, and for the log. Pure.

https://www.w3.org/TR/trace-context/ and https://www.w3.org/TR/baggage/: what is not well-formed is left aside, and is
never a reason to refuse a request.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aion_core.protocol.aion import uris

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_MAX_BAGGAGE, _MAX_ENTRIES = 8192, 64
_MAX_STATE, _MAX_STATES = 512, 32


def from_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the headers' trace context as the traceability extension's payload; empty where they have none.

    The names of the headers are in lower case, as ASGI has them.
    """
    traceparent = headers.get("traceparent", "").strip()
    if not _TRACEPARENT.fullmatch(traceparent):
        return {}
    trace: dict[str, Any] = {"traceparent": traceparent}
    state, baggage = headers.get("tracestate", ""), headers.get("baggage", "")
    if (states := _pairs(state)) and len(state) <= _MAX_STATE and len(states) <= _MAX_STATES:
        trace["tracestate"] = [{"key": key, "value": value} for key, value in states]
    if (carried := _pairs(baggage)) and len(baggage) <= _MAX_BAGGAGE and len(carried) <= _MAX_ENTRIES:
        # What follows a semicolon are an entry's properties.
        trace["baggage"] = {key: unquote(value.partition(";")[0].strip()) for key, value in carried}
    return trace


def traceparent_of(request: Mapping[str, Any]) -> str:
    """Return the `traceparent` in a request's metadata; "" where it has none that is well-formed."""
    for uri in (uris.TRACEABILITY, uris.older(uris.TRACEABILITY)):
        payload = request.get(uri)
        given = payload.get("traceparent") if isinstance(payload, Mapping) else None
        if isinstance(given, str) and _TRACEPARENT.fullmatch(given):
            return given
    return ""


def _pairs(header: str) -> list[tuple[str, str]]:
    entries = (entry.partition("=") for entry in header.split(","))
    return [(key.strip(), value.strip()) for key, _, value in entries if key.strip() and value.strip()]
