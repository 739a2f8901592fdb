"""Lambda's HTTP events as ASGI requests: of REST APIs, HTTP APIs and Function URLs, and malformed ones."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers

from aion_core.lambda_runtime.http_event import EventReader, HttpRequest, MalformedRequest, NotAnHttpEvent
from tests.support.entrypoints import CONTEXT
from tests.support.recorded import function_url_event, recorded_event
from tests.support.rows import each_row


async def read(event: Any) -> HttpRequest:
    return EventReader(Starlette()).read(json.dumps(event).encode(), CONTEXT)


async def test_rest_api_event_converts_to_scope() -> None:
    event = recorded_event("rest_api_v1")
    scope, body = await read(event)
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        # Expect the path without the stage: a REST API's event has the stage in requestContext.path, not in path.
        "path": "/agents/weather/message:send",
        "raw_path": b"/agents/weather/message:send",
        "root_path": "",
        "query_string": b"historyLength=3&state=submitted&state=working",
        "headers": [
            [b"a2a-version", b"1.0"],
            [b"accept", b"text/event-stream"],
            [b"authorization", b"Bearer header.payload.signature"],
            [b"cloudfront-viewer-country", b"IE"],
            [b"content-type", b"application/json"],
            [b"cookie", b"session=abc123; theme=dark"],
            [b"host", b"a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"],
            [b"user-agent", b"python-httpx/0.28.1"],
            [b"x-amzn-trace-id", b"Root=1-67e5d9a1-0f3c2b7a4d5e6f708192a3b4"],
            [b"x-forwarded-for", b"203.0.113.17"],
            [b"x-forwarded-port", b"443"],
            [b"x-forwarded-proto", b"https"],
            [b"x-tag", b"one, two"],
        ],
        "server": ("a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com", 443),
        "client": ("203.0.113.17", 0),
        "aws.event": event,
        "aws.context": CONTEXT,
    }
    assert body == '{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"Grüße"}]}}'.encode()


async def test_function_url_event_converts_to_scope() -> None:
    event = recorded_event("function_url_v2")
    scope, body = await read(event)
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.0"},
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "https",
        "path": "/files/café menu",
        "raw_path": b"/files/caf%C3%A9%20menu",
        "root_path": "",
        "query_string": b"tag=a&tag=b%20c&empty=",
        "headers": [
            [b"accept", b"*/*"],
            [b"content-length", b"10"],
            [b"content-type", b"application/octet-stream"],
            [b"host", b"abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-west-1.on.aws"],
            [b"user-agent", b"curl/8.9.1"],
            [b"x-amzn-tls-cipher-suite", b"TLS_AES_128_GCM_SHA256"],
            [b"x-amzn-tls-version", b"TLSv1.3"],
            [b"x-amzn-trace-id", b"Root=1-67e5da02-1b2c3d4e5f60718293a4b5c6"],
            [b"x-forwarded-for", b"198.51.100.7"],
            [b"x-forwarded-port", b"443"],
            [b"x-forwarded-proto", b"https"],
            [b"cookie", b"session=abc123; theme=dark"],
        ],
        "server": ("abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-west-1.on.aws", 443),
        "client": ("198.51.100.7", 0),
        "aws.event": event,
        "aws.context": CONTEXT,
    }
    assert body == bytes([0, 1, 2, 3, 255, 254, 253, 252, 97, 98])


@each_row(
    ("stage", "path", "app_path"),
    [
        ("prod", "/prod/tasks", "/tasks"),
        ("prod", "/prod", "/"),
        ("prod", "/prod/prod/", "/prod/"),
        ("prod", "/production", "/production"),
        ("prod", "/tasks", "/tasks"),
        ("$default", "/$default/tasks", "/$default/tasks"),
        ("", "/tasks", "/tasks"),
    ],
)
async def test_stage_of_http_api_is_removed_from_path(stage: str, path: str, app_path: str) -> None:
    event = function_url_event(path)
    event["requestContext"]["stage"] = stage
    assert (await read(event)).scope["path"] == app_path


@each_row(
    ("path", "client_path", "raw_path"),
    [("/", "/prod", "/prod"), ("/", "/prod/", "/"), ("/", "/base", "/"), ("/tasks", "/prod/tasks", "/tasks")],
)
async def test_raw_path_of_rest_api_tells_missing_slash(path: str, client_path: str, raw_path: str) -> None:
    event = recorded_event("rest_api_v1", path=path)
    event["requestContext"] |= {"stage": "prod", "path": client_path}
    assert (await read(event)).scope["raw_path"] == raw_path.encode()


@each_row("recorded", ["function_url_v2", "rest_api_v1"])
@each_row("name", ["X-\u00c4", "\u00c4", "x y", "x:", "", "authorization\u00a0", "x\n", "\u212aey"])
async def test_header_with_invalid_name_is_omitted(recorded: str, name: str) -> None:
    """Starlette raises KeyError for some header names with other characters than ASCII."""
    event = recorded_event(recorded)
    event["headers"][name] = "value"
    scope, _ = await read(event)
    assert dict(Headers(scope=scope)) == dict(Headers(scope=(await read(recorded_event(recorded))).scope))


@pytest.mark.parametrize("missing", [{"body": None}, {"body": ""}])
async def test_missing_body_in_lambda_event_becomes_empty_body(missing: dict[str, Any]) -> None:
    assert (await read(recorded_event("rest_api_v1", **missing))).body == b""


@each_row(
    "event",
    [
        recorded_event("sqs"),
        recorded_event("eventbridge_schedule"),
        {},
        [],
        "requestContext",
        42,
        None,
        # Events that look like an HTTP event, but cannot be read as one:
        {"requestContext": {"routeKey": "$connect", "eventType": "CONNECT"}, "isBase64Encoded": False},
        {"resource": "/", "requestContext": None},
        {"version": "2.0", "requestContext": {"http": {}}},
        {"requestContext": 1},
        {"Records": {}},
        {"Records": [{"cf": {"request": {"headers": {}, "uri": "/", "method": "GET", "clientIp": "::1"}}}]},
        recorded_event("rest_api_v1", body=7, isBase64Encoded=True),
        recorded_event("rest_api_v1", body={"a": 1}, isBase64Encoded=False),
        function_url_event("/") | {"headers": {"accept": 1}},
        recorded_event("rest_api_v1", multiValueHeaders={"cookie": [1]}),
    ],
)
async def test_unsupported_lambda_event_is_refused(event: Any) -> None:
    with pytest.raises(NotAnHttpEvent):
        await read(event)


@each_row("recorded", ["function_url_v2", "rest_api_v1"])
@each_row(
    ("changes", "told"),
    [
        ({"body": "not base64!", "isBase64Encoded": True}, "isBase64Encoded"),
        ({"body": '{"jsonrpc": "2.0"}', "isBase64Encoded": True}, "isBase64Encoded"),
        ({"body": "AAA", "isBase64Encoded": True}, "isBase64Encoded"),
        ({"body": "QUJD\n", "isBase64Encoded": True}, "isBase64Encoded"),
        ({"body": "Grüße", "isBase64Encoded": True}, "isBase64Encoded"),
        ({"body": "half a pair: \ud800", "isBase64Encoded": False}, "UTF-8"),
        ({"headers": {"accept": "\ud800"}, "multiValueHeaders": {"accept": ["\ud800"]}}, "UTF-8"),
        ({"path": "/\ud800", "rawPath": "/\ud800"}, "UTF-8"),
        ({"multiValueQueryStringParameters": {"a": ["\ud800"]}, "rawQueryString": "a=\ud800"}, "UTF-8"),
    ],
)
async def test_undecodable_part_of_request_is_named(recorded: str, changes: dict[str, Any], told: str) -> None:
    event = recorded_event(recorded, **changes)
    if recorded == "function_url_v2":
        event["requestContext"]["http"]["path"] = event["rawPath"]
    with pytest.raises(MalformedRequest, match=told):
        await read(event)


@each_row("recorded", ["function_url_v2", "rest_api_v1"])
@each_row(
    ("headers", "server"),
    [
        ({"host": "agents.example.com"}, ("agents.example.com", 80)),
        ({"host": "127.0.0.1:3000", "x-forwarded-port": "443"}, ("127.0.0.1", 3000)),
        ({"host": "[::1]:3000"}, ("[::1]", 3000)),
        ({"host": "agents.example.com", "x-forwarded-port": "443"}, ("agents.example.com", 443)),
        ({"host": "agents.example.com", "x-forwarded-port": "1, 443"}, ("agents.example.com", 80)),
        ({"host": "[::1]:80:x"}, None),
        ({"host": "a:b"}, None),
        ({"host": ""}, None),
        ({}, None),
        (None, None),
    ],
)
async def test_odd_host_header_does_not_prevent_reading(
    recorded: str, headers: dict[str, str] | None, server: tuple[str, int] | None
) -> None:
    scope, _ = await read(recorded_event(recorded, headers=headers, multiValueHeaders=None, cookies=[]))
    assert scope["server"] == server
    assert dict(Headers(scope=scope)) == (headers or {})


async def test_repeated_header_is_joined_by_comma_and_cookie_by_semicolon() -> None:
    several = {"X-Tag": ["one", "two"], "Cookie": ["a=1", "b=2"]}
    scope, _ = await read(recorded_event("rest_api_v1", headers={"x-tag": "two"}, multiValueHeaders=several))
    assert dict(Headers(scope=scope)) == {"x-tag": "one, two", "cookie": "a=1; b=2"}
