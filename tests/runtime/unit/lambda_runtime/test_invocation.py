import json
import math
from typing import Any

import pytest
from aws_lambda_powertools.logging.lambda_context import build_lambda_context_model
from starlette.applications import Starlette
from starlette.datastructures import Headers

from aion_core.lambda_runtime.invocation import EventReader, HttpRequest, Invocation, InvocationContext, NotAnHttpEvent
from aion_core.lambda_runtime.settings import RuntimeSettings
from tests.support.recorded import function_url_event, recorded_event

SETTINGS = RuntimeSettings.from_environ(
    {
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
        "AWS_LAMBDA_FUNCTION_NAME": "agent-api",
        "AWS_LAMBDA_FUNCTION_VERSION": "7",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/agent-api",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2026/03/27/[7]0f1e2d3c4b5a",
    }
)
HEADERS = {
    "lambda-runtime-aws-request-id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
    "lambda-runtime-deadline-ms": "4102444800000",
    "lambda-runtime-invoked-function-arn": "arn:aws:lambda:eu-west-1:123456789012:function:agent-api:live",
}
CONTEXT = InvocationContext.of(Invocation.from_response(HEADERS, b""), SETTINGS)


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
        "raw_path": None,
        "root_path": "",
        "query_string": b"historyLength=3&state=submitted&state=working",
        "headers": [
            [b"a2a-version", b"1.0"],
            [b"accept", b"text/event-stream"],
            [b"authorization", b"Bearer header.payload.signature"],
            [b"cloudfront-viewer-country", b"IE"],
            [b"content-type", b"application/json"],
            [b"host", b"a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"],
            [b"user-agent", b"python-httpx/0.28.1"],
            [b"x-amzn-trace-id", b"Root=1-67e5d9a1-0f3c2b7a4d5e6f708192a3b4"],
            [b"x-forwarded-for", b"203.0.113.17"],
            [b"x-forwarded-port", b"443"],
            [b"x-forwarded-proto", b"https"],
            [b"x-tag", b"one, two"],
            [b"cookie", b"session=abc123; theme=dark"],
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
        "raw_path": None,
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("recorded", ["function_url_v2", "rest_api_v1"])
@pytest.mark.parametrize("name", ["X-\u00c4", "\u00c4", "x y", "x:", "", "authorization\u00a0", "x\n", "\u212aey"])
async def test_header_with_invalid_name_is_omitted(recorded: str, name: str) -> None:
    """Starlette raises KeyError for some header names with other characters than ASCII."""
    event = recorded_event(recorded)
    event["headers"][name] = "value"
    scope, _ = await read(event)
    assert dict(Headers(scope=scope)) == dict(Headers(scope=(await read(recorded_event(recorded))).scope))


@pytest.mark.parametrize("missing", [{"body": None}, {"body": ""}])
async def test_missing_body_in_lambda_event_becomes_empty_body(missing: dict[str, Any]) -> None:
    assert (await read(recorded_event("rest_api_v1", **missing))).body == b""


@pytest.mark.parametrize(
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
        recorded_event("rest_api_v1", body="not base64!", isBase64Encoded=True),
        function_url_event("/") | {"headers": None},
        function_url_event("/") | {"headers": {"host": "[::1]:80:x"}},
        function_url_event("/") | {"headers": {"accept": 1}},
        recorded_event("rest_api_v1", multiValueHeaders={"cookie": [1]}),
    ],
)
async def test_unsupported_lambda_event_is_refused(event: Any) -> None:
    with pytest.raises(NotAnHttpEvent):
        await read(event)


def test_lambda_context_has_attribute_names_used_by_powertools() -> None:
    model = build_lambda_context_model(CONTEXT)
    assert model.__dict__ == {
        "function_name": "agent-api",
        "function_memory_size": 1024,
        "function_arn": "arn:aws:lambda:eu-west-1:123456789012:function:agent-api:live",
        "function_request_id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
    }


def test_remaining_invocation_time_is_never_negative() -> None:
    over = Invocation.from_response(HEADERS | {"lambda-runtime-deadline-ms": "1"}, b"")
    assert InvocationContext.of(over, SETTINGS).get_remaining_time_in_millis() == 0
    assert over.seconds_left() < 0
    assert 0 < CONTEXT.get_remaining_time_in_millis() < math.inf


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"lambda-runtime-aws-request-id": "r"},
        {"lambda-runtime-aws-request-id": "r", "lambda-runtime-deadline-ms": "soon"},
    ],
)
def test_invocation_needs_id_and_deadline(headers: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError)):
        Invocation.from_response(headers, b"{}")
