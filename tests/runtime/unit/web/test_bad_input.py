"""Invalid JSON-RPC requests: error code, and a message with the remedy."""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.agents.counting import talking
from tests.support.rows import each_row
from tests.support.service import http, parts, rpc_body, send

PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with http(parts(talking(1)).app()) as client:
        yield client


def refused(answer: httpx.Response, code: int, *words: str, status: int = 200) -> dict[str, Any]:
    assert answer.status_code == status
    body = rpc_body(answer)
    assert body["jsonrpc"] == "2.0"
    assert "result" not in body
    assert body["error"]["code"] == code, body
    for word in words:
        assert word in body["error"]["message"]
    assert len(body["error"]["message"]) > 20, "a sentence, not a label"
    assert "Traceback" not in answer.text
    return body


def changed(request: dict[str, Any], **message: Any) -> dict[str, Any]:
    request["params"]["message"].update(message)
    return request


UNCLOSED = (PARAMS, "levels") if sys.version_info < (3, 12) else (PARSE, "The body is ")


@each_row(
    ("body", "code", "word"),
    [
        (b"", PARSE, "empty"),
        (b'{"jsonrpc": "2.0", }', PARSE, "JSON"),
        (b"\xff\xfe{\x00}\x00", PARSE, "UTF-8"),
        (b"\xef\xbb\xbf{}", REQUEST, "jsonrpc"),  # a byte order mark is ignored
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"x": NaN}}', PARSE, "NaN"),
        # For unclosed nesting, Python before 3.13 reports its recursion limit; later versions report the body's end.
        (b"[" * 4_000, *UNCLOSED),
        (b"[" * 2_000 + b"]" * 2_000, PARAMS, "levels"),
        (b"[" * 100_000, PARAMS, "5000 values"),
        (b'{"params": {"a": {"b": 1, "b": 2}}}', REQUEST, "twice"),
        (b'{"n": 9007199254740993}', PARAMS, "2^53"),
        (b'{"text": "\\ud83d"}', PARAMS, "surrogate"),
        (b"[]", REQUEST, ""),
        (b"null", REQUEST, ""),
        (b'{"id": 1, "method": "SendMessage"}', REQUEST, "2.0"),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "SendMessage"}', REQUEST, "2.0"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', REQUEST, ""),
        (b'{"jsonrpc": "2.0", "id": true, "method": "SendMessage"}', REQUEST, ""),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "SendMessage"}', REQUEST, ""),
    ],
)
async def test_invalid_request_is_refused(client: httpx.AsyncClient, body: bytes, code: int, word: str) -> None:
    answer = await client.post("/", content=body, headers=JSON)
    assert refused(answer, code, word)["id"] is None or b'"id": 1,' in body


@each_row("request_id", [7, "r-7", ""])
@each_row("text", ['"\\ud83d"', "9007199254740993", "9" * 5000, "1e999", "[" * 40 + "]" * 40])
async def test_invalid_params_error_has_request_id(client: httpx.AsyncClient, request_id: str | int, text: str) -> None:
    """The request's id can be read, so the error must return it (JSON-RPC 2.0, 5)."""
    body = f'{{"params": {{"x": {text}}}, "method": "SendMessage", "id": {json.dumps(request_id)}, "jsonrpc": "2.0"}}'
    assert refused(await client.post("/", content=body, headers=JSON), PARAMS)["id"] == request_id
    body = f'{{"jsonrpc": "2.0", "id": {text}, "method": "SendMessage", "params": {{}}}}'
    assert refused(await client.post("/", content=body, headers=JSON), PARAMS)["id"] is None


@pytest.mark.parametrize("text", ['"\\ud83d"', '{"\\ud83d": 1}', "9007199254740993", "1e999"])
async def test_error_names_field_with_invalid_text_or_number(client: httpx.AsyncClient, text: str) -> None:
    sent = json.dumps(send(metadata={"flat": 1, "of": [0, {"value": "HERE"}]})).replace('"HERE"', text)
    error = refused(await client.post("/", content=sent, headers=JSON), PARAMS)["error"]
    assert [each["field"] for each in error["data"][1]["fieldViolations"]] == ["message.metadata.of[1].value"]


