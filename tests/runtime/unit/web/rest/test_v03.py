"""HTTP+JSON binding of v0.3, in the form of its SDKs."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.compat.v0_3.types import SendStreamingMessageSuccessResponse
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from google.protobuf.json_format import ParseDict
from msgspec.structs import replace
from starlette.applications import Starlette

from aion_core.web.middleware.background_turns import AwaitBackgroundTurnsMiddleware
from aion_core.web.operations.operation import Operation
from aion_core.web.rest.v03 import RestV03
from tests.runtime.unit.web.rest.test_v1 import frames
from tests.runtime.unit.web.rest_requests import body, old_body
from tests.runtime.unit.web.sdk_handler import BY_NAME, SdkContextBuilder, SdkHandler, services_of
from tests.support.agents.counting import talking
from tests.support.agents.scripted import AskingAgent
from tests.support.asgi import ask
from tests.support.rows import each_row
from tests.support.service import http, parts


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with http(parts(talking(3)).app()) as client:
        yield client


def refused(answer: httpx.Response, http: int, code: int, *words: str) -> dict[str, Any]:
    assert answer.status_code == http, answer.text
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, Any] = answer.json()
    assert error["code"] == code
    assert error["type"].endswith("Error")
    assert error["data"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    for word in words:
        assert word in error["message"]
    return error


@pytest.mark.parametrize("where", ["", "/agents/test"])
async def test_v03_rest_message_returns_task(client: httpx.AsyncClient, where: str) -> None:
    """Parse the response strictly, as v0.3's client does: unknown fields are errors."""
    sent = await client.post(f"{where}/v1/message:send", json=old_body(contextId="c-1"))
    assert sent.headers["content-type"] == "application/json"
    task = ParseDict(sent.json(), pb03.SendMessageResponse()).task
    assert task.status.state == pb03.TASK_STATE_COMPLETED
    assert task.history[0].content[0].text == "hi"
    got = await client.get(f"{where}/v1/tasks/{task.id}?historyLength=0")
    assert ParseDict(got.json(), pb03.Task()) == task, "0 is no limit in v0.3"
    listed = await client.get(f"{where}/v1/tasks")
    assert listed.json() == {"tasks": [got.json()], "nextPageToken": "", "pageSize": 50, "totalSize": 1}


async def test_v03_rest_stream_frames_equal_sdk_frames() -> None:
    """Compare the frames; the last status update has `final`."""
    made = parts(talking(3))
    handler = SdkHandler(made)
    routes = create_rest_routes(handler, SdkContextBuilder("test"), enable_v0_3_compat=True)
    async with http(made.app()) as ours, http(AwaitBackgroundTurnsMiddleware(Starlette(routes=routes))) as theirs:
        mine = await ours.post("/v1/message:stream", json=old_body(contextId="c-1"))
        their = await theirs.post("/v1/message:stream", json=old_body(contextId="c-1"), headers={"A2A-Version": "0.3"})
    assert mine.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert frames(mine, "event", "data") == frames(their, "event", "data")
    assert [frame["id"] for frame in frames(mine, "id")] == ["1", "2", "2.1.0", "2.1.1", "2.1.2", "2.1.3", "3"]
    updates = [frame["data"]["statusUpdate"] for frame in frames(mine, "data") if "statusUpdate" in frame["data"]]
    assert [update.get("final") for update in updates] == [None, True]


KINDS: dict[str, Any] = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
JSON = {"Accept": "application/json"}
JS_SDK = {**JSON, "Content-Type": "application/json"}
"""Headers of the JavaScript SDK of v0.3, also without a body."""


async def test_v03_rest_request_with_kind_fields_gets_kind_fields_back(client: httpx.AsyncClient) -> None:
    """Send v0.3's JSON with `kind` fields instead of its proto form: the response equals that of JSON-RPC."""
    task = (await client.post("/v1/message:send", json=body(contextId="c-1", **KINDS))).json()
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert (task["history"][0]["kind"], task["history"][0]["role"]) == ("message", "user")
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": task["id"]}}
    assert (await client.post("/", json=rpc)).json()["result"] == task
    streamed = frames(await client.post("/v1/message:stream", json=body(contextId="c-2", **KINDS)), "data")
    events = [frame["data"] for frame in streamed]
    assert {event["kind"] for event in events} == {"task", "status-update", "artifact-update"}
    assert (events[-1]["status"]["state"], events[-1]["final"]) == ("completed", True)
    for event in events:
        SendStreamingMessageSuccessResponse.model_validate({"jsonrpc": "2.0", "result": event})


