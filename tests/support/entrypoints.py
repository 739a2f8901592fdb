"""HTTP entry points of AWS without a socket: each request is converted to a Lambda event, and back to a request."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.lambda_runtime.buffered import BufferedHandler
from aion_core.lambda_runtime.http_event import EventReader
from aion_core.lambda_runtime.invocation import InvocationContext
from tests.support.recorded import recorded_event, rest_api_event

CONTEXT = InvocationContext(
    "r-1", "arn:aws:lambda:eu-west-1:123456789012:function:api", 4102444800000, "api", "7", 1024, "", ""
)

EventOf = Callable[[Request, bytes], dict[str, Any]]


def rest_api(app: ASGIApp, domain: str, stage: str = "") -> ASGIApp:
    """Return the app behind a REST API with this host name; paths at a custom domain have no stage."""
    return behind(app, lambda request, body: rest_api_event(request, body, domain=domain, stage=stage))


def function_url(app: ASGIApp, domain: str, stage: str = "$default") -> ASGIApp:
    """Return the app behind a Function URL, or behind an HTTP API with a stage; both send the same events."""

    def event_of(request: Request, body: bytes) -> dict[str, Any]:
        path, query = request.url.path, request.url.query
        event = recorded_event("function_url_v2", rawPath=path, rawQueryString=query, body=body.decode())
        event |= {"headers": dict(request.headers), "cookies": [], "isBase64Encoded": False}
        event["requestContext"] |= {"domainName": domain, "stage": stage}
        event["requestContext"]["http"] |= {"method": request.method, "path": path}
        return event

    return behind(app, event_of)


def behind(app: ASGIApp, event_of: EventOf) -> ASGIApp:
    """Return the app as our runtime calls it, with the Lambda event that `event_of` makes of each request."""
    reader = EventReader(cast("Any", app))

    async def entrypoint_url(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        event = event_of(request, await request.body())
        read = reader.read(json.dumps(event).encode(), CONTEXT)
        unread = [read.body]

        async def receive_event() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError

        await app({**read.scope, "state": {}}, receive_event, send)

    return entrypoint_url


SAM_LOCAL = "127.0.0.1:3000"


def sam_event(request: Request, body: bytes) -> dict[str, Any]:
    """Return the event as `sam local start-api` makes it (samcli 1.170): the body as text, and the route as path."""
    event = rest_api_event(request, body, domain=SAM_LOCAL)
    route = "/" if event["path"] == "/" else "/{proxy+}"
    event["requestContext"] |= {"path": route, "resourcePath": route, "stage": "dev"}
    forwarded = {"X-Forwarded-Proto": "http", "X-Forwarded-Port": SAM_LOCAL.rpartition(":")[2]}
    event["headers"] |= forwarded
    event["multiValueHeaders"] |= {name: [value] for name, value in forwarded.items()}
    return event | {"resource": route, "body": body.decode() or None, "isBase64Encoded": False}


Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Function from an event to the buffered response of a Lambda function."""


def sam_local(app: ASGIApp, event_of: EventOf = sam_event) -> ASGIApp:
    """Return the app as a client of `sam local start-api` reaches it: through the buffered handler and SAM CLI."""
    handler = BufferedHandler(cast("Any", app))
    return by_sam(lambda event: handler.answer(event, CONTEXT), event_of)


def by_sam(answer_of: Answer, event_of: EventOf = sam_event) -> ASGIApp:
    """Return the function behind SAM CLI, as a server."""

    async def served_by_sam(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        event = json.loads(json.dumps(event_of(request, await request.body())))
        answer = json.loads(json.dumps(await answer_of(event)))
        # As for a REST API, SAM CLI refuses a response with other keys.
        assert answer.keys() <= {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}, answer
        headers = MutableHeaders()
        for name, value in answer["headers"].items():
            headers.append(name, value)
        for name, values in answer["multiValueHeaders"].items():
            for value in values:
                headers.append(name, value)
        headers.setdefault("content-type", "application/json")
        # SAM CLI decodes no base64 for a template without BinaryMediaTypes, and its server cuts the body to the header's
        # length.
        body = (answer["body"] or "").encode()
        if request.method != "HEAD":
            body = body[: int(headers.get("content-length", len(body)))]
        await send({"type": "http.response.start", "status": answer["statusCode"], "headers": headers.raw})
        await send({"type": "http.response.body", "body": body})

    return served_by_sam
