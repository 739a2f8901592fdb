"""Compression of large unary responses."""

import gzip
import json
from typing import Any

import httpx
import pytest

from tests.support.agents.counting import talking
from tests.support.asgi import AsgiAnswer, call
from tests.support.rows import each_row
from tests.support.service import http, parts, send

LONG = "a long text " * 4000


async def ask(app: Any, request: dict[str, Any], accepts: str = "gzip") -> AsgiAnswer:
    headers = {"content-type": "application/json", **({"accept-encoding": accepts} if accepts else {})}
    return await call(app, "POST", "/", json.dumps(request).encode(), headers)


async def test_large_unary_response_is_compressed() -> None:
    app = parts(talking(1)).app()
    plain = await ask(app, send(LONG, contextId="c-1"), accepts="")
    assert "content-encoding" not in plain.headers
    small = await ask(app, send(LONG, contextId="c-1"))
    assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(small.headers["content-length"]) == len(small.body) < len(plain.body) / 10
    assert json.loads(gzip.decompress(small.body)) == json.loads(plain.body), "the same message returns its task"


@each_row(
    ("accepts", "encoding"),
    [
        ("gzip;q=0", None),
        ("GZIP ; Q=0.000, identity", None),
        ("br, gzip;q=0, *;q=0.5", None),
        ("gzip;q=0.001", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("gzip;q=1.0, identity;q=0", "gzip"),
    ],
)
async def test_encoding_with_weight_zero_is_not_used(accepts: str, encoding: str | None) -> None:
    answer = await ask(parts(talking(1)).app(), send(LONG), accepts)
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("method", ["SendStreamingMessage", "message/stream"])
async def test_stream_is_never_compressed(method: str) -> None:
    answer = await ask(parts(talking(1)).app(), send(LONG, method=method))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in answer.headers
    assert LONG[:100].encode() in answer.body


async def test_small_response_and_card_are_not_compressed() -> None:
    app = parts(talking(1)).app()
    assert "content-encoding" not in (await ask(app, send("hi"))).headers
    async with http(app) as client:
        card: httpx.Response = await client.get("/.well-known/agent-card.json", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in card.headers
    assert card.headers["etag"]