async def test_accept_header_selects_v03_json_with_kind_fields(client: httpx.AsyncClient) -> None:
    """A GET has no message that shows the form: this header selects it. v0.3's Python SDK sends no such header."""
    task = (await client.post("/v1/message:send", json=body(contextId="c-1", **KINDS))).json()
    path = f"/v1/tasks/{task['id']}"
    assert (await client.get(path, headers=JSON)).json() == task
    assert (await client.get("/v1/tasks", headers=JSON)).json()["tasks"] == [task]
    assert (await client.get(path, headers={"Accept": "text/html, application/json;q=0.9, */*"})).json() == task
    for accept in ("*/*", "text/event-stream"):
        old = (await client.get(path, headers={"Accept": accept})).json()
        assert ParseDict(old, pb03.Task()).status.state == pb03.TASK_STATE_COMPLETED
    stated = (await client.get(path, headers={**JSON, "A2A-Version": "0.3"})).json()
    assert ParseDict(stated, pb03.Task()).id == task["id"], "an SDK of v1.0 in its v0.3 mode"
    sent = (await client.post("/v1/message:send", json=old_body(contextId="c-2"), headers=JSON)).json()
    assert "content" in sent["task"]["history"][0], "the message has the form of the proto file"


async def test_v03_js_sdk_receives_protobuf_json() -> None:
    async with http(parts(AskingAgent()).app()) as client:
        task = (await client.post("/v1/message:send", json=old_body(), headers=JS_SDK)).json()["task"]
        assert (await client.get(f"/v1/tasks/{task['id']}", headers=JS_SDK)).json() == task
        canceled = await client.post(f"/v1/tasks/{task['id']}:cancel", headers=JS_SDK)
        assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELLED"


async def test_v03_rest_stream_ends_at_input_required() -> None:
    async with http(parts(AskingAgent()).app()) as client:
        heard = frames(await client.post("/v1/message:stream", json=old_body()), "data")
        last = heard[-1]["data"]["statusUpdate"]
        assert (last["status"]["state"], last["final"]) == ("TASK_STATE_INPUT_REQUIRED", True)
        subscribed = await client.post(f"/v1/tasks/{last['taskId']}:subscribe")
        assert frames(subscribed, "data")[0]["data"]["task"]["id"] == last["taskId"]
        canceled = await client.post(f"/v1/tasks/{last['taskId']}:cancel", json={"name": f"tasks/{last['taskId']}"})
        # Expect CANCELLED, because v0.3's proto file spells the state with two L.
        assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELLED"


@each_row("message", [old_body, lambda **more: body(**KINDS, **more)])
@each_row("accept", ["*/*", "text/event-stream"])
async def test_v03_rest_replay_has_final_on_last_event_only(message: Any, accept: str) -> None:
    """Repeat a message whose question is answered, in each form of v0.3's frames."""
    async with http(parts(AskingAgent()).app()) as client:
        for message_id in ("m-1", "m-2", "m-1"):
            question = message(messageId=message_id, contextId="c-1")
            answer = await client.post("/v1/message:stream", json=question, headers={"Accept": accept})
    assert "really?" in answer.text, "the question is repeated"
    assert answer.text.count('"final":true') == answer.text.splitlines()[-2].count('"final":true') == 1


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("TASK_STATE_CANCELLED", 1),
        ("TASK_STATE_CANCELED", 1),
        ("TASK_STATE_INPUT_REQUIRED", 0),
    ],
)
async def test_v03_task_list_filters_by_v03_state_names(status: str, found: int) -> None:
    """Filter by the state names of v0.3, one of which v1.0 spells otherwise."""
    async with http(parts(AskingAgent()).app()) as client:
        task = (await client.post("/v1/message:send", json=old_body())).json()["task"]
        await client.post(f"/v1/tasks/{task['id']}:cancel")
        listed = await client.get("/v1/tasks", params={"status": status})
        assert [each["id"] for each in listed.json()["tasks"]] == [task["id"]] * found
        refused(await client.get("/v1/tasks?status=canceled"), 400, -32602, "status")


@each_row(
    ("given", "word"),
    [
        ({}, "message"),
        ({"message": {}}, "messageId"),
        (old_body(content=[{"text": "a"}, {"file": {"fileWithBytes": "!"}}]), "message.content[1].file.fileWithBytes"),
        (
            old_body(content=[{"file": {"bytes": "AAEC"}}]),
            "message.content[0].file has no content: give it fileWithBytes",
        ),
        (old_body(content=[]), "message.content is empty: give it at least one part, such as a text."),
        (body(role="user", parts=[]), "message.parts is empty: give it at least one part, such as a text."),
        (old_body(role="ROLE_AGENT"), "role"),
        (body(role="user", parts=[{"kind": "nothing"}]), "message.parts[0]"),
        ({**old_body(), "configuration": {"historyLength": "x"}}, "configuration.historyLength"),
    ],
)
async def test_invalid_message_is_refused(client: httpx.AsyncClient, given: dict[str, Any], word: str) -> None:
    refused(await client.post("/v1/message:send", json=given), 400, -32602, word)


