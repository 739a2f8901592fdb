"""The recorded Lambda events of tests/events."""

import json
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).parent.parent / "events"


def recorded_event(name: str, **changes: Any) -> dict[str, Any]:
    """Return the event of that name, a fresh copy, with these keys changed."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event | changes


def function_url_event(path: str, method: str = "GET", body: str = "", query: str = "") -> dict[str, Any]:
    """Return what a Function URL makes of a plain request."""
    event = recorded_event("function_url_v2", rawPath=path, rawQueryString=query, body=body, isBase64Encoded=False)
    event["requestContext"]["http"] |= {"method": method, "path": path}
    return event
