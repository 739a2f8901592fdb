"""JSON-RPC, where the SDK's dispatchers would have answered otherwise, or not at all."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from starlette.applications import Starlette

from aion_core.web.middleware import AwaitBackgroundTurnsMiddleware
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.rpc import Dispatcher
from tests.support.agents.counting import talking
from tests.support.agents.scripted import Asking
from tests.support.service import http, parts, send
from tests.unit.web.test_rest import frames


class NotesConfigs(AionRequestHandler):
    """Notes what it is asked about push configs: sending notifications is another part's work."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[Any] = []

    async def on_create_task_push_notification_config(self, params: Any, context: Any) -> Any:
        self.asked.append(params)
        return params

    async def on_get_task_push_notification_config(self, params: Any, context: Any) -> Any:
        self.asked.append(params)
        return pb.TaskPushNotificationConfig(task_id=params.task_id, id=params.id or "first", url="https://x.test")

    async def on_list_task_push_notification_configs(self, params: Any, context: Any) -> Any:
        self.asked.append(params)
        return pb.ListTaskPushNotificationConfigsResponse()

    async def on_delete_task_push_notification_config(self, params: Any, context: Any) -> None:
        self.asked.append(params)


V1_CONFIG = {"taskId": "t-1", "id": "p-1", "url": "https://x.test", "authentication": {"scheme": "Bearer"}}
V03_CONFIG = {
    "taskId": "t-1",
    "pushNotificationConfig": {"id": "p-1", "url": "https://x.test", "authentication": {"schemes": ["Bearer"]}},
}
CONFIG = pb.TaskPushNotificationConfig(
    task_id="t-1", id="p-1", url="https://x.test", authentication=pb.AuthenticationInfo(scheme="Bearer")
)


@pytest.mark.parametrize(
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
            None,
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
async def test_push_configs_arrive_and_their_answers_are_whole(
    method: str, params: dict[str, Any], asked: Any, result: Any
) -> None:
    """R15, R16, R92: v0.3's get needs no config id, and its delete answers with a result, which is null."""
    made = parts(talking(1))
    handler = NotesConfigs(made.service, made.lister, made.card)
    app: Any = AwaitBackgroundTurnsMiddleware(Starlette(routes=Dispatcher(handler, "test", made.card).routes("")))
    async with http(app) as client:
        body = {"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params}
        answer = (await client.post("/", json=body)).json()
    assert handler.asked == [asked]
    assert answer == {"jsonrpc": "2.0", "id": "r-1", "result": result}


@pytest.mark.parametrize("method", ["agent/authenticatedExtendedCard", "agent/getAuthenticatedExtendedCard"])
async def test_the_extended_card_has_an_older_name(method: str) -> None:
    """R7, D4."""
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method})
    assert answer.json()["error"]["code"] == -32004


@pytest.mark.parametrize("method", ["SendMessage", "message/send", "Nope", "GetTask"])
async def test_each_refusal_has_its_reason(method: str) -> None:
    """R99."""
    async with http(parts(talking(1)).app()) as client:
        answer = await client.post("/", json={**send(), "method": method, "params": {"id": "nope"}})
    [info, *_] = answer.json()["error"]["data"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["reason"] in ("INVALID_PARAMS", "METHOD_NOT_FOUND", "TASK_NOT_FOUND")
    assert info["domain"] == "a2a-protocol.org"


@pytest.mark.parametrize("length", [-1, 2**31, 2**40, 1e12, "x", 1.5])
@pytest.mark.parametrize(
    ("method", "where"),
    [
        ("GetTask", "historyLength"),
        ("ListTasks", "historyLength"),
        ("tasks/get", "historyLength"),
        ("SendMessage", "configuration.historyLength"),
        ("message/send", "configuration.historyLength"),
        ("message/stream", "configuration.historyLength"),
    ],
)
async def test_a_history_cannot_be_so_long(method: str, where: str, length: Any) -> None:
    """R98: never an internal error, and the field is named."""
    given = send(method=method) if where.startswith("configuration") else {**send(), "params": {"id": "t-1"}}
    (given["params"].setdefault("configuration", {}) if "." in where else given["params"])["historyLength"] = length
    async with http(parts(talking(1)).app()) as client:
        error = (await client.post("/", json={**given, "method": method})).json()["error"]
    assert error["code"] == -32602
    assert [violation["field"] for violation in error["data"][1]["fieldViolations"]] == [where]


@pytest.mark.parametrize("path", ["/", "/message:stream", "/v1/message:stream", "message/stream"])
@pytest.mark.parametrize(("length", "kept"), [(0, 0), (1, 1), (2, 2), (None, 3)])
async def test_a_stream_begins_with_as_much_history_as_is_asked_for(path: str, length: int | None, kept: int) -> None:
    """R24: spec 3.2.2, no more than asked for, in whichever version and binding."""
    old = "v1" in path or path == "message/stream"
    if old and length == 0:
        kept = 3  # in v0.3 it is no limit
    async with http(parts(Asking()).app()) as client:
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
        assert len(stored.json()["history"]) == 3


@pytest.mark.parametrize(
    ("method", "params", "mend"),
    [
        ("SendStreamingMessage", None, "Send the message without streaming."),
        ("message/stream", None, "Send the message without streaming."),
        ("SubscribeToTask", {"id": "t"}, "Ask for the task until it has ended."),
        ("tasks/resubscribe", {"id": "t"}, "Ask for the task until it has ended."),
    ],
)
async def test_an_agent_that_does_not_stream_says_what_to_do_instead(method: str, params: Any, mend: str) -> None:
    """R3: -32004, for each operation that streams."""
    made = parts(talking(1))
    made.described = {"streaming": False}
    async with http(made.app()) as client:
        request = send(method=method)
        request["params"] = params or request["params"]
        error = (await client.post("/", json=request)).json()["error"]
        assert (error["code"], error["message"].endswith(mend)) == (-32004, True), error