@pytest.mark.parametrize("once_more", [True, False], ids=["python", "javascript"])
async def test_file_bytes_sent_by_both_v03_sdks_are_read(client: httpx.AsyncClient, once_more: bool) -> None:
    """Read the bytes as each SDK sends them; one encodes them in base64 twice."""
    content = b"\0\xff no base64"
    sent = base64.b64encode(base64.b64encode(content) if once_more else content).decode()
    file = {"fileWithBytes": sent, "mimeType": "application/octet-stream", "name": "f"}
    task = (await client.post("/v1/message:send", json=old_body(content=[{"file": file}]))).json()["task"]
    [part] = (await client.get(f"/tasks/{task['id']}")).json()["history"][0]["parts"]
    assert base64.b64decode(part["raw"]) == content


@pytest.mark.parametrize("content", [b"test", b"\0\xff no base64"], ids=["base64", "binary"])
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_file_of_javascript_sdk_is_decoded_once(client: httpx.AsyncClient, content: bytes, accept: str) -> None:
    file = {"fileWithBytes": base64.b64encode(content).decode(), "mimeType": "application/octet-stream", "name": "f"}
    given = old_body(contextId="c-1", content=[{"file": file}])
    await client.post("/v1/message:send", json=given, headers={"Accept": accept})
    [task] = (await client.get("/tasks?contextId=c-1")).json()["tasks"]
    assert base64.b64decode(task["history"][0]["parts"][0]["raw"]) == content


@each_row("sent", ["+//+++++AQ==", "-__-----AQ==", "+//+++++AQ", "-__-----AQ"])
@each_row("path", ["/", "/v1/message:send"])
async def test_file_in_any_base64_is_read_whole(client: httpx.AsyncClient, path: str, sent: str) -> None:
    """Send the URL-safe alphabet too, and omit the padding, as v1.0 and the proto form of v0.3 allow."""
    given = {**body(contextId="c-1", **KINDS), "configuration": {"blocking": True}}
    given["message"]["parts"] = [{"kind": "file", "file": {"bytes": sent, "mimeType": "application/octet-stream"}}]
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": given}
    await client.post(path, json=rpc if path == "/" else given)
    [task] = (await client.get("/tasks?contextId=c-1")).json()["tasks"]
    assert task["history"][0]["parts"][0]["raw"] == "+//+++++AQ=="


PYTHON_STREAM = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


@pytest.mark.parametrize(
    ("method", "headers", "times"),
    [
        ("send", {"Accept": "*/*"}, 2),
        ("send", JS_SDK, 1),
        ("stream", PYTHON_STREAM, 2),
        ("stream", {"Accept": "text/event-stream"}, 1),
    ],
    ids=["python", "javascript", "python stream", "javascript stream"],
)
async def test_file_bytes_are_encoded_as_requesting_v03_sdk_expects(
    client: httpx.AsyncClient, method: str, headers: dict[str, str], times: int
) -> None:
    """Encode file bytes as the requesting SDK reads them, and leave free JSON values unchanged."""
    content, free = b"\0\xff no base64", {"fileWithBytes": "AAAA"}
    file = {"fileWithBytes": base64.b64encode(content).decode(), "mimeType": "application/octet-stream", "name": "f"}
    given = old_body(content=[{"file": file}, {"data": {"data": free}}])
    answer = await client.post(f"/v1/message:{method}", json=given, headers=headers)
    task = (frames(answer, "data")[0]["data"] if method == "stream" else answer.json())["task"]
    [written, data] = [part[kind] for part, kind in zip(task["history"][0]["content"], ("file", "data"), strict=True)]
    assert (written["name"], data["data"]) == ("f", free)
    decoded = written["fileWithBytes"].encode()
    for _ in range(times):
        decoded = base64.b64decode(decoded)
    assert decoded == content


class StoresConfigs:
    """Operations on push configs that store each config unchanged."""

    def __init__(self) -> None:
        self.configs: dict[str, pb.TaskPushNotificationConfig] = {}

    @property
    def operations(self) -> list[Operation]:
        run = {"Create": self.create, "Get": self.get, "List": self.list_all, "Delete": self.delete}
        return [
            replace(operation, run=run[name.partition("Task")[0]])
            for name, operation in BY_NAME.items()
            if "PushNotificationConfig" in name
        ]

    async def create(self, services: Any, params: Any, context: Any) -> Any:
        self.configs[params.id] = params
        return params

    async def get(self, services: Any, params: Any, context: Any) -> Any:
        return self.configs[params.id or "p-1"]

    async def list_all(self, services: Any, params: Any, context: Any) -> Any:
        return pb.ListTaskPushNotificationConfigsResponse(configs=self.configs.values())

    async def delete(self, services: Any, params: Any, context: Any) -> None:
        self.configs.pop(params.id, None)