async def test_error_for_reused_message_id_names_that_field(client: httpx.AsyncClient) -> None:
    await client.post("/", json=send("first", contextId="c"))
    error = refused(await client.post("/", json=send("second", contextId="c")), PARAMS)["error"]
    assert [each["field"] for each in error["data"][1]["fieldViolations"]] == ["message.messageId"]


@pytest.mark.parametrize("method", ["Nope", "message/nope", "sendMessage", "", "__init__"])
async def test_unknown_method_error_lists_methods(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
    if method:
        refused(answer, METHOD, "SendMessage", "message/send")
    else:
        refused(answer, REQUEST)


@each_row(
    ("method", "params", "sentence"),
    [
        ("SendMessage", {}, "message is missing: send"),
        ("message/send", None, "params is missing: it has to be given."),
        ("message/send", {}, "message is missing: it has to be given."),
        ("tasks/get", None, "params is missing: it has to be given."),
        ("tasks/get", {}, "id is missing: it has to be given."),
        ("message/send", {"message": {"messageId": "m", "role": "user"}}, "message.parts is missing: it has to be"),
        (
            "message/send",
            {"message": {"messageId": 3, "role": "user", "parts": []}},
            "message.messageId cannot be used",
        ),
        ("GetTask", {}, "id is missing: it is the task's id"),
        (
            "SendMessage",
            {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a", "url": "b"}]}},
            "message.parts[0] cannot be used: it has more than one content, and may have one.",
        ),
    ],
)
async def test_error_message_names_field(client: httpx.AsyncClient, method: str, params: Any, sentence: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
    error = refused(await client.post("/", json=body), PARAMS)["error"]
    assert error["message"].startswith(f"Invalid parameters. {sentence}")
    [violation, *_] = error["data"][1]["fieldViolations"]
    assert sentence.startswith(f"{violation['field']} ")
    assert violation["description"].startswith(sentence)


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_json_rpc_is_read_as_a2a_json_too(client: httpx.AsyncClient, method: str) -> None:
    """The body is unambiguous; the answer has the type that the specification names (A2A 9.1)."""
    headers = {"Content-Type": "application/a2a+json; charset=utf-8"}
    answer = await client.post("/", content=json.dumps(send(method=method)), headers=headers)
    assert "result" in answer.json()
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_task_of_deepest_accepted_message_can_be_read(client: httpx.AsyncClient, method: str) -> None:
    """Send messages of growing depth: each accepted one must be readable, or its task would be lost."""
    kind = {"kind": "data"} if "/" in method else {}
    taken = 0
    for depth in range(20, 40):
        data: dict[str, Any] = {"leaf": True}
        for _ in range(depth):
            data = {"in": data}
        body = changed(send(method=method, message_id=f"m-{depth}"), parts=[{**kind, "data": data}], metadata=data)
        answer = (await client.post("/", json=body)).json()
        if "error" in answer:
            assert answer["error"]["code"] == PARAMS
            assert "levels" in answer["error"]["message"]
            continue
        taken = depth
        task = answer["result"].get("task", answer["result"])
        get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
        stored = (await client.post("/", json=get)).json()["result"]
        assert stored["history"][0]["parts"][0]["data"] == data
    assert 24 <= taken < 39


async def test_error_lists_at_most_ten_fields(client: httpx.AsyncClient) -> None:
    body = send("x", method="message/send")
    body["params"]["message"]["parts"] = [{"kind": "text"}] * 256
    answer = await client.post("/", json=body)
    error = refused(answer, PARAMS, "message.parts[0] cannot be used")["error"]
    assert len(error["data"][1]["fieldViolations"]) == 10
    assert len(answer.content) < 8 * 1024


@each_row("method", ["message/send", "message/stream"])
@each_row("character", ["\x01", '"', "\N{LINE SEPARATOR}", "\N{GRINNING FACE}"])
async def test_error_response_quotes_few_control_characters_of_request(
    client: httpx.AsyncClient, method: str, character: str
) -> None:
    """Send control characters, each six bytes in JSON: the error must not quote many of them."""
    body = changed(send("x", method=method), role=character * 1000)
    answer = await client.post("/", json={**body, "id": character * 256})
    assert refused(answer, PARAMS, "message.")["id"] == character * 256
    assert len(answer.content) <= 8 * 1024
