"""Compliance of event streams: each example agent in both versions and bindings, and each golden transcript."""

import copy
import json
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3.proto_utils import FromProto
from fastapi import FastAPI
from google.protobuf.json_format import ParseDict

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.protocol.answers import events_of, result_of
from tests.runtime.protocol.compliance import Event, faults
from tests.runtime.protocol.dialects import DIALECTS, Dialect, RpcDialect
from tests.support.asgi import call
from tests.support.server import ROOT

EXAMPLES = [
    (path, agent_id)
    for path in [ROOT / "aion.yaml", *sorted((ROOT / "examples").glob("**/aion.yaml"))]
    for agent_id in yaml.safe_load(path.read_text(encoding="utf-8"))["aion"]["agents"]
    # Leave out the example `mcp`, because its MCP server's process would outlive the event loop of its test, and the
    # planner, which calls another agent: examples/delegation/test_delegation.py serves both.
    if path.parent.name not in ("mcp", "planner")
]
GOLDEN = sorted((ROOT / "tests" / "runtime" / "golden").rglob("*.sse"))


def declared(config: Path) -> dict[str, Any]:
    agents: dict[str, Any] = yaml.safe_load(config.read_text(encoding="utf-8"))["aion"]["agents"]
    return agents


@pytest.fixture(autouse=True)
def example_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the forty-minute job of an example, whose module reads these settings at import, and the pauses of another."""
    monkeypatch.setenv("JOB_STEPS", "3")
    monkeypatch.setenv("JOB_STEP_SECONDS", "0")
    monkeypatch.setenv("TRIP_SECONDS_PER_WORD", "0")
    # Set the variable for each test, because all tests share an app, and building the app sets the variables of its
    # aion.yaml only once.
    monkeypatch.setenv("WEATHER_URL", "http://127.0.0.1:8001")


@cache
def app_of(config: Path) -> FastAPI:
    """Return an app with the agents of the file."""
    return build_app(Settings.from_environ({"AION_CONFIG": str(config), "AION_STORE": "memory"}))


async def ask(config: Path, agent_id: str, dialect: Dialect, operation: str, params: Any) -> Any:
    sent = dialect.request(operation, params)
    assert sent is not None
    return await call(app_of(config), sent.method, f"/agents/{agent_id}{sent.target}", sent.body, sent.headers)


def as_v03(event: Event) -> Event:
    """Return an event of v0.3's HTTP+JSON in the form of JSON-RPC."""
    read = FromProto.stream_response(ParseDict(event, pb03.StreamResponse()))
    told: Event = read.model_dump(mode="json", by_alias=True, exclude_none=True)
    if told["kind"] in ("task", "status-update"):
        # Undo two changes by the SDK's conversion: another format of the timestamp, and an empty message in the status.
        status = next(iter(event.values()))["status"]
        told["status"]["timestamp"] = status["timestamp"]
        if "message" not in status:
            told["status"].pop("message", None)
    return told


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    ("config", "agent_id"), EXAMPLES, ids=[f"{path.parent.name}: {agent_id}" for path, agent_id in EXAMPLES]
)
async def test_stream_of_each_example_agent_complies_with_a2a(config: Path, agent_id: str, dialect: Dialect) -> None:
    """Stream each example agent: a client that folds the events gets the same task as GetTask returns."""
    text = declared(config)[agent_id]["skills"][0]["examples"][0]
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    answer = await ask(config, agent_id, dialect, "SendStreamingMessage", {"message": message})
    events = events_of(dialect, answer)
    if dialect.name == "HTTP+JSON 0.3":
        events = [as_v03(event) for event in events]
    assert faults(events, dialect.version) == []
    last = events[-1].get("statusUpdate", events[-1])
    stored = result_of(RpcDialect(), await ask(config, agent_id, RpcDialect(), "GetTask", {"id": last["taskId"]}))
    assert stored["status"]["state"] in ("TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED")
    assert stored["status"]["timestamp"] == last["status"]["timestamp"]


def test_each_example_has_aion_yaml() -> None:
    """The tests find examples by their aion.yaml, so an example without one would not be tested."""
    folders = {
        (path.parent / declared(path)[agent_id]["path"].partition(":")[0]).parent.name for path, agent_id in EXAMPLES
    }
    assert {agent.parent.name for agent in (ROOT / "examples").rglob("agent.py")} - {"mcp", "planner"} <= folders


def streams_of(transcript: Path) -> list[list[Event]]:
    """Return the streams of a golden transcript: one for each message."""
    streams: list[list[Event]] = []
    for line in transcript.read_text(encoding="utf-8").replace("<time>", "2026-01-31T12:00:00.000Z").splitlines():
        if line.startswith("> "):
            streams.append([])
        elif line.startswith("data: "):
            streams[-1].append(json.loads(line.removeprefix("data: "))["result"])
    return [stream for stream in streams if stream]


def test_golden_transcript_complies_with_a2a() -> None:
    """Check each golden transcript too: together they have every form of answer, and a mistake would be expected."""
    assert len(GOLDEN) > 90
    for transcript in GOLDEN:
        version = "0.3" if transcript.stem.endswith("v03") else "1.0"
        streams = streams_of(transcript)
        assert streams, transcript
        for at, stream in enumerate(streams):
            begins = at == 0 or "SUBMITTED" in json.dumps(stream[0]).upper()
            assert faults(stream, version, begins=begins) == [], transcript


def dropped(at: int) -> Callable[[list[Event]], None]:
    return lambda events: events.__delitem__(at)


def put(at: int, *path: str, value: Any) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        inside: Any = events[at]
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = value

    return change


MISTAKES: dict[str, tuple[Callable[[list[Event]], None], str]] = {
    "no task first": (dropped(0), "the first event is no task"),
    "no working": (dropped(1), "does not say that the task works"),
    "no end": (dropped(-1), "at which the task rests"),
    "two ends": (lambda events: events.append(copy.deepcopy(events[-1])), "and more follows"),
    "two tasks": (lambda events: events.insert(2, copy.deepcopy(events[0])), "a task comes more than once"),
    "an opening that appends": (put(2, "append", value=True), "which is not open"),
    "a chunk that does not append": (put(3, "append", value=False), "before it was closed"),
    "no last chunk": (put(-2, "lastChunk", value=False), "is never closed"),
    "an early last chunk": (put(3, "lastChunk", value=True), "which is not open"),
    "an early final": (put(1, "final", value=True), "final: True"),
    "a final that is none": (put(-1, "final", value=False), "final: False"),
    "another task's event": (put(3, "taskId", value="another"), "is another task's"),
    "a kind that is none": (put(3, "kind", value="internal:llm-call"), "which is none"),
    "a state that is none": (put(1, "status", "state", value="dreaming"), "not as the schema has it"),
    "no time": (put(1, "status", value={"state": "working"}), "has the time"),
    "a time without its zone": (put(1, "status", "timestamp", value="2026-01-31T12:00:00.000"), "has the time"),
    "a time that goes back": (put(-1, "status", "timestamp", value="2000-01-31T12:00:00.000Z"), "has the time"),
    "an agent that speaks as the user": (put(-1, "status", "message", "role", value="user"), "a message of 'user'"),
    "an internal event": (put(1, "metadata", value={"x": [{"kind": "internal:checkpoint"}]}), "an internal event"),
}


def test_compliance_check_detects_each_mistake_added_to_stream() -> None:
    for mistake, (make, sentence) in MISTAKES.items():
        (events,) = streams_of(ROOT / "tests" / "runtime" / "golden" / "plain_answer.v03.sse")
        make(events)
        assert any(sentence in fault for fault in faults(events, "0.3")), mistake
