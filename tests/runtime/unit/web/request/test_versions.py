"""Protocol versions that requests state, in both bindings, and data parts in responses of v0.3."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_data
from tests.runtime.unit.web.rest_requests import body, old_body, refused
from tests.support.agents.counting import talking
from tests.support.rows import each_row
from tests.support.service import http, parts, send


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with http(parts(talking(1)).app()) as client:
        yield client


REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "rpc": ("/", send(), "1.0"),
    "rpc v0.3": ("/", send(method="message/send"), "0.3"),
    "rest": ("/message:send", body(), "1.0"),
    "rest stream": ("/message:stream", body(), "1.0"),
    "rest v0.3": ("/v1/message:send", old_body(), "0.3"),
}


def stated(version: str, place: str) -> dict[str, Any]:
    return {"headers": {"A2A-Version": version}} if place == "header" else {"params": {"A2A-Version": version}}


@each_row("place", ["header", "query"])
@each_row("version", ["", "{}", "{}.7", " {} "])
@each_row("name", REQUESTS)
async def test_protocol_version_that_matches_method_is_accepted(
    client: httpx.AsyncClient, name: str, version: str, place: str
) -> None:
    """A request without a version has that of its method; a patch number in a version is ignored."""
    path, given, spoken = REQUESTS[name]
    answer = await client.post(path, json=given, **stated(version.format(spoken), place))
    assert answer.status_code == 200
    assert "error" not in answer.text


@each_row(
    ("version", "place"),
    [
        *(("9.9", place) for place in ("header", "query")),
        *(("other", place) for place in ("header", "query")),
        *((version, "query") for version in ("abc", "1.7", "2", "1.0.0.0", "1.0,0.3", "\u0661.0")),
    ],
)
@each_row("name", REQUESTS)
async def test_unsupported_or_mismatched_protocol_version_is_refused(
    client: httpx.AsyncClient, name: str, version: str, place: str
) -> None:
    """Send such a version: the error is VersionNotSupported, and no task is created."""
    path, given, spoken = REQUESTS[name]
    if version == "other":
        version = "0.3" if spoken == "1.0" else "1.0"
    answer = await client.post(path, json=given, **stated(version, place))
    if path == "/":
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (200, -32009)
        assert error["data"][0]["reason"] == "VERSION_NOT_SUPPORTED"
    elif spoken == "1.0":
        error = refused(answer, 400, "VERSION_NOT_SUPPORTED")
        assert error["details"][0]["metadata"] == {"supportedVersions": "1.0,0.3"}
    else:
        assert answer.status_code == 400
        error = answer.json()
        assert (error["code"], error["type"]) == (-32009, "VersionNotSupportedError")
    assert spoken in error["message"]
    assert (await client.get("/tasks")).json()["totalSize"] == 0


@each_row(
    ("path", "method", "version", "hint"),
    [
        ("/", "message/send", "1.0", "In 1.0 it is SendMessage."),
        ("/", "GetTask", "0.3", "In 0.3 it is tasks/get."),
        ("/", "ListTasks", "0.3", "leave it out."),
        ("/", "message/send", "2.0", "leave it out."),
        ("/v1/message:send", "", "1.0", "In 1.0 it is /message:send."),
        ("/tasks/t-1:cancel", "", "0.3", "In 0.3 it is /v1/tasks/{id}:cancel."),
    ],
)
async def test_error_suggests_operation_name_of_requested_protocol_version(
    client: httpx.AsyncClient, path: str, method: str, version: str, hint: str
) -> None:
    given = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}} if method else {}
    answer = (await client.post(path, json=given, headers={"A2A-Version": version})).json()
    assert answer.get("error", answer)["message"].endswith(hint)


async def test_protocol_version_header_precedes_query(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/message:send", json=body(), headers={"A2A-Version": "1.0"}, params={"A2A-Version": "9.9"}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(("versions", "status"), [(("1.0", "0.3"), 400), (("1.0", "1.0"), 200), (("1.0,1.0",), 200)])
async def test_two_version_headers_with_different_values_are_refused(
    client: httpx.AsyncClient, versions: Sequence[str], status: int
) -> None:
    headers = [("A2A-Version", version) for version in versions]
    answer = await client.post("/message:send", json=body(), headers=headers)
    assert answer.status_code == status


def lists(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
    emit_data(writer, [1, 2], name="list")
    return {}


V03_REQUESTS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/", {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "{}"}}, {}),
    ("GET", "/v1/tasks/{}", None, {}),
    ("POST", "/", send(method="message/stream", message_id="m-2", contextId="c-1"), {}),
    ("POST", "/v1/message:stream", old_body(message_id="m-2", contextId="c-1"), {}),
    ("POST", "/v1/message:stream", send(method="message/stream", message_id="m-2", contextId="c-1")["params"], {}),
]


@each_row(("method", "path", "given", "headers"), V03_REQUESTS)
async def test_v03_response_omits_sdk_mark_of_wrapped_data(
    method: str, path: str, given: Any, headers: dict[str, str]
) -> None:
    """The SDK marks wrapped data in the part's metadata; a client must not see this mark."""
    async with http(
        parts(StateGraph(MessagesState).add_node(lists).add_edge(START, "lists").compile()).app()
    ) as client:
        task = (await client.post("/", json=send(contextId="c-1"))).json()["result"]["task"]
        assert task["artifacts"][0]["parts"] == [{"data": [1, 2]}]
        given = json.loads(json.dumps(given).replace('"{}"', json.dumps(task["id"])))
        answer = await client.request(method, path.replace("{}", task["id"]), json=given, headers=headers)
    assert answer.status_code == 200
    assert re.search(r'"value": ?\[1, ?2\]', answer.text)
    assert "data_part_compat" not in answer.text
