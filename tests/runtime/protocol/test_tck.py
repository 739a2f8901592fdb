"""Check that each test or row named as proof of a TCK requirement exists; this file itself proves some requirements."""

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aion_core.engine.agent import Agent
from tests.runtime.protocol.table import ROWS
from tests.runtime.protocol.tck import PROOFS, PROOFS_V03
from tests.support.agents.counting import talking
from tests.support.agents.scripted import AskingAgent
from tests.support.rows import each_row
from tests.support.service import http, parts, rpc_body, send

TESTS = Path(__file__).parents[2]
ROW_NAMES = {f"row {row.name}" for row in ROWS}


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests in a file, also of those in classes."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def exists(proof: str) -> bool:
    path, _, name = proof.partition("::")
    if proof.startswith("row "):
        return proof in ROW_NAMES
    return bool(names_in(path)) if name == "*" else name in names_in(path)


def test_tests_listed_for_each_tck_requirement_exist() -> None:
    for requirement, proofs in (*PROOFS.items(), *PROOFS_V03.items()):
        assert proofs, requirement
        assert [proof for proof in proofs if not exists(proof)] == [], requirement


# ── Proofs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

METHODS = ("SendMessage", "message/send")


async def results(agent: Agent, *requests: dict[str, Any]) -> list[Any]:
    """Return the result of each request. `<task>` and `<context>` in a request are the ids of the first task."""
    found: list[Any] = []
    async with http(parts(agent).app()) as client:
        for request in requests:
            text = json.dumps(request)
            if found:
                text = text.replace("<task>", found[0]["id"]).replace("<context>", found[0]["contextId"])
            answer = (await client.post("/", content=text, headers={"Content-Type": "application/json"})).json()
            found.append(answer["result"].get("task", answer["result"]))
    return found


@pytest.mark.parametrize("method", METHODS)
async def test_new_task_has_generated_ids(method: str) -> None:
    """Send a message without ids: the server generates the task id and the context id (A2A 3.4.1, 3.4.2)."""
    first, second = await results(talking(1), send(method=method, message_id="a"), send(method=method, message_id="b"))
    assert len({first["id"], second["id"], first["contextId"], second["contextId"]}) == 4
    assert all([first["id"], second["id"], first["contextId"], second["contextId"]])


async def test_send_with_history_length_zero_returns_no_history() -> None:
    """v1 returns no history (A2A 3.2.4)."""
    request = send()
    request["params"]["configuration"] = {"historyLength": 0}
    (task,) = await results(talking(1), request)
    assert "history" not in task


async def test_v03_send_with_history_length_zero_returns_history() -> None:
    """In v0.3 only a positive number is a limit (A2A 0.3, 7.3); for tasks/get the protocol table has a row (R12)."""
    request = send(method="message/send")
    request["params"]["configuration"] = {"historyLength": 0}
    (task,) = await results(talking(1), request)
    assert [message["messageId"] for message in task["history"]] == ["m-1", task["status"]["message"]["messageId"]]


@pytest.mark.parametrize(("method", "get"), [("SendMessage", "GetTask"), ("message/send", "tasks/get")])
async def test_history_has_messages_in_order(method: str, get: str) -> None:
    """Answer with only a taskId: the message joins that task's context and history (A2A 3.2.4, 3.4.3)."""
    read = {"jsonrpc": "2.0", "id": 9, "method": get, "params": {"id": "<task>"}}
    answer = send("the answer", method=method, message_id="b", taskId="<task>")
    first, second, task = await results(
        AskingAgent(), send("the question", method=method, message_id="a"), answer, read
    )
    assert second["contextId"] == task["contextId"] == first["contextId"]
    sent = [message for message in task["history"] if message["messageId"] in ("a", "b")]
    assert [message["parts"][0]["text"] for message in sent] == ["the question", "the answer"]


async def test_response_is_camel_case_with_named_enums() -> None:
    """Check the JSON of a response: camelCase fields, and enum values by name (A2A 5.5, 9.1)."""
    async with http(parts(talking(1)).app()) as client:
        response = await client.post("/", json=send())
    answer = response.json()
    assert response.headers["content-type"] == "application/json"
    assert answer.keys() == {"jsonrpc", "id", "result"}
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", send()["id"])
    task = answer["result"]["task"]
    assert not [key for key in _keys(task) if "_" in key]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["history"][0]["role"] == "ROLE_USER"


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for each in value.values() for key in _keys(each))]
    return [key for each in value for key in _keys(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("method", METHODS)
async def test_unknown_fields_are_ignored(method: str) -> None:
    """Send fields that the specification does not have: the server ignores them (A2A 5.7)."""
    request = send(method=method)
    request["params"]["later"] = {"field": 1}
    request["params"]["message"]["later"] = [1]
    request["params"]["message"]["parts"][0]["later"] = "x"
    (task,) = await results(talking(1), request)
    assert task["status"]["state"] in ("completed", "TASK_STATE_COMPLETED")


@each_row(
    ("request_", "code"),
    [
        ({"jsonrpc": "aaa", "method": "message/send", "params": {}}, -32600),
        ({"jsonrpc": "2.0", "params": {}}, -32600),
        ({"jsonrpc": "2.0", "method": "message/ssend", "params": {}}, -32601),
        ({"jsonrpc": "2.0", "method": "message/send", "params": {}, "id": {"bad": "type"}}, -32600),
        ({"jsonrpc": "2.0", "method": "message/send", "params": {"": "no message"}, "id": 1}, -32602),
    ],
)
async def test_invalid_json_rpc_request_is_refused(request_: dict[str, Any], code: int) -> None:
    assert (await refusal(request_))["code"] == code


@pytest.mark.parametrize("id_", [{}, {"id": None}], ids=["no id", "null"])
async def test_rejects_invalid_json_rpc_requests_invalid_request4(id_: dict[str, Any]) -> None:
    """TCK 0.3, mandatory: test_rejects_invalid_json_rpc_requests[invalid_request4] sends no id, or null."""
    error = await refusal({"jsonrpc": "2.0", "method": "message/send", "params": {"": "no message"}, **id_})
    assert error["code"] == -32602


async def test_tasks_resubscribe_nonexistent() -> None:
    """TCK 0.3: test_tasks_resubscribe_nonexistent looks for the standard's words in the response's text."""
    error = await refusal({"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": "nope"}})
    assert error["code"] == -32001
    assert "not found" in error["message"].lower()


async def refusal(request: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a JSON-RPC response, which is a stream with one event for v0.3's streaming methods."""
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json=request)
    assert answer.status_code == 200
    error: dict[str, Any] = rpc_body(answer)["error"]
    return error


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/tasks/nope", 404, id="of A2A"),
        pytest.param("POST", "/message:send", 400, id="of the request"),
    ],
)
async def test_http_json_err_001(method: str, path: str, status: int) -> None:
    """TCK 1.0: the two tests of HTTP_JSON-ERR-001 read an error from `application/json`, the type that they accept."""
    async with http(parts(talking(1)).app()) as client:
        answer = await client.request(method, path, json={} if method == "POST" else None, headers=OF_THE_TCK)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert answer.json()["error"]["code"] == status


async def test_http_json_svc_001() -> None:
    """TCK 1.0: the test of HTTP_JSON-SVC-001 reads a result from `application/json`, the type that it sends."""
    sent = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/message:send", json=sent, headers=OF_THE_TCK)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")


OF_THE_TCK = {"A2A-Version": "1.0", "Accept": "application/json"}
"""Headers of the TCK's requests over HTTP+JSON."""
