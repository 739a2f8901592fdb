"""Invalid JSON-RPC requests: error code, and a message with the remedy."""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.agents.counting import talking
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


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"", PARSE, "empty"),
        (b"{", PARSE, "line 1, column 2"),
        (b'{"jsonrpc": "2.0", }', PARSE, "JSON"),
        (b"\xff\xfe{\x00}\x00", PARSE, "UTF-8"),
        (b"\xef\xbb\xbf{}", REQUEST, "jsonrpc"),  # a byte order mark is ignored
        (b'{"text": "\xc3\x28"}', PARSE, "UTF-8"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"x": NaN}}', PARSE, "NaN"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"x": -Infinity}}', PARSE, "Infinity"),
        # For unclosed nesting, Python before 3.13 reports its recursion limit; later versions report the body's end.
        (b"[" * 4_000, *UNCLOSED),
        (b'{"a":' * 4_000, *UNCLOSED),
        (b"[" * 2_000 + b"]" * 2_000, PARAMS, "levels"),
        (b"[" * 100_000, PARAMS, "5000 values"),
        (b'{"id": 1, "id": 2}', REQUEST, "twice"),
        (b'{"params": {"a": {"b": 1, "b": 2}}}', REQUEST, "twice"),
        (b'{"n": ' + b"9" * 5000 + b"}", PARAMS, "2^53"),
        (b'{"n": 9007199254740993}', PARAMS, "2^53"),
        (b'{"text": "\\ud83d"}', PARAMS, "surrogate"),
        (b'{"\\ud83d": 1}', PARAMS, "surrogate"),
        (b"[" * 70 + b"]" * 70, PARAMS, "levels"),
        (b"[]", REQUEST, ""),
        (b"1", REQUEST, ""),
        (b'"x"', REQUEST, ""),
        (b"null", REQUEST, ""),
        (b"[{}]", REQUEST, ""),
        (b"{}", REQUEST, ""),
        (b'{"id": 1, "method": "SendMessage"}', REQUEST, "2.0"),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "SendMessage"}', REQUEST, "2.0"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', REQUEST, ""),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "SendMessage"}', REQUEST, ""),
        (b'{"jsonrpc": "2.0", "id": true, "method": "SendMessage"}', REQUEST, ""),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "SendMessage"}', REQUEST, ""),
    ],
    ids=lambda value: str(value[:40]) if isinstance(value, bytes) else str(value),
)
async def test_invalid_request_is_refused(client: httpx.AsyncClient, body: bytes, code: int, word: str) -> None:
    answer = await client.post("/", content=body, headers=JSON)
    assert refused(answer, code, word)["id"] is None or b'"id": 1,' in body


@pytest.mark.parametrize("request_id", [7, "r-7", ""])
@pytest.mark.parametrize(
    "text", ['"\\ud83d"', "9007199254740993", "9" * 5000, "1e999", "[" * 40 + "]" * 40], ids=lambda text: text[:12]
)
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


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"])
@pytest.mark.parametrize("params", [None, {}, [], "x", 3, {"message": None}, {"message": []}, {"message": {}}])
async def test_params_without_message_are_refused(client: httpx.AsyncClient, method: str, params: Any) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method}
    if params is not None:
        body["params"] = params
    assert refused(await client.post("/", json=body), PARAMS)["id"] == 1


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("body", "id_"),
    [
        (b'{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "a", "id": "b"}}', 7),
        (b'{"jsonrpc": "2.0", "id": "r", "method": "GetTask", "method": "GetTask"}', "r"),
        (b'{"jsonrpc": "2.0", "id": 7, "id": 8, "method": "GetTask"}', None),
    ],
)
async def test_error_for_repeated_json_key_has_request_id(client: httpx.AsyncClient, body: bytes, id_: Any) -> None:
    """Repeat a JSON key: the error has the request's id, unless the key `id` itself is repeated."""
    answer = await client.post("/", content=body, headers=JSON)
    assert refused(answer, REQUEST, "twice")["id"] == id_


