"""Examples of the OpenAPI document: responses of a server in this process to the example requests.

`make openapi` records them in scripts/openapi/examples.json. Fixed values replace random ids, secrets and times.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import httpx
import uvicorn

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from aion_core.web.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "scripts" / "openapi" / "examples.json"
AGENTS = f"""
aion:
  agents:
    echo:
      path: {ROOT}/examples/echo/agent.py:graph
      name: Echo
      description: Repeats the message word by word.
      capabilities: {{extended_agent_card: true}}
      extended_card: {{description: Repeats the message word by word. This text is for authenticated callers.}}
    approval:
      path: {ROOT}/examples/approval/agent.py:graph
"""
WITH_KEYS = AGENTS.replace("aion:", "aion:\n  security: {schemes: {key: {type: api-key}}, require: [key]}")
START = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)
"""Time of the first event in the examples."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]+")

Examples = dict[str, Any]


def recorded() -> Examples:
    """Return the example responses: the bodies by operation, the events of streams, and the bodies of errors."""
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "open.yaml"), Path(folder, "guarded.yaml")
        for file, agents in zip(files, (AGENTS, WITH_KEYS), strict=True):
            file.write_text(agents, encoding="utf-8")
        examples = asyncio.run(_recorded_with(*files))
    fixed: Examples = json.loads(_fixed(json.dumps(examples)))
    return fixed


async def _recorded_with(open_config: Path, guarded_config: Path) -> Examples:
    async with _server(open_config) as http, _server(guarded_config) as guarded:
        examples = await _recorded(http)
        examples["errors"]["Unauthenticated"] = _body(await guarded.get("/tasks"), 401)
    return examples


async def _recorded(http: httpx.AsyncClient) -> Examples:
    """Make the requests of the examples, in such an order that each request finds its task."""
    bodies = {operation.name: dict(operation.doc.example or {}) for operation in OPERATIONS if operation.doc}
    sent = await http.post("/message:send", json=bodies["SendMessage"])
    task = f"/tasks/{sent.json()['task']['id']}"
    configs = f"{task}/pushNotificationConfigs"
    async with http.stream("POST", "/message:stream", json=bodies["SendStreamingMessage"]) as stream:
        streamed = [event async for event in _events(stream)]
    created = await http.post(configs, json=bodies["CreateTaskPushNotificationConfig"])
    config = f"{configs}/{created.json()['id']}"
    payment = {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "pay 250 to Ada"}]}
    waiting = await http.post("/agents/approval/message:send", json={"message": payment})
    paid = f"/agents/approval/tasks/{waiting.json()['task']['id']}"
    async with http.stream("POST", f"{paid}:subscribe") as stream:
        subscription = _events(stream)
        followed = [await anext(subscription)]
        canceled = await http.post(f"{paid}:cancel")
        followed += [event async for event in subscription]
    results = {
        "SendMessage": sent,
        "GetTask": await http.get(task),
        "ListTasks": await http.get("/tasks", params={"historyLength": 0}),
        "CancelTask": canceled,
        "CreateTaskPushNotificationConfig": created,
        "GetTaskPushNotificationConfig": await http.get(config),
        "ListTaskPushNotificationConfigs": await http.get(configs),
        "DeleteTaskPushNotificationConfig": await http.delete(config),
        "GetExtendedAgentCard": await http.get("/extendedAgentCard"),
    }
    json_type = {"content-type": "application/json"}
    errors = {
        "BadRequest": _body(await http.post("/message:send", json={"message": {"messageId": "m-3"}}), 400),
        "NotFound": _body(await http.get("/tasks/unknown"), 404),
        "TooLarge": _body(await http.post("/message:send", content=b" " * 6_000_000, headers=json_type), 413),
        "Encoded": _body(
            await http.post("/message:send", content=b"{}", headers={**json_type, "content-encoding": "gzip"}), 415
        ),
    }
    return {
        "results": {name: _body(response, 200) for name, response in results.items()},
        "streams": {"SendStreamingMessage": streamed, "SubscribeToTask": followed},
        "errors": errors,
    }


def _body(response: httpx.Response, status: int) -> Any:
    if response.status_code != status:
        raise RuntimeError(f"{response.request.url} answered {response.status_code}: {response.text}")
    return response.json()


async def _events(stream: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """Yield the id and the data of each Server-Sent Event."""
    fields: dict[str, str] = {}
    async for line in stream.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            fields[name] = value
        elif name == "data":
            fields[name] = json.dumps(_ordered(json.loads(value)), separators=(",", ":"), ensure_ascii=False)
        elif not line and fields:
            yield fields
            fields = {}


def _ordered(value: Any) -> Any:
    """Return a JSON value with the keys of its metadata sorted, because protobuf's maps have no order."""
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _sorted(each) if name == "metadata" else _ordered(each) for name, each in value.items()}


def _sorted(value: Any) -> Any:
    """Return a JSON value with the keys of each object sorted."""
    if isinstance(value, list):
        return [_sorted(each) for each in value]
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


@asynccontextmanager
async def _server(config: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the agents of an aion.yaml from memory on a free port, and yield a client."""
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://agents.example.com"}
    server = uvicorn.Server(uvicorn.Config(build_app(Settings.from_environ(environ)), port=0, log_level="critical"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for its start
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            yield http
    finally:
        server.should_exit = True
        await serving


def _fixed(text: str) -> str:
    """Replace random ids, secrets and times by fixed values. Replaced times have the same order."""
    ids = {found: str(uuid5(NAMESPACE_URL, str(place))) for place, found in enumerate(_unique(_ID, text))}
    times = {
        found: f"{(START + timedelta(milliseconds=120 * place)).isoformat(timespec='milliseconds').partition('+')[0]}Z"
        for place, found in enumerate(sorted(_unique(_TIME, text)))
    }
    for found, replacement in {**ids, **times}.items():
        text = text.replace(found, replacement)
    return _SECRET.sub("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", text)


def _unique(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return iter(dict.fromkeys(pattern.findall(text)))


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(recorded(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
