"""HTTP+JSON binding of v1.0."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.client.transports.rest import RestTransport
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.types import Message

from aion_core.errors import StoreCorrupt, StoreUnavailable
from aion_core.web.middleware.background_turns import AwaitBackgroundTurnsMiddleware
from tests.runtime.unit.web.rest_requests import A2A_JSON, JSON, body, fields, refused
from tests.runtime.unit.web.sdk_handler import SdkContextBuilder, SdkHandler
from tests.support.agents.counting import talking
from tests.support.agents.scripted import AskingAgent, GatedAgent
from tests.support.asgi import ask
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore


@pytest.fixture
def app() -> FastAPI:
    return parts(talking(1)).app()


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with http(app) as client:
        yield client


async def rpc(client: httpx.AsyncClient, method: str, **params: Any) -> Any:
    answer = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return answer.json()["result"]


@pytest.mark.parametrize("where", ["", "/agents/test"])
async def test_http_json_result_equals_json_rpc_result(client: httpx.AsyncClient, where: str) -> None:
    """Send each request to the agent's path and to the root."""
    sent = await client.post(f"{where}/message:send", json=body(contextId="c-1"))
    task = sent.json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    got = await client.get(f"{where}/tasks/{task['id']}")
    assert got.json() == task == await rpc(client, "GetTask", id=task["id"])
    listed = await client.get(f"{where}/tasks")
    assert listed.json() == await rpc(client, "ListTasks")
    assert [entry["id"] for entry in listed.json()["tasks"]] == [task["id"]]


@each_row(
    ("named", "expected"),
    [
        ({}, JSON),
        ({"Accept": "*/*"}, JSON),
        ({"Accept": "application/json"}, JSON),
        ({"Accept": "text/event-stream"}, JSON),
        ({"Accept": A2A_JSON}, A2A_JSON),
        ({"Accept": "application/json, Application/A2A+JSON;q=0.9"}, A2A_JSON),
        ({"Content-Type": A2A_JSON}, A2A_JSON),
        ({"Content-Type": f"{A2A_JSON}; charset=utf-8"}, A2A_JSON),
    ],
)
async def test_media_type_follows_the_request(client: httpx.AsyncClient, named: dict[str, str], expected: str) -> None:
    """Go's client reads an error only from the type that it accepts."""
    given = json.dumps(body())
    sent = await client.post("/message:send", content=given, headers={"Content-Type": JSON, **named})
    missing = await client.get("/tasks/nope", headers=named)
    unknown = await client.get("/nowhere", headers=named)
    refused_method = await client.put("/tasks", headers=named)
    answers = (sent, missing, unknown, refused_method)
    assert [answer.status_code for answer in answers] == [200, 404, 404, 405]
    assert {answer.headers["content-type"] for answer in answers} == {expected}


async def test_cancel_body_is_optional() -> None:
    async with http(parts(AskingAgent()).app()) as client:
        for number, given in enumerate([{}, {"json": {}}, {"json": {"metadata": {"why": "late"}}}]):
            task = (await client.post("/message:send", json=body(message_id=f"m-{number}"))).json()["task"]
            canceled = await client.post(f"/tasks/{task['id']}:cancel", **given)  # type: ignore[arg-type]
            assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELED"
            again = await client.post(f"/tasks/{task['id']}:cancel", **given)  # type: ignore[arg-type]
            refused(again, 400, "TASK_NOT_CANCELABLE", "canceled")


