"""JSON-RPC binding: differences from the SDK's dispatchers."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from msgspec.structs import replace
from starlette.applications import Starlette

from aion_core.web.middleware.background_turns import AwaitBackgroundTurnsMiddleware
from aion_core.web.operations.operation import Operation
from aion_core.web.rpc import JsonRpcBinding
from tests.runtime.unit.web.rest.test_v1 import frames
from tests.runtime.unit.web.sdk_handler import BY_NAME, services_of
from tests.support.agents.counting import talking
from tests.support.agents.scripted import AskingAgent
from tests.support.rows import each_row
from tests.support.service import http, parts, rpc_bodies, rpc_body, send


class RecordsRequests:
    """Operations on push configs that record their requests."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    @property
    def operations(self) -> list[Operation]:
        return [replace(operation, run=self.run) for name, operation in BY_NAME.items() if "PushNotification" in name]

    async def run(self, services: Any, params: Any, context: Any) -> Any:
        self.requests.append(params)
        match params:
            case pb.TaskPushNotificationConfig():
                return params
            case pb.GetTaskPushNotificationConfigRequest():
                config_id = params.id or "first"
                return pb.TaskPushNotificationConfig(task_id=params.task_id, id=config_id, url="https://x.test")
            case pb.ListTaskPushNotificationConfigsRequest():
                return pb.ListTaskPushNotificationConfigsResponse()
        return None


V1_CONFIG = {"taskId": "t-1", "id": "p-1", "url": "https://x.test", "authentication": {"scheme": "Bearer"}}
V03_CONFIG = {
    "taskId": "t-1",
    "pushNotificationConfig": {"id": "p-1", "url": "https://x.test", "authentication": {"schemes": ["Bearer"]}},
}
CONFIG = pb.TaskPushNotificationConfig(
    task_id="t-1", id="p-1", url="https://x.test", authentication=pb.AuthenticationInfo(scheme="Bearer")
)


@each_row(
    ("method", "params", "asked", "result"),
    [
        ("CreateTaskPushNotificationConfig", V1_CONFIG, CONFIG, V1_CONFIG),
        (
            "GetTaskPushNotificationConfig",
            {"taskId": "t-1", "id": "p-1"},
            pb.GetTaskPushNotificationConfigRequest(task_id="t-1", id="p-1"),
            {"taskId": "t-1", "id": "p-1", "url": "https://x.test"},
        ),
        (
            "DeleteTaskPushNotificationConfig",
            {"taskId": "t-1", "id": "p-1"},
            pb.DeleteTaskPushNotificationConfigRequest(task_id="t-1", id="p-1"),
            {},
        ),
        ("tasks/pushNotificationConfig/set", V03_CONFIG, CONFIG, V03_CONFIG),
        (
            "tasks/pushNotificationConfig/get",
            {"id": "t-1"},
            pb.GetTaskPushNotificationConfigRequest(task_id="t-1"),
            {"taskId": "t-1", "pushNotificationConfig": {"id": "first", "url": "https://x.test"}},
        ),
        (
            "tasks/pushNotificationConfig/delete",
            {"id": "t-1", "pushNotificationConfigId": "p-1"},
            pb.DeleteTaskPushNotificationConfigRequest(task_id="t-1", id="p-1"),
            None,
        ),
        (
            "tasks/pushNotificationConfig/list",
            {"id": "t-1"},
            pb.ListTaskPushNotificationConfigsRequest(task_id="t-1"),
            [],
        ),
    ],
)
async def test_push_config_methods_of_v03_convert_to_v1(
    method: str, params: dict[str, Any], asked: Any, result: Any
) -> None:
    """In v0.3 `get` needs no config id. The result of `delete` is null there, and {} in v1.0 (google.protobuf.Empty)."""
    handler = RecordsRequests()
    binding = JsonRpcBinding(services_of(parts(talking(1))), "test", handler.operations)
    app: Any = AwaitBackgroundTurnsMiddleware(Starlette(routes=binding.routes("")))
    async with http(app) as client:
        body = {"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params}
        answer = (await client.post("/", json=body)).json()
    assert handler.requests == [asked]
    assert answer == {"jsonrpc": "2.0", "id": "r-1", "result": result}


@pytest.mark.parametrize("method", ["agent/authenticatedExtendedCard", "agent/getAuthenticatedExtendedCard"])
async def test_both_v03_method_names_for_extended_card_are_known(method: str) -> None:
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method})
    assert answer.json()["error"]["code"] == -32004