BAD_MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"messageId": ""}, "messageId"),
    ({"messageId": "x" * 10_000}, "messageId"),
    ({"messageId": "é" * 257}, "messageId"),
    ({"messageId": "a\0"}, "messageId"),
    ({"contextId": "a\0b"}, "contextId"),
    ({"contextId": "x" * 513}, "contextId"),
    ({"taskId": "x" * 513}, "taskId"),
    ({"parts": []}, "parts"),
    ({"parts": [{}]}, "parts[0]"),
    ({"parts": [{"text": "one"}, {}]}, "parts[1]"),
    ({"parts": [{"metadata": {"a": 1}}]}, "parts[0]"),
    ({"parts": [{"text": "x"}] * 257}, "parts"),
    ({"parts": [{"text": "x" * (1024 * 1024 + 1)}]}, "text"),
    ({"parts": [{"text": "both", "data": {"a": 1}}]}, ""),
    ({"parts": [{"text": 7}]}, ""),
    ({"parts": "x"}, ""),
    ({"parts": [{"url": ""}]}, "url"),
    ({"role": "ROLE_AGENT"}, "role"),
    ({"role": "ROLE_NOBODY"}, "role"),
    ({"role": None}, "role"),
    ({"metadata": {"large": "x" * 70_000}}, "metadata"),
    ({"metadata": []}, ""),
]


@pytest.mark.parametrize(("message", "word"), BAD_MESSAGES, ids=[str(bad)[:40] for bad, _ in BAD_MESSAGES])
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_invalid_message_is_refused(
    client: httpx.AsyncClient, method: str, message: dict[str, Any], word: str
) -> None:
    """The error names the invalid field, and no task is created."""
    answer = await client.post("/", json=changed(send(method=method, contextId="c-1"), **message))
    refused(answer, PARAMS, word)
    good = await client.post("/", json=send(contextId="c-1"))
    assert good.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


OLD_PARTS: list[Any] = [
    [],
    [{}],
    [{"kind": "text"}],
    [{"kind": "text", "text": "fine"}, {"kind": "nothing"}],
    [{"kind": "file", "file": {}}],
    [{"kind": "file", "file": {"bytes": "a"}}],
    [{"kind": "data", "data": "no object"}],
    "x",
]


@pytest.mark.parametrize("given", OLD_PARTS, ids=str)
@pytest.mark.parametrize("method", ["message/send", "message/stream"])
async def test_v03_invalid_message_is_refused(client: httpx.AsyncClient, method: str, given: Any) -> None:
    """The error's code is -32602, whereas the SDK returns -32600."""
    refused(await client.post("/", json=changed(send(method=method), parts=given)), PARAMS, "part")


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
async def test_large_body_is_refused(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.post("/", json=send("x" * 10 * 1024 * 1024, method=method))
    refused(answer, REQUEST, "larger than", status=413)


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/xml", "multipart/form-data"])
async def test_unsupported_content_type_is_refused(client: httpx.AsyncClient, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    refused(await client.post("/", content=b"not even JSON", headers=headers), -32005, "application/json")


@pytest.mark.parametrize("http_method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_unsupported_http_method_is_refused(client: httpx.AsyncClient, http_method: str) -> None:
    assert (await client.request(http_method, "/")).status_code == 405


@pytest.mark.parametrize("version", ["9.9", "abc", "0.3", "1", "1.1", "1.0.0.0"])
@pytest.mark.parametrize("place", ["header", "query"])
async def test_version_contradicting_v1_method_name_is_refused(
    client: httpx.AsyncClient, version: str, place: str
) -> None:
    if place == "header":
        answer = await client.post("/", json=send(), headers={"A2A-Version": version})
    else:
        answer = await client.post("/", json=send(), params={"A2A-Version": version})
    refused(answer, -32009, version)


@pytest.mark.parametrize("version", ["1.0", "9.9"])
async def test_version_contradicting_v03_method_name_is_refused(client: httpx.AsyncClient, version: str) -> None:
    answer = await client.post("/", json=send(method="message/send"), headers={"A2A-Version": version})
    refused(answer, -32009, version)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("SendMessage", {}),
        ("SendMessage", {"A2A-Version": ""}),
        ("SendMessage", {"A2A-Version": "1.0"}),
        ("SendMessage", {"A2A-Version": "1.0.7"}),
        ("message/send", {}),
        ("message/send", {"A2A-Version": "0.3"}),
        ("message/send", {"A2A-Version": "0.3.0"}),
    ],
)
async def test_method_name_selects_protocol_version(
    client: httpx.AsyncClient, method: str, headers: dict[str, str]
) -> None:
    assert "result" in (await client.post("/", json=send(method=method), headers=headers)).json()


@pytest.mark.parametrize(("method", "old"), [("GetTask", False), ("tasks/get", True)])
async def test_missing_task_is_not_found(client: httpx.AsyncClient, method: str, old: bool) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "nope"}}
    refused(await client.post("/", json=body), -32001, "Task not found. Check")
    body["params"] = {}
    refused(await client.post("/", json=body), PARAMS, "id")
    if not old:
        body["params"] = {"id": "nope", "historyLength": -1}
        refused(await client.post("/", json=body), PARAMS, "history")


