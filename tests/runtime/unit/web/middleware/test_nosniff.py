"""Each response says that a browser must not guess its media type: an agent's answer, a stream, a refusal, a page."""

import httpx
from starlette.requests import Request
from starlette.responses import Response

from tests.runtime.unit.engine.teller import Teller
from tests.support.rows import each_row
from tests.support.service import http, parts, send


@each_row(
    ("method", "path", "body"),
    [
        ("POST", "/", send("hello")),
        ("POST", "/", send("hello", method="SendStreamingMessage")),
        ("POST", "/", {"jsonrpc": "2.0", "id": 1, "method": "Nothing"}),
        ("GET", "/tasks/nope", None),
        ("GET", "/nothing", None),
        ("GET", "/.well-known/agent-card.json", None),
        ("GET", "/health/", None),
        ("OPTIONS", "/", None),
    ],
)
async def test_browser_does_not_guess_media_type(method: str, path: str, body: object) -> None:
    async with http(parts(Teller()).app()) as client:
        answered: httpx.Response = await client.request(method, path, json=body)
    assert answered.headers.get_list("x-content-type-options") == ["nosniff"]


async def test_failure_outside_of_all_operations_says_it_too() -> None:
    app = parts(Teller()).app()

    async def fails(request: Request) -> Response:
        raise RuntimeError(request.url.path)

    app.add_route("/fails", fails)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answered = await client.get("/fails")
    assert (answered.status_code, answered.text) == (500, "Internal Server Error")
    assert answered.headers.get_list("x-content-type-options") == ["nosniff"]
