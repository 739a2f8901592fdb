"""Emulated REST API of API Gateway: turns each request into a Lambda event, and streams the function's response.

Like a deployment with `ApiAuthorizer: AWS_IAM`, the REST API requires AWS signatures.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.fake_runtime_api import DELIMITER, FakeInvocation, FakeRuntimeApi
from tests.support.listening import listening
from tests.support.recorded import rest_api_event

STAGE, REGION = "dev", "us-east-1"
CALLER = {"AWS_ACCESS_KEY_ID": "AKIACALLER", "AWS_SECRET_ACCESS_KEY": "the-callers-secret"}
ARN = "arn:aws:sts::123456789012:assumed-role/Developer/me"
DEADLINE = 120.0


@dataclass
class RestApi:
    """Running REST API: clients use `url`, and the function's runtime uses `runtime`, the address of the Runtime API."""

    url: str = ""
    runtime: str = ""
    signed: bool = True
    """True if requests need an AWS signature."""
    requests: list[str] = field(default_factory=list)
    """Methods and paths of the requests."""


@contextmanager
def rest_api(runtime_host: str = "127.0.0.1") -> Iterator[RestApi]:
    """Serve the REST API on loopback, and the Runtime API on this address, until the block ends.

    The function's runtime may connect later.
    """
    entrypoint_url = RestApi()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with FakeRuntimeApi(host=runtime_host) as api:
            entrypoint_url.runtime = api.address
            app.state.api = api
            yield

    async def serve(request: Request) -> Response:
        entrypoint_url.requests.append(f"{request.method} {request.url.path}")
        body = await request.body()
        identity = signer_of(request, body) if entrypoint_url.signed else {}
        if identity is None:
            return JSONResponse({"message": "Missing Authentication Token"}, 403)
        # Use the server's address as the domain, because API Gateway puts its own domain name into the event, not the
        # client's Host header.
        domain = ":".join(map(str, request.scope["server"]))
        event = rest_api_event(request, body, domain=domain, stage=STAGE, identity=identity)
        invocation = request.app.state.api.invoke(event, deadline_in=DEADLINE)
        return await _answer(invocation)

    app = Starlette(lifespan=lifespan, routes=[Route("/{path:path}", serve, methods=["GET", "POST", "PUT", "DELETE"])])
    with listening(app) as address:
        entrypoint_url.url = f"{address}/{STAGE}"
        yield entrypoint_url


def signer_of(request: Request, body: bytes) -> dict[str, Any] | None:
    """Compute the signature again; return the signer's identity, or None for a missing or wrong signature."""
    authorization = request.headers.get("authorization", "")
    named = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: request.headers[name] for name in named if name in request.headers}
    again = AWSRequest(request.method, str(request.url), headers=headers, data=body)
    again.context["timestamp"] = request.headers.get("x-amz-date", "")
    signer = SigV4Auth(Credentials(*CALLER.values()), "execute-api", REGION)
    text = signer.string_to_sign(again, signer.canonical_request(again))
    if f"Signature={signer.signature(text, again)}" not in authorization or "host" not in named:
        return None
    return {"userArn": ARN, "caller": "AROACALLER:me", "accountId": "123456789012", "accessKey": "AKIACALLER"}


async def _answer(invocation: FakeInvocation) -> Response:
    pieces = _pieces(invocation)
    head = b""
    while DELIMITER not in head:
        head += await anext(pieces)
    prelude, _, first = head.partition(DELIMITER)
    said = json.loads(prelude)

    async def body() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return StreamingResponse(body(), said["statusCode"], said["headers"])


async def _pieces(invocation: FakeInvocation) -> AsyncIterator[bytes]:
    """Yield the chunks of the function's response as they arrive."""
    passed = 0

    def there_is_news() -> bool:
        answer = invocation.answer
        return answer is not None and (answer.complete or len(answer.chunks) > passed)

    while True:
        await invocation._api.until(there_is_news)
        assert invocation.answer is not None
        if passed == len(invocation.answer.chunks):
            return
        yield invocation.answer.chunks[passed]
        passed += 1
