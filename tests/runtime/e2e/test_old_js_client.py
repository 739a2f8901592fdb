"""Official JavaScript client of A2A 0.3 (@a2a-js/sdk 0.3) against `make dev`, in Node, on both bindings."""

import json
import subprocess
from typing import Any

import pytest

from tests.support.environments import NodeMissing, node_with
from tests.support.server import ROOT, ServerProcess

Results = dict[tuple[str, str], dict[str, Any]]

each_client = pytest.mark.parametrize("client", ["JSONRPC", "HTTP+JSON"])


@pytest.fixture(scope="module")
def results(server: ServerProcess) -> Results:
    """Run all steps, and return the result of each step by client and step."""
    try:
        folder = node_with(ROOT / "tests" / "support" / "js03")
    except NodeMissing as missing:
        pytest.skip(f"NOT PROVEN: the JavaScript client of 0.3. {missing}")
    ran = subprocess.run(["node", "steps.mjs", server.url], cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {(line["client"], line["step"]): line for line in lines}


@each_client
def test_js_v03_client_gets_answer(results: Results, client: str) -> None:
    task = results[client, "send"]["heard"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert task["status"]["message"]["parts"][0]["text"] == "hello"


@each_client
def test_js_v03_client_streams_answer(results: Results, client: str) -> None:
    events = results[client, "stream"]["heard"]
    assert events[0]["kind"] == "task"
    assert [event["final"] for event in events if event["kind"] == "status-update"][-1] is True
    chunks = [event for event in events if event["kind"] == "artifact-update"]
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks) == "one two three"


@each_client
def test_js_v03_client_reads_task_and_webhooks(results: Results, client: str) -> None:
    task = results[client, "getTask"]["heard"]
    assert (task["kind"], task["status"]["state"], task["history"][0]["role"]) == ("task", "completed", "user")
    assert task["history"][0]["parts"][1]["file"]["bytes"] == "AP8="
    [config] = results[client, "webhook"]["heard"]
    assert config["pushNotificationConfig"]["url"] == "http://127.0.0.1:9/"


@pytest.mark.parametrize("step", ["refusedStream", "refusedSubscription"])
def test_js_v03_client_reads_error_of_refused_stream(results: Results, step: str) -> None:
    """Read the error of a refused stream: in JSON-RPC from the stream, in HTTP+JSON from the response."""
    assert "Code: -32001" in results["JSONRPC", step]["error"]
    assert results["HTTP+JSON", step]["error"].startswith("TaskNotFoundError: ")


@each_client
def test_js_v03_client_raises_error_for_refused_cancel(results: Results, client: str) -> None:
    assert results[client, "cancelOfAnEndedTask"]["error"].startswith("TaskNotCancelable")