@pytest.mark.parametrize("fails", [False, True], ids=["whole", "cut"])
async def test_rest_stream_frames_equal_sdk_frames(fails: bool) -> None:
    """Compare whole and interrupted streams: each frame is a StreamResponse, the error is that of the SDK."""
    store = BreakingRoute(ManualClock())
    made = parts(GatedAgent() if fails else talking(3), store)
    handler = SdkHandler(made)
    sdk = AwaitBackgroundTurnsMiddleware(Starlette(routes=create_rest_routes(handler, SdkContextBuilder("test"))))
    headers = {"A2A-Version": "1.0"}
    async with http(made.app()) as ours, http(sdk) as theirs:
        if fails:
            at_once = {**body(contextId="c-1"), "configuration": {"returnImmediately": True}}
            task = (await ours.post("/message:send", json=at_once)).json()["task"]
            store.breaks_after = 1
            mine = await ours.get(f"/tasks/{task['id']}:subscribe")
            their = await theirs.get(f"/tasks/{task['id']}:subscribe", headers=headers)
            assert isinstance(made.agent, GatedAgent)
            made.agent.go.set()
        else:
            mine = await ours.post("/message:stream", json=body(contextId="c-1"))
            their = await theirs.post("/message:stream", json=body(contextId="c-1"), headers=headers)
    assert mine.headers["content-type"] == their.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert frames(mine, "event", "data") == frames(their, "event", "data")
    assert frames(mine, "event", "data")[0].keys() == {"data"}
    if fails:
        assert frames(mine, "event")[-1] == {"event": "error"}
        assert frames(mine, "data")[-1]["data"]["error"]["code"] == 500
    else:
        assert frames(mine, "id") == [{"id": number} for number in ("1", "2", "2.1.0", "2.1.1", "2.1.2", "2.1.3", "3")]


class BreakingRoute(MemoryTaskStore):
    """Task store that raises StoreCorrupt when the log after some event is read."""

    breaks_after: int | None = None

    async def log(self, key: Any, *, after: int = 0) -> Any:
        if self.breaks_after is not None and after >= self.breaks_after:
            raise StoreCorrupt("secret of the store")
        return await super().log(key, after=after)


def frames(answer: httpx.Response, *names: str) -> list[dict[str, Any]]:
    """Return the fields with these names of each frame."""
    found = []
    for frame in answer.content.decode().replace("\r\n", "\n").strip("\n").split("\n\n"):
        lines = [line.partition(": ") for line in frame.split("\n") if not line.startswith(":")]
        read = {name: json.loads(value) if name == "data" else value for name, _, value in lines if name in names}
        found.append(read)
    return [frame for frame in found if frame]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_subscribe_accepts_get_and_post(method: str) -> None:
    made = parts(AskingAgent())
    app = made.app()
    async with http(app) as client:
        task = (await client.post("/message:send", json=body())).json()["task"]
        heard = client.request(
            method, f"/tasks/{task['id']}:subscribe", content=b"\xff no JSON", headers={"Last-Event-ID": "1"}
        )
        canceled = client.post(f"/tasks/{task['id']}:cancel")
        answer, _ = await asyncio.gather(heard, canceled)
    assert frames(answer, "data")[-1]["data"]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


@each_row(
    "path",
    [
        "/tasks/",
        "/agents/test/tasks/",
        "/tasks/{id}/",
        "/agents/test/.well-known/agent-card.json/",
        "/health/",
    ],
)
async def test_path_with_one_trailing_slash_is_accepted(client: httpx.AsyncClient, path: str) -> None:
    task = (await client.post("/message:send/", json=body())).json()["task"]
    answer = await client.get(path.format(id=task["id"]))
    assert answer.status_code == 200, answer.text
    assert answer.content == (await client.get(path.format(id=task["id"]).removesuffix("/"))).content
    assert (await client.get(f"{path.format(id=task['id'])}/")).status_code == 404, "one slash only"


@each_row("root", ["/api", "api", "/api/", "api/", "/", ""])
async def test_root_path_may_have_any_slashes(app: FastAPI, root: str) -> None:
    prefix = "/api" if "api" in root else ""
    transport = httpx.ASGITransport(app, root_path=root)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://test{prefix}") as client:
        task = (await client.post("/message:send", json=body())).json()["task"]
        for path in ("/tasks", "/agents/test/tasks/", "/.well-known/agent-card.json"):
            assert (await client.get(path)).status_code == 200
        assert (await client.get(f"/tasks/{task['id']}/")).json() == task


