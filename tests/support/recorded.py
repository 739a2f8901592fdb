"""Lambda events recorded in tests/support/events, and events of the same HTTP entry points made for other requests."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request

EVENTS = Path(__file__).parent / "events"


def recorded_event(name: str, **changes: Any) -> dict[str, Any]:
    """Return a fresh copy of the event of this name, with these keys changed."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event | changes


def function_url_event(path: str, method: str = "GET", body: str = "", query: str = "") -> dict[str, Any]:
    """Return a Function URL's event for a plain request."""
    event = recorded_event("function_url_v2", rawPath=path, rawQueryString=query, body=body, isBase64Encoded=False)
    event["requestContext"]["http"] |= {"method": method, "path": path}
    return event


def rest_api_event(
    request: Request, body: bytes, *, domain: str, stage: str = "", identity: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return API Gateway's event for the request at this host name of a REST API.

    The function's path has no stage. At a custom domain no path has a stage.
    """
    whole = request.url.path
    path = whole.removeprefix(f"/{stage}") or "/" if stage else whole
    event = recorded_event("rest_api_v1", path=path, httpMethod=request.method)
    headers = [(name.title(), value) for name, value in request.headers.items()]
    event["headers"] = dict(headers)
    event["multiValueHeaders"] = {name: [value for n, value in headers if n == name] for name, _ in headers}
    query = request.query_params
    event["queryStringParameters"] = dict(query) or None
    event["multiValueQueryStringParameters"] = {name: query.getlist(name) for name in query} or None
    event["pathParameters"] = {"proxy": path.lstrip("/")}
    event["requestContext"] |= {"path": whole, "httpMethod": request.method, "domainName": domain}
    event["requestContext"] |= {"stage": stage} if stage else {}
    event["requestContext"]["identity"] |= identity or {}
    event["body"], event["isBase64Encoded"] = base64.b64encode(body).decode(), True
    return event
