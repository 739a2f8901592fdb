"""Log line for each HTTP request to the development server."""

import json
import logging
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from aion_core import log
from aion_tools.dev.request_log import RequestLogMiddleware


def app_of(answer: Response) -> RequestLogMiddleware:
    async def endpoint(request: Request) -> Response:
        await request.body()
        return answer

    return RequestLogMiddleware(Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])]))


async def logged(answer: Response, caplog: pytest.LogCaptureFixture, **asked: Any) -> dict[str, Any]:
    log.install()
    transport = httpx.ASGITransport(app_of(answer))
    with caplog.at_level(logging.INFO, "aion_tools.dev.request_log"):
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            await http.request(asked.pop("method", "POST"), asked.pop("path", "/"), **asked)
    (record,) = [each for each in caplog.records if each.name == "aion_tools.dev.request_log"]
    return {**vars(record), **log.labels_of(record)}


async def test_json_rpc_request_is_logged_under_its_method(caplog: pytest.LogCaptureFixture) -> None:
    answer = {"result": {"task": {"id": "t-1", "contextId": "c-1", "status": {}}}}
    said = await logged(Response(json.dumps(answer)), caplog, json={"method": "SendMessage", "params": {}})
    assert (said["operation"], said["status"], said["is_failure"]) == ("SendMessage", "200", False)
    assert (said["task_id"], said["context_id"]) == ("t-1", "c-1")


async def test_protocol_error_is_logged_as_failure(caplog: pytest.LogCaptureFixture) -> None:
    answer = {"error": {"code": -32001, "message": "Task not found"}}
    said = await logged(Response(json.dumps(answer)), caplog, json={"method": "GetTask", "params": {"id": "t-2"}})
    assert (said["status"], said["is_failure"], said["task_id"]) == ("200 error -32001", True, "t-2")


async def test_stream_request_is_logged_with_its_first_event(caplog: pytest.LogCaptureFixture) -> None:
    frames = (f"id: 1\ndata: {json.dumps({'result': {'task': {'id': 't-1', 'status': {}}}})}\n\n", "data: {}\n\n")

    async def stream() -> Any:
        for frame in frames:
            yield frame

    body = {"method": "SendStreamingMessage"}
    said = await logged(StreamingResponse(stream(), media_type="text/event-stream"), caplog, json=body)
    assert (said["operation"], said["task_id"]) == ("SendStreamingMessage", "t-1")


async def test_rest_request_is_logged_under_its_path(caplog: pytest.LogCaptureFixture) -> None:
    said = await logged(Response(status_code=404), caplog, method="GET", path="/tasks/t-1", params={"q": "private"})
    assert (said["operation"], said["status"], said["is_failure"]) == ("GET /tasks/t-1", "404", True)


async def test_control_characters_of_path_are_escaped(caplog: pytest.LogCaptureFixture) -> None:
    said = await logged(Response(status_code=404), caplog, method="GET", path="/tasks/a%0aforged%1b[2J%C2%9B%00")
    assert said["operation"] == "GET /tasks/a\\nforged\\x1b[2J\\x9b\\x00"


async def test_unknown_request_method_name_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    said = await logged(Response("{}"), caplog, json={"method": "a\nb is forged"})
    assert said["operation"] == "POST /"


@pytest.mark.parametrize("depth", [500, 5000, 60_000])
async def test_deeply_nested_request_is_logged(depth: int, caplog: pytest.LogCaptureFixture) -> None:
    body = '{"task":' * depth + "1" + "}" * depth
    assert (await logged(Response("{}"), caplog, content=body))["operation"] == "POST /"


OF_CONSOLE = {"headers": {"sec-fetch-site": "same-origin"}}


@pytest.mark.parametrize(
    ("asked", "operation"),
    [
        ({"method": "GET", "path": "/console/console.js"}, "GET /console/console.js"),
        ({"method": "GET", "path": "/agents/a/console/webhooks"}, "GET /agents/a/console/webhooks"),
        ({"method": "POST", "path": "/agents/a/console/markdown"}, "POST /agents/a/console/markdown"),
        ({"method": "GET", "path": "/.well-known/agent-card.json"} | OF_CONSOLE, "GET /.well-known/agent-card.json"),
        ({"json": {"method": "ListTasks"}} | OF_CONSOLE, "ListTasks"),
    ],
)
async def test_polling_requests_of_console_are_logged_only_if_failed(
    asked: dict[str, Any], operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """While the console shows webhooks, it sends a read each second, which would fill the log."""
    said = await logged(Response(status_code=401), caplog, **asked)
    assert said["operation"] == operation
    caplog.clear()
    with pytest.raises(ValueError, match="not enough values"):
        await logged(Response("{}"), caplog, **asked)


async def test_message_from_console_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    said = await logged(Response("{}"), caplog, json={"method": "SendMessage"}, **OF_CONSOLE)
    assert said["operation"] == "SendMessage"