@each_row("method", ["POST", "DELETE"])
@each_row("path", ["/tasks/t-1:nothing", "/v1/tasks/t-1:nothing", "/acme/tasks/t-1:nothing"])
async def test_unknown_method_after_colon_in_path_returns_404(
    client: httpx.AsyncClient, path: str, method: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, "allow" in answer.headers) == (404, False)
    known = await client.request(method, path.removesuffix(":nothing"))
    assert (known.status_code, known.headers["allow"]) == (405, "GET")


async def test_reconnected_client_receives_following_events(client: httpx.AsyncClient) -> None:
    """Reconnect over HTTP+JSON with a Last-Event-ID, which works as in JSON-RPC."""
    task = (await client.post("/message:send", json=body())).json()["task"]
    answer = await client.get(f"/tasks/{task['id']}:subscribe", headers={"Last-Event-ID": "2"})
    assert frames(answer, "id")[-1] == {"id": "3"}
    assert all("task" not in frame["data"] for frame in frames(answer, "data"))


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/a2a+json", "Application/A2A+JSON; charset=utf-8", "application/json;v=1"],
)
async def test_json_and_a2a_json_content_types_are_accepted(client: httpx.AsyncClient, content_type: str) -> None:
    sent = await client.post("/message:send", content=json.dumps(body()), headers={"Content-Type": content_type})
    assert sent.status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/xml", "application/a2a"])
async def test_another_media_type_is_refused(client: httpx.AsyncClient, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await client.post("/message:send", content=b"not even JSON", headers=headers)
    refused(answer, 400, "CONTENT_TYPE_NOT_SUPPORTED", "application/a2a+json")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/tasks"), ("GET", "/tasks/x"), ("DELETE", "/tasks/x/pushNotificationConfigs/y")]
)
async def test_body_of_get_or_delete_request_is_ignored(app: FastAPI, method: str, path: str) -> None:
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    with_body = await ask(app, method, path, headers, b"\xff")
    without = await ask(app, method, path)
    assert (with_body.status_code, with_body.content) == (without.status_code, without.content)


@each_row(
    ("given", "reason", "word"),
    [
        (b"", "PARSE_ERROR", "empty"),
        (b"\xff\xfe{\x00}\x00", "PARSE_ERROR", "UTF-8"),
        (b'{"message": NaN}', "PARSE_ERROR", "NaN"),
        (b'{"a": 1, "a": 2}', "INVALID_REQUEST", "twice"),
        (b"[]", "INVALID_REQUEST", "object"),
        (b'{"text": "\\ud83d"}', "INVALID_PARAMS", "surrogate"),
        (b"{}", "INVALID_PARAMS", "message"),
        (b'{"message": {"messageId": "a", "message_id": "b"}}', "INVALID_PARAMS", "message_id"),
    ],
)
async def test_invalid_body_is_refused(client: httpx.AsyncClient, given: bytes, reason: str, word: str) -> None:
    """The error gives the same reason as that of JSON-RPC."""
    answer = await client.post("/message:send", content=given, headers={"Content-Type": A2A_JSON})
    refused(answer, 400, reason, word)


@pytest.mark.parametrize("path", ["/message:send", "/"])
async def test_client_disconnect_during_request_body_logs_no_error(
    app: FastAPI, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def receive() -> Message:
        return unread.pop()

    async def send(message: Message) -> None:
        """Drop the response, because the client has disconnected."""

    unread: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"{", "more_body": True}]
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    await app(scope, receive, send)
    assert not unread
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"parts": [{"text": "a"}, {"text": 7}]}, "message.parts[1].text"),
    ({"parts": [{"text": "a"}, {"raw": "a"}]}, "message.parts[1].raw"),
    ({"parts": [{"text": "a", "data": 1}]}, "message.parts[0]"),
    ({"parts": [None]}, "message.parts[0]"),
    ({"role": "ROLE_NOBODY"}, "message.role"),
    ({"extensions": ["a", None]}, "message.extensions[1]"),
]