async def test_message_to_ended_task_is_refused(client: httpx.AsyncClient) -> None:
    task = (await client.post("/", json=send(contextId="c-1"))).json()["result"]["task"]
    refused(await client.post("/", json=send(message_id="m-2", taskId=task["id"])), -32004, "completed")
    refused(await client.post("/", json=send(message_id="m-2", taskId="nope")), -32001)
    other = send(message_id="m-2", taskId=task["id"], contextId="c-2")
    refused(await client.post("/", json=other), PARAMS, "context")


async def test_reused_message_id_is_refused(client: httpx.AsyncClient) -> None:
    await client.post("/", json=send("one", contextId="c-1"))
    refused(await client.post("/", json=send("another", contextId="c-1")), PARAMS, "messageId")
    answer = await client.post("/", json=send("another", contextId="c-1", method="SendStreamingMessage"))
    refused(answer, PARAMS, "messageId")


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("CreateTaskPushNotificationConfig", -32003),
        ("GetTaskPushNotificationConfig", -32003),
        ("ListTaskPushNotificationConfigs", -32003),
        ("DeleteTaskPushNotificationConfig", -32003),
        ("GetExtendedAgentCard", -32004),
    ],
)
async def test_operation_not_offered_in_agent_card_is_refused(
    client: httpx.AsyncClient, method: str, code: int
) -> None:
    refused(await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}), code, "card")


async def test_error_details_name_reason_and_invalid_field(client: httpx.AsyncClient) -> None:
    """The error's details are a google.rpc.ErrorInfo, and the invalid field."""
    body = refused(await client.post("/", json=changed(send(), parts=[{}])), PARAMS)
    info, bad_request = body["error"]["data"]
    assert info["reason"] == "INVALID_PARAMS"
    assert bad_request["fieldViolations"][0]["field"] == "message.parts[0]"
    json.dumps(body)


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


async def test_history_has_requested_length(client: httpx.AsyncClient) -> None:
    """Request no history: the task still has its answer in the status."""
    request = send()
    request["params"]["configuration"] = {"historyLength": 0}
    task = (await client.post("/", json=request)).json()["result"]["task"]
    assert "history" not in task
    assert task["status"]["message"]["parts"][0]["text"] == "word0000 "
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task["id"]}}
    assert len((await client.post("/", json=body)).json()["result"]["history"]) == 2


async def test_error_lists_at_most_ten_fields(client: httpx.AsyncClient) -> None:
    body = send("x", method="message/send")
    body["params"]["message"]["parts"] = [{"kind": "text"}] * 256
    answer = await client.post("/", json=body)
    error = refused(answer, PARAMS, "message.parts[0] cannot be used")["error"]
    assert len(error["data"][1]["fieldViolations"]) == 10
    assert len(answer.content) < 8 * 1024


@pytest.mark.parametrize("method", ["message/send", "message/stream"])
@pytest.mark.parametrize("character", ["\x01", '"', "\N{LINE SEPARATOR}", "\N{GRINNING FACE}"])
async def test_error_response_quotes_few_control_characters_of_request(
    client: httpx.AsyncClient, method: str, character: str
) -> None:
    """Send control characters, each six bytes in JSON: the error must not quote many of them."""
    body = changed(send("x", method=method), role=character * 1000)
    answer = await client.post("/", json={**body, "id": character * 256})
    assert refused(answer, PARAMS, "message.")["id"] == character * 256
    assert len(answer.content) <= 8 * 1024


@pytest.mark.parametrize(("method", "list_name"), [("SendMessage", "extensions"), ("message/send", "referenceTaskIds")])
async def test_long_list_in_message_is_refused(client: httpx.AsyncClient, method: str, list_name: str) -> None:
    body = changed(send("x", method=method), **{list_name: ["x"] * 257})
    refused(await client.post("/", json=body), PARAMS, f"message.{list_name} has more than 256 items")
