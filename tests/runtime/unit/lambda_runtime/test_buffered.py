"""Buffered handler: whole responses of an ASGI app to Lambda's HTTP events, with one event loop for all."""

import asyncio
import base64
import gzip
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from mangum.types import Receive, Scope, Send

from aion_core.lambda_runtime.buffered import MAX_RESPONSE, BufferedHandler
from aion_core.lambda_runtime.http_event import NotAnHttpEvent
from tests.support.entrypoints import CONTEXT
from tests.support.recorded import recorded_event
from tests.support.rows import each_row

EVENTS = ("rest_api_v1", "function_url_v2")
each_event = pytest.mark.parametrize("recorded", EVENTS)


class Says:
    """ASGI app with a fixed response in these pieces."""

    def __init__(self, *pieces: bytes, headers: Sequence[tuple[bytes, bytes]] = (), status: int = 200) -> None:
        self._pieces, self._headers, self._status = pieces, headers, status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})


def answer(app: Any, recorded: str = "rest_api_v1", **changes: Any) -> dict[str, Any]:
    returned = BufferedHandler(app)(recorded_event(recorded, **changes), CONTEXT)
    # The runtime sends the response as JSON.
    told: dict[str, Any] = json.loads(json.dumps(returned))
    return told


TEXTS = {
    "application/a2a+json": '{"text": "Grüße \N{WAVING HAND SIGN}"}',
    "application/json": "{}",
    "text/event-stream; charset=utf-8": "data: {}\n\n",
    "text/html": "<p>",
    "application/problem+json": "{}",
    "image/svg+xml": "<svg/>",
    "": "no media type",
}


@each_event
@each_row("media_type", TEXTS)
def test_text_of_each_media_type_stays_text(recorded: str, media_type: str) -> None:
    text = TEXTS[media_type]
    headers = [(b"content-type", media_type.encode())] if media_type else []
    told = answer(Says(text.encode()[:3], b"", text.encode()[3:], headers=headers), recorded)
    assert (told["statusCode"], told["body"], told["isBase64Encoded"]) == (200, text, False)
    assert told["headers"] == ({"content-type": media_type} if media_type else {})


@each_row(
    ("body", "headers"),
    [
        (bytes(range(256)), [(b"content-type", b"image/png")]),
        (b"\xff", [(b"content-type", b"text/plain")]),
        (gzip.compress(b"a", mtime=0), [(b"content-encoding", b"gzip"), (b"content-type", b"application/json")]),
        (b"text by chance", [(b"content-encoding", b"br")]),
    ],
)
def test_binary_body_becomes_base64(body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    told = answer(Says(body, headers=headers))
    assert told["isBase64Encoded"]
    assert base64.b64decode(told["body"]) == body


def test_cookies_have_the_form_of_each_entry_point() -> None:
    app = Says(headers=[(b"Set-Cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"x", b"1"), (b"x", b"\xe9")], status=204)
    rest, url = answer(app, "rest_api_v1"), answer(app, "function_url_v2")
    same = {"statusCode": 204, "headers": {"x": "1, é"}, "body": "", "isBase64Encoded": False}
    assert rest == {**same, "multiValueHeaders": {"set-cookie": ["a=1", "b=2"]}}
    assert url == {**same, "cookies": ["a=1", "b=2"]}


async def fails_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("the secret reason")


async def fails_in_body(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"to be cont", "more_body": True})
    raise RuntimeError("the secret reason")


async def never_ends_body(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200})


async def sends_out_of_order(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"early"})


async def cancels_itself(scope: Scope, receive: Receive, send: Send) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@each_row("app", [fails_at_once, fails_in_body, never_ends_body, sends_out_of_order, cancels_itself])
def test_failed_app_gets_status_500_without_its_reason(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    told = answer(app)
    headers = {"content-type": "application/json", "x-content-type-options": "nosniff"}
    assert (told["statusCode"], told["headers"]) == (500, headers)
    assert json.loads(told["body"]) == {"message": "Internal Server Error"}
    if app in (fails_at_once, fails_in_body):
        assert "the secret reason" in caplog.text


@each_event
def test_undecodable_body_is_answered_with_status_400(recorded: str, caplog: pytest.LogCaptureFixture) -> None:
    told = answer(Says(b"reached"), recorded, body="not base64!", isBase64Encoded=True)
    assert (told["statusCode"], told["isBase64Encoded"]) == (400, False)
    assert told["headers"]["x-content-type-options"] == "nosniff"
    assert "Encode the body, or set isBase64Encoded to false." in json.loads(told["body"])["message"]
    assert [record.levelno for record in caplog.records if "cannot be read" in record.message] == [logging.WARNING]


@pytest.mark.parametrize("event", [recorded_event("sqs"), {}, None])
def test_event_without_request_is_an_invocation_error(event: Any) -> None:
    with pytest.raises(NotAnHttpEvent):
        BufferedHandler(Says(b"reached"))(event, CONTEXT)


def test_app_reads_body_then_learns_end_of_response() -> None:
    heard: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append((await receive())["body"])
        later = asyncio.ensure_future(receive())
        await Says(b"said")(scope, receive, send)
        heard.append((await later)["type"])

    assert answer(app, body="hello", isBase64Encoded=False)["body"] == "said"
    assert heard == [b"hello", "http.disconnect"]


def test_event_loop_stands_still_between_invocations() -> None:
    """Work that outlives its invocation continues in the next one, on the same event loop."""
    steps: list[str] = []
    loops = set()
    background: set[asyncio.Task[None]] = set()

    async def work() -> None:
        steps.append("begun")
        await asyncio.sleep(0.001)
        steps.append("continued")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        loops.add(asyncio.get_running_loop())
        if not background:
            background.add(asyncio.create_task(work()))
            await asyncio.sleep(0)
        else:
            await asyncio.gather(*background)
        await Says(" ".join(steps).encode())(scope, receive, send)

    handler = BufferedHandler(app)
    answers = [handler(recorded_event("rest_api_v1"), CONTEXT)["body"] for _ in range(2)]
    assert answers == ["begun", "begun continued"]
    assert len(loops) == 1


@each_row(
    ("body", "fits"),
    [
        (b"x" * 1024 * 1024, True),
        (b"x" * (MAX_RESPONSE - 200), True),
        (b"x" * MAX_RESPONSE, False),
        # Each of these characters has several in JSON.
        (b"\x01" * (MAX_RESPONSE // 6), False),
        (b'"' * (MAX_RESPONSE // 2), False),
        (b"\xff" * (MAX_RESPONSE * 3 // 4), False),
    ],
)
def test_response_beyond_lambdas_limit_becomes_an_error(body: bytes, fits: bool) -> None:
    told = answer(Says(body))
    assert len(json.dumps(told)) <= MAX_RESPONSE
    if fits:
        assert told["body"] == body.decode()
    else:
        assert told["statusCode"] == 500
        assert "larger than 6 MB" in json.loads(told["body"])["message"]