CONFIG = {
    "id": "p-1",
    "url": "https://x.test/hook",
    "token": "t",
    "authentication": {"schemes": ["Bearer"], "credentials": "secret"},
}


@each_row(
    "given",
    [
        {"parent": "tasks/t-1", "configId": "p-1", "config": {"pushNotificationConfig": CONFIG}},
        {"config_id": "p-1", "config": {"push_notification_config": {**CONFIG, "id": ""}}},
        {"name": "tasks/t-1/pushNotificationConfigs/p-1", "pushNotificationConfig": CONFIG},
    ],
)
@each_row("headers", [{}, JS_SDK])
async def test_push_configs_sent_by_both_v03_sdks_are_read(given: dict[str, Any], headers: dict[str, str]) -> None:
    handler = StoresConfigs()
    binding = RestV03(services_of(parts(talking(1))), "test", handler.operations)
    app: Any = AwaitBackgroundTurnsMiddleware(Starlette(routes=binding.routes("")))
    configs = "/v1/tasks/t-1/pushNotificationConfigs"
    async with http(app) as client:
        created = await client.post(configs, json=given, headers=headers)
        assert created.json() == {"name": "tasks/t-1/pushNotificationConfigs/p-1", "pushNotificationConfig": CONFIG}
        kept = handler.configs["p-1"]
        assert (kept.task_id, kept.url, kept.authentication.scheme) == ("t-1", CONFIG["url"], "Bearer")
        assert (await client.get(f"{configs}/p-1", headers=headers)).json() == created.json()
        assert (await client.get(configs, headers=headers)).json() == {"configs": [created.json()]}
        deleted = await client.delete(f"{configs}/p-1", headers=headers)
        assert (deleted.status_code, deleted.json(), handler.configs) == (200, {}, {})


async def test_official_sdk_client_calls_succeed(client: httpx.AsyncClient) -> None:
    sdk = CompatRestTransport(client, pb.AgentCard(), "http://test/")
    request = pb.SendMessageRequest(
        message=pb.Message(
            message_id="m-1",
            role=pb.ROLE_USER,
            parts=[pb.Part(text="hi"), pb.Part(raw=b"\0\xff", media_type="image/png", filename="dot.png")],
        ),
        configuration=pb.SendMessageConfiguration(accepted_output_modes=["text/plain"]),
    )
    task = (await sdk.send_message(request)).task
    assert task.status.state == pb.TASK_STATE_COMPLETED
    assert task.history[0].parts == request.message.parts
    assert await sdk.get_task(pb.GetTaskRequest(id=task.id)) == task
    request.message.message_id = "m-2"
    heard = [event async for event in sdk.send_message_streaming(request)]
    assert heard[0].WhichOneof("payload") == "task"
    assert heard[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    with pytest.raises(TaskNotCancelableError):
        await sdk.cancel_task(pb.CancelTaskRequest(id=task.id))
    with pytest.raises(TaskNotFoundError):
        await sdk.get_task(pb.GetTaskRequest(id="nope"))
    with pytest.raises(PushNotificationNotSupportedError):
        await sdk.create_task_push_notification_config(
            pb.TaskPushNotificationConfig(task_id=task.id, id="p-1", url="https://x.test")
        )
    with pytest.raises(InvalidParamsError):
        await sdk._execute_request("GET", "/v1/tasks?pageSize=x")


@pytest.mark.parametrize(
    ("configuration", "state"),
    [
        (None, "TASK_STATE_COMPLETED"),
        ({"blocking": True}, "TASK_STATE_COMPLETED"),
        ({"blocking": False}, "TASK_STATE_WORKING"),
        ({}, "TASK_STATE_WORKING"),
    ],
)
async def test_v03_rest_configuration_without_blocking_field_does_not_block(
    client: httpx.AsyncClient, configuration: dict[str, Any] | None, state: str
) -> None:
    """Omit `blocking`: the send does not block, because v0.3's client omits a false value."""
    given = old_body() if configuration is None else {**old_body(), "configuration": configuration}
    assert (await client.post("/v1/message:send", json=given)).json()["task"]["status"]["state"] == state


async def test_unknown_v03_path_is_not_found() -> None:
    """Expect v0.3's error below `/v1/`, and v1.0's for any other path."""
    app = parts(talking(1)).app()
    below = ("/v1/nope", "/v1/tasks//", "/v1//tasks", "/v1/v1/tasks", "/v1/extendedAgentCard", "/agents/test/v1/nope")
    for target in (*below, "/v1/", "/V1/tasks"):
        answer = await ask(app, "GET", target)
        assert answer.status_code == 404, target
        error = json.loads(answer.content)
        assert error["code"] == -32601 if target in below else error["error"]["code"] == 404, target