@each_row("method", ["SendMessage", "message/send", "Nope", "GetTask"])
async def test_json_rpc_error_data_contains_reason(method: str) -> None:
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json={**send(), "method": method, "params": {"id": "nope"}})
    [info, *_] = answer.json()["error"]["data"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["reason"] in ("INVALID_PARAMS", "METHOD_NOT_FOUND", "TASK_NOT_FOUND")
    assert info["domain"] == "a2a-protocol.org"


@each_row("given", [{}, {"id": None}])
@each_row("method", ["message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe"])
async def test_v03_request_without_id_is_served(method: str, given: dict[str, Any]) -> None:
    """Answer as in v1.0, with the id null: pydantic-ai's client sends no id."""
    request = {**send(method=method), **given}
    if not given:
        del request["id"]
    if method.startswith("tasks"):
        request["params"] = {"id": "t-1"}
    async with http(parts(talking(1)).app()) as client:
        answers = rpc_bodies(await client.post("/", json=request))
    assert all(answer["id"] is None for answer in answers)
    code = answers[-1].get("error", {}).get("code")
    assert code == (-32001 if method.startswith("tasks") else None)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("message/stream", {}, -32602),
        ("message/stream", send(taskId="nope")["params"], -32602),
        ("tasks/resubscribe", {"id": "nope"}, -32001),
    ],
)
async def test_refused_v03_stream_consists_of_one_error_frame(method: str, params: Any, code: int) -> None:
    """Refuse a streaming method: v0.3's client expects a stream, so the error is its only frame."""
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": "r", "method": method, "params": params})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        [frame] = frames(answer, "event", "data")
        assert frame.keys() == {"data"}, "no event of another type"
        assert (frame["data"]["id"], frame["data"]["error"]["code"]) == ("r", code)
        request = {"jsonrpc": "2.0", "id": "r", "method": method, "params": params}
        stated = await client.post("/", json=request, headers={"A2A-Version": "0.3"})
        assert stated.json()["error"]["code"] == code, "an SDK of v1.0 in its v0.3 mode"
        unary = await client.post("/", json={"jsonrpc": "2.0", "id": "r", "method": "SubscribeToTask", "params": {}})
        assert unary.headers["content-type"] == "application/json"


@each_row(
    ("agent", "is_stream"),
    [
        ("Go-http-client/2.0", True),
        (None, True),
        ("node", False),
        ("Mozilla/5.0", False),
    ],
)
@each_row("method", ["SendStreamingMessage", "SubscribeToTask"])
async def test_refused_v1_stream_is_readable_by_client(method: str, agent: str | None, is_stream: bool) -> None:
    """Go's and .NET's clients take a JSON document for an empty stream; JavaScript's reads no refusal from a stream."""
    request = {"jsonrpc": "2.0", "id": "r-1", "method": method, "params": {"id": "nope"}}
    async with http(parts(talking(1)).app()) as client:
        del client.headers["user-agent"]
        answer = await client.post("/", json=request, headers={"user-agent": agent} if agent else {})
    assert answer.headers["content-type"].startswith("text/event-stream" if is_stream else "application/json")
    body = rpc_body(answer)
    assert (body["id"], body["error"]["code"] < 0) == ("r-1", True)


@each_row("path", ["/", "/message:stream", "/v1/message:stream", "message/stream"])
@each_row(("length", "kept"), [(0, 0), (1, 1), (2, 2), (None, 3)])
async def test_first_task_of_stream_has_requested_history_length(path: str, length: int | None, kept: int) -> None:
    """Stream with `historyLength`: the first task has at most that many messages (A2A 3.2.2)."""
    old = "v1" in path or path == "message/stream"
    if old and length == 0:
        kept = 3  # in v0.3, a historyLength of 0 is no limit
    async with http(parts(AskingAgent()).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
        asked = send(method="message/stream" if old else "SendStreamingMessage", message_id="m-2", taskId=task["id"])
        asked["params"]["configuration"] = {} if length is None else {"historyLength": length}
        rest = path.startswith("/") and path != "/"
        answer = await client.post(path if rest else "/", json=asked["params"] if rest else asked)
        [first, *_, last] = [frame["data"] for frame in frames(answer, "data")]
        first, last = (frame.get("result", frame) for frame in (first, last))
        assert len(first.get("task", first).get("history", [])) == kept
        assert "completed" in str(last).lower(), "the rest is as ever"
        stored = await client.get(f"/tasks/{task['id']}")
        assert len(stored.json()["history"]) == 4, "the answer too"


@each_row(
    ("method", "params", "mend"),
    [
        ("SendStreamingMessage", None, "Send the message without streaming."),
        ("message/stream", None, "Send the message without streaming."),
        ("SubscribeToTask", {"id": "t"}, "Ask for the task until it has ended."),
        ("tasks/resubscribe", {"id": "t"}, "Ask for the task until it has ended."),
    ],
)
async def test_error_for_refused_streaming_names_method_without_stream(method: str, params: Any, mend: str) -> None:
    """Refuse each streaming operation: error -32004 names the method without a stream."""
    made = parts(talking(1))
    made.described = {"streaming": False}
    async with http(made.app()) as client:
        request = send(method=method)
        request["params"] = params or request["params"]
        error = rpc_body(await client.post("/", json=request))["error"]
        assert (error["code"], error["message"].endswith(mend)) == (-32004, True), error
