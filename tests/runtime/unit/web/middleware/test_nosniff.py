"""Each response says that a browser must not guess its media type: an agent's answer, a stream, a refusal, a page."""

import httpx

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
