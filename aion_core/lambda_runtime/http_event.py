"""Convert an HTTP event of API Gateway or of a Function URL to an ASGI request."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mangum import Mangum
from mangum.types import ASGI, Scope


class NotAnHttpEvent(Exception):
    """Error for a Lambda event that is not an HTTP event of API Gateway or a Function URL, or is invalid JSON."""


class MalformedRequest(Exception):
    """Error for an HTTP event with a part of the client's request that cannot be decoded. Its text is for the client."""


class HttpRequest(NamedTuple):
    """HTTP request of a Lambda event, as an ASGI scope and a body."""

    scope: Scope
    body: bytes


class EventReader:
    """Converts Lambda's HTTP events to ASGI requests with mangum's mapping."""

    def __init__(self, app: ASGI) -> None:
        self._mangum = Mangum(app, lifespan="off")

    def read(self, payload: bytes, context: Any) -> HttpRequest:
        """Convert the JSON of a Lambda event to an HTTP request. Raises NotAnHttpEvent or MalformedRequest."""
        try:
            event = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise NotAnHttpEvent("the event is not JSON") from error
        return self.read_event(event, context)

    def read_event(self, event: Any, context: Any) -> HttpRequest:
        """Convert a Lambda event to an HTTP request. Raises NotAnHttpEvent or MalformedRequest."""
        if not isinstance(event, dict):
            raise NotAnHttpEvent("the event is not a JSON object")
        try:
            headers = _headers(event)
            # Read the headers here, and give mangum none: it joins cookies with commas, and fails for a Host header with
            # an IPv6 address.
            scope = self._mangum.infer({**event, "headers": {}, "multiValueHeaders": {}, "cookies": []}, context).scope
            path = _path(scope["path"], event)
            path.encode()  # raises UnicodeEncodeError
            changed = {
                "path": path,
                "raw_path": _raw_path(event).encode(),
                "headers": [[name.encode(), value.encode()] for name, value in headers.items()],
                "scheme": headers.get("x-forwarded-proto", "https"),
                "server": _server(headers),
                "aws.event": event,
            }
            return HttpRequest({**scope, **changed}, _body(event))
        except UnicodeEncodeError as error:
            raise MalformedRequest(
                "The request cannot be read: its path, query, headers or body have a character that UTF-8 cannot encode."
            ) from error
        # Catch several errors: mangum raises RuntimeError for an event of an unknown kind, and the others are raised for
        # an event that lacks a field of an HTTP event, such as a WebSocket event.
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise NotAnHttpEvent("the event is not from an HTTP entry point") from error


def _path(path: str, event: Mapping[str, Any]) -> str:
    """Return the path for the app. In the event of an HTTP API, the path begins with the stage, which is removed."""
    stage = event["requestContext"].get("stage")
    if event.get("version") != "2.0" or stage in (None, "", "$default") or not f"{path}/".startswith(f"/{stage}/"):
        return path
    return path.removeprefix(f"/{stage}") or "/"


def _raw_path(event: Mapping[str, Any]) -> str:
    """Return the path as the client has sent it; of a REST API without the stage, unless it has no slash after the stage."""
    raw: str = event.get("rawPath") or event["path"]
    context = event["requestContext"]
    return context["path"] if raw == "/" and context.get("path") == f"/{context.get('stage')}" else raw


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""Matches a header's name (a token of RFC 9110, 5.6.2)."""


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the event's headers with names in lower case, and the values of a repeated header joined.

    Values are joined by a comma (RFC 9110 5.3), those of cookies by a semicolon (RFC 9113 8.2.3). A header with an
    invalid name is omitted: with other characters than ASCII, a header lookup in Starlette would fail, and the name in
    lower case could be that of another header.
    """
    headers: dict[str, str] = dict(event.get("headers") or {})
    for name, values in (event.get("multiValueHeaders") or {}).items():
        headers[name] = ("; " if name.lower() == "cookie" else ", ").join(values)
    if event.get("cookies"):
        headers["cookie"] = "; ".join(event["cookies"])
    return {name.lower(): value for name, value in headers.items() if _HEADER_NAME.fullmatch(name)}


_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(:(?P<port>[0-9]{1,5}))?")
"""Matches a Host header: a host name or an IP address, and perhaps a port (RFC 9110, 7.2)."""


def _server(headers: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the called server's name and port, or None if the headers do not name it."""
    host, port = _HOST.fullmatch(headers.get("host", "")), headers.get("x-forwarded-port", "")
    if host is None:
        return None
    return host["name"], int(host["port"] or (port if re.fullmatch("[0-9]{1,5}", port) else 80))


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return bytes(body.encode())
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:
        raise MalformedRequest(
            "The body cannot be read: by isBase64Encoded of its Lambda event it is base64, but it is not. Encode the body, "
            "or set isBase64Encoded to false."
        ) from error
