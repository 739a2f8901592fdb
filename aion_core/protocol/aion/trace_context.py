"""W3C trace context, as the payload of the traceability extension. Pure."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aion_core.protocol.aion.extensions import TRACEABILITY, older

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
