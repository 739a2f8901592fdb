"""Official client of A2A 0.3 (a2a-sdk 0.3) against `make dev`, on both bindings."""

import json
import subprocess
from typing import Any

import pytest

from tests.support.environments import python_with
from tests.support.server import ROOT, ServerProcess

REQUIREMENTS = ROOT / "tests" / "support" / "a2a-sdk-0.3.txt"
PROGRAM = ROOT / "tests" / "support" / "e2e" / "v03_client.py"

LONG = "The quick brown fox jumps over the lazy dog. " * 150
FILE = {"bytes": "AAEC", "mimeType": "application/octet-stream", "name": "three.bin"}

Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["JSONRPC", pytest.param("HTTP+JSON", marks=pytest.mark.deep)])
def results(request: pytest.FixtureRequest, server: ServerProcess) -> Results:
    """Run all steps on one binding, and return the result of each step."""
    python = python_with(REQUIREMENTS)
    command = [python, PROGRAM, server.url, request.param, LONG]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    steps = {line["step"]: line for line in map(json.loads, ran.stdout.splitlines())}
    return {"binding": request.param, **steps}


def result_of(results: Results, step: str) -> Any:
    assert "error" not in results[step], results[step]
    return results[step]["heard"]


def check_stream(events: list[dict[str, Any]], text: str) -> None:
    assert {event["kind"] for event in events[1:]} == {"status-update", "artifact-update"}
    assert events[0]["kind"] == "task"
    chunks = [event for event in events if event["kind"] == "artifact-update"]
    assert text.endswith("".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks))
    assert [chunk["append"] for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk["lastChunk"] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [event["final"] for event in events if event["kind"] == "status-update"][-1] is True
    assert events[-1]["status"]["state"] == "completed"
    assert events[-1]["status"]["message"]["parts"][0]["text"] == text


def test_v03_client_streams_answer(results: Results) -> None:
    """Stream an answer from the task to its final status."""
    events, task = result_of(results, "stream")["heard"], result_of(results, "stream")["stored"]
    text = "one two \U0001f600 four"
    check_stream(events, text)
    assert events[0]["status"]["state"] == "submitted"
    assert events[1]["status"]["state"] == "working"
    chunks = [event for event in events if event["kind"] == "artifact-update"]
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks) == text
    assert task["status"] == events[-1]["status"]
    assert not task.get("artifacts")


def test_v03_client_gets_whole_task(results: Results) -> None:
    """Get a completed task with its answer and history."""
    answer = result_of(results, "send")
    assert answer["sent"] == answer["stored"]
    assert answer["sent"]["status"]["state"] == "completed"
    text, file, data = answer["sent"]["history"][0]["parts"]
    assert (text["kind"], text["text"]) == ("text", "hello")
    assert (file["kind"], file["file"]) == ("file", FILE)
    assert (data["kind"], data["data"]) == ("data", {"n": [1, 2.5, None]})


def test_v03_client_subscribes_to_running_task(results: Results) -> None:
    """Resubscribe to a running task."""
    answer = result_of(results, "resubscribe")
    events = answer["heard"]
    check_stream(events, LONG * answer["times"])
    assert events[0]["status"]["state"] == "working"


def test_v03_client_cancels_task(results: Results) -> None:
    """Cancel a running task."""
    answer = result_of(results, "cancel")
    assert answer["canceled"]["status"]["state"] == "canceled"
    assert answer["stored"] == answer["canceled"]


def test_v03_client_reads_card(results: Results) -> None:
    """Read the card by its v0.3 fields."""
    card = result_of(results, "card")
    assert card["preferredTransport"] == "JSONRPC"
    assert {interface["transport"] for interface in card["additionalInterfaces"]} == {"JSONRPC", "HTTP+JSON"}
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"]["pushNotifications"] is True
    assert card["skills"][0]["id"] == "echo"


def test_v03_client_manages_push_configs(results: Results) -> None:
    """Set a push config, and read it by its id."""
    answer = result_of(results, "push_config")
    assert answer["set"] == answer["read"]
    config = {"id": "p", "url": "http://127.0.0.1:9/hook", "token": "token"}
    assert answer["read"] == {"taskId": answer["task"], "pushNotificationConfig": config}


@pytest.mark.parametrize(
    ("step", "code", "http"),
    [
        ("cancel_an_ended_task", -32002, 400),
        ("unknown_task", -32001, 404),
        ("refused_stream", -32001, 404),
        # Expect 400 over HTTP+JSON: this client reports a wrong content type instead of the server's 404.
        ("refused_subscription", -32001, 400),
        ("push_config_of_an_unknown_task", -32001, 404),
        ("push_config_that_is_not_there", -32001, 404),
    ],
)
def test_v03_client_raises_sdk_error_class(results: Results, step: str, code: int, http: int) -> None:
    """Raise the client's error class; over HTTP+JSON it has only the HTTP status."""
    error = results[step]["error"]
    if results["binding"] == "JSONRPC":  # type: ignore[comparison-overlap]
        assert (error["name"], error["code"]) == ("A2AClientJSONRPCError", code)
    else:
        assert (error["name"], error["http"]) == ("A2AClientHTTPError", http)