@each_row(("message", "field"), PARTS)
async def test_invalid_field_is_named_in_both_bindings(
    client: httpx.AsyncClient, message: dict[str, Any], field: str
) -> None:
    """The error has the field's path as the client spelled it."""
    params = body(**message)
    error = refused(await client.post("/message:send", json=params), 400, "INVALID_PARAMS", field)
    assert fields(error) == [field]
    other = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
    assert other.json()["error"]["code"] == -32602
    assert other.json()["error"]["message"] == error["message"]
    assert other.json()["error"]["data"] == error["details"]


@each_row(
    ("query", "field"),
    [
        ("pageSize=x", "pageSize"),
        ("pageSize=%C2%B2", "pageSize"),
        ("pageSize=3&pageSize=3", "pageSize"),
        ("status=nope", "status"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("includeArtifacts=yes", "includeArtifacts"),
        ("contextId=a%00b", "contextId"),
        ("tenant=a%20b", "tenant"),
    ],
)
async def test_invalid_query_parameter_is_refused(client: httpx.AsyncClient, query: str, field: str) -> None:
    """Send invalid and repeated query parameters."""
    error = refused(await client.get(f"/tasks?{query}"), 400, "INVALID_PARAMS", field)
    assert fields(error) == [field]


async def test_request_fields_are_accepted_as_query_parameters(client: httpx.AsyncClient) -> None:
    """Send known and unknown query parameters: unknown ones are ignored, even if repeated."""
    for number in range(3):
        await client.post("/message:send", json=body(message_id=f"m-{number}", contextId=f"c-{number}"))
    query = (
        "pageSize=2&includeArtifacts=true&historyLength=0&status=TASK_STATE_COMPLETED"
        "&statusTimestampAfter=2020-01-01T00:00:00Z&unknown=1&unknown=2&page_size=x&contextId="
    )
    page = (await client.get(f"/tasks?{query}")).json()
    assert (len(page["tasks"]), page["totalSize"], page["pageSize"]) == (2, 3, 2)
    assert all(task["artifacts"] == [] and "history" not in task for task in page["tasks"])
    last = (await client.get(f"/tasks?{query}&pageToken={page['nextPageToken']}")).json()
    assert (len(last["tasks"]), last["nextPageToken"]) == (1, "")
    one = await client.get(f"/tasks/{last['tasks'][0]['id']}?historyLength=0&x=1")
    assert "history" not in one.json()
    wrong = await client.get(f"/tasks/{last['tasks'][0]['id']}?historyLength=-1")
    refused(wrong, 400, "INVALID_PARAMS", "istory")


@each_row(
    "target",
    [
        "/nope",
        "/tasks//",
        "/Tasks",
        "/message:Send",
        "/%2e%2e/tasks",
        "/a%20b/tasks",
        "/agents/nope",
        "/agents/nope/message:send",
        "/agents/test//tasks",
        "/tasks/x//",
        "/tasks/a%2Fb",
    ],
)
@each_row("method", ["GET", "BREW"])
async def test_unknown_rest_path_is_not_found(app: FastAPI, method: str, target: str) -> None:
    refused(await ask(app, method, target), 404, "METHOD_NOT_FOUND", "/.well-known/agent-card.json")


@pytest.mark.parametrize(
    "target", ["/tasks/%2e%2e", "/tasks/%FF", "/tasks/%00", "/tasks/a%3Fb", "/tasks/" + "x" * 5000]
)
async def test_invalid_task_id_returns_task_not_found(app: FastAPI, target: str) -> None:
    refused(await ask(app, "GET", target), 404, "TASK_NOT_FOUND", "Task not found. Check")


@each_row(
    ("method", "target", "allowed"),
    [
        ("GET", "/message:send", "POST"),
        ("POST", "/tasks", "GET"),
        ("DELETE", "/tasks/x:subscribe", "POST, GET"),
        ("POST", "/tasks/x/pushNotificationConfigs/y", "GET, DELETE"),
        ("GET", "/ten/message:send", "POST"),
        ("GET", "/", "POST"),
        ("PUT", "/agents/test/", "POST"),
        ("POST", "/.well-known/agent-card.json", "GET, HEAD"),
    ],
)
async def test_unsupported_http_method_of_path_is_refused(app: FastAPI, method: str, target: str, allowed: str) -> None:
    answer = await ask(app, method, target)
    refused(answer, 405, "METHOD_NOT_FOUND", allowed.partition(",")[0])
    assert sorted(answer.headers["allow"].split(", ")) == sorted(allowed.split(", "))


async def test_body_with_other_task_id_than_path_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/tasks/t-1:cancel", json={"id": "t-2"})
    assert fields(refused(answer, 400, "INVALID_PARAMS", "path")) == ["id"]
    refused(await client.post("/tasks/t-1:cancel", json={"id": "t-1"}), 404, "TASK_NOT_FOUND")
    answer = await client.post("/tasks/t-1/pushNotificationConfigs", json={"taskId": "t-2", "url": "https://x.test"})
    assert fields(refused(answer, 400, "INVALID_PARAMS", "path")) == ["taskId"]


async def test_unavailable_store_returns_503_with_retry_after() -> None:

    class Busy(MemoryTaskStore):
        async def log(self, key: Any, *, after: int = 0) -> Any:
            raise StoreUnavailable("table aion-prod is throttled")

    async with http(parts(talking(1), Busy(ManualClock())).app()) as client:
        answer = await client.get("/tasks/t-1")
        refused(answer, 503, "SERVICE_UNAVAILABLE", "again in a moment")
        assert int(answer.headers["retry-after"]) > 0
        assert "aion-prod" not in answer.text
        told = await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t-1"}})
        assert (told.status_code, told.json()["error"]["code"]) == (200, -32053)
        assert int(told.headers["retry-after"]) > 0
        assert told.json()["error"]["data"][0]["reason"] == "SERVICE_UNAVAILABLE"


@pytest.mark.parametrize("path", ["/tasks/t-1", "/v1/tasks/t-1", "/tasks/t-1:subscribe"])
async def test_unexpected_error_response_hides_exception_text(path: str) -> None:

    class BrokenService(MemoryTaskStore):
        async def log(self, key: Any, *, after: int = 0) -> Any:
            raise RuntimeError("secret of the store")

    async with http(parts(talking(1), BrokenService(ManualClock())).app()) as client:
        answer = await client.get(path)
    assert answer.status_code == 500
    assert "operator" in answer.text
    assert "secret" not in answer.text


async def test_official_sdk_client_calls_succeed(client: httpx.AsyncClient) -> None:
    sdk = RestTransport(client, pb.AgentCard(), "http://test/agents/test/")
    request = pb.SendMessageRequest(
        message=pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text="hi"), pb.Part(raw=b"\0\xff")])
    )
    task = (await sdk.send_message(request)).task
    assert task.status.state == pb.TASK_STATE_COMPLETED
    assert task.history[0].parts[1].raw == b"\0\xff"
    assert await sdk.get_task(pb.GetTaskRequest(id=task.id)) == task
    request.message.message_id = "m-2"
    heard = [event async for event in sdk.send_message_streaming(request)]
    assert heard[0].WhichOneof("payload") == "task"
    assert heard[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    listed = await sdk.list_tasks(pb.ListTasksRequest(page_size=1, include_artifacts=True))
    assert (len(listed.tasks), listed.total_size) == (1, 2)
    with pytest.raises(TaskNotFoundError):
        await sdk.get_task(pb.GetTaskRequest(id="nope"))


async def test_repeated_message_is_recognised_across_bindings(client: httpx.AsyncClient) -> None:
    task = (await client.post("/message:send", json=body(contextId="c-1"))).json()["task"]
    again = (await client.post("/", json=send(contextId="c-1"))).json()["result"]["task"]
    assert again == task


@pytest.mark.parametrize("path", ["/agents/.well-known/agent-card.json", "/nowhere/.well-known/agent-card.json"])
async def test_missing_card_names_the_cards(client: httpx.AsyncClient, path: str) -> None:
    """Help a client that resolves the card's path against an agent's URL without a slash at its end."""
    error = refused(await client.get(path), 404, "METHOD_NOT_FOUND", "slash at its end")
    assert "The cards are at /agents/test/.well-known/agent-card.json." in error["message"]
