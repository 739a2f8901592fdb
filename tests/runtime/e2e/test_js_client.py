"""Official JavaScript client (@a2a-js/sdk) against `make dev`, in each protocol version and binding.

The client runs in Node and, as a page of another origin, in Chromium. `tests/support/js/steps.mjs` calls each method once;
the tests check its results.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.debian import ProgramMissing
from tests.support.e2e.browser import browser_page, pages
from tests.support.environments import NodeMissing, node_with
from tests.support.server import ROOT, ServerProcess

Results = dict[tuple[str, str], dict[str, Any]]

LONG = "The quick brown fox jumps over the lazy dog. " * 150
CLIENTS = ["JSONRPC 1.0", "JSONRPC 0.3", "HTTP+JSON 1.0", "HTTP+JSON 0.3"]
LOSSY = "HTTP+JSON 0.3"
"""Client that drops file names and `append`."""
each_client = pytest.mark.parametrize("client", CLIENTS)


def lines_of_node(folder: Path, url: str) -> list[dict[str, Any]]:
    ran = subprocess.run(["node", "node.mjs", url, LONG], cwd=folder, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def lines_of_browser(folder: Path, url: str) -> list[dict[str, Any]]:
    drive = """async ([url, long]) => {
        const { drive } = await import("/steps.mjs");
        const lines = [];
        await drive(url, long, (line) => lines.push(line));
        return JSON.stringify(lines);
    }"""
    with pages(folder) as origin, browser_page(f"{origin}/page.html") as page:
        lines: list[dict[str, Any]] = json.loads(page.evaluate(drive, [url, LONG]))
    return lines


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(lines_of_node, id="node"),
        pytest.param(lines_of_browser, id="chromium", marks=pytest.mark.deep),
    ],
)
def results(request: pytest.FixtureRequest, server: ServerProcess) -> Results:
    """Run all steps, and return the result of each step by client and step."""
    try:
        lines = request.param(node_with(ROOT / "tests" / "support" / "js"), server.url)
    except (NodeMissing, ProgramMissing) as missing:
        pytest.skip(f"NOT PROVEN: the JavaScript client. {missing}")
    return {(line["client"], line["step"]): line for line in lines}


def result_of(results: Results, client: str, step: str) -> Any:
    line = results[client, step]
    assert "error" not in line, line["error"]
    return line["heard"]


def texts(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"])


def check_stream(results: list[dict[str, Any]], client: str, *, first_state: str, text: str) -> None:
    """Check the stream: task first, final status last, and chunks of one artifact that make up the text."""
    kinds = [next(iter(response)) for response in results]
    assert kinds[0] == "task"
    assert results[0]["task"]["status"]["state"] == first_state
    assert kinds[-1] == "statusUpdate"
    assert results[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(results[-1]["statusUpdate"]["status"]["message"]) == text
    assert set(kinds[1:-1]) <= {"statusUpdate", "artifactUpdate"}
    task = results[0]["task"]
    for response in results[1:]:
        (update,) = response.values()
        assert (update["taskId"], update["contextId"]) == (task["id"], task["contextId"])
    chunks = [response["artifactUpdate"] for response in results if "artifactUpdate" in response]
    if client != LOSSY:
        assert [chunk.get("append", False) for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert text.endswith("".join(texts(chunk["artifact"]) for chunk in chunks))


def test_js_client_uses_newest_protocol_version(results: Results) -> None:
    """The card offers v1 and v0.3: the client chooses v1."""
    assert result_of(results, "by its card", "choose") == {"binding": "JSONRPC", "version": "1.0"}
    assert result_of(results, "by its card", "send")["sent"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_js_client_reads_card_of_v03(results: Results) -> None:
    """Read only the card's v0.3 fields, without `supportedInterfaces`."""
    assert result_of(results, "by its card's v0.3 part", "choose") == {"binding": "JSONRPC", "version": "0.3"}
    assert result_of(results, "by its card's v0.3 part", "send")["sent"]["status"]["state"] == "TASK_STATE_COMPLETED"


@each_client
def test_js_client_gets_whole_task(results: Results, client: str) -> None:
    """Get a completed task with its answer and history."""
    answer = result_of(results, client, "send")
    sent, asked = answer["sent"], answer["sent"]["history"][0]
    name = {} if client == LOSSY else {"filename": "three.bin"}
    assert sent["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(sent["status"]["message"]).startswith("Hello, \U0001f600 \u202e\u05e9\u05dc\u05d5\u05dd")
    assert asked["parts"][1] == {"raw": "AAEC", "mediaType": "application/octet-stream", **name}
    assert asked["parts"][2]["data"] == {"n": [1, 2.5, None]}
    assert answer["stored"] == sent


@each_client
def test_js_client_gets_task_without_history(results: Results, client: str) -> None:
    """Get a task with `historyLength` 0: v1 returns no history; v0.3 ignores the 0."""
    answer = result_of(results, client, "send")
    expected = answer["sent"] if client.endswith("0.3") else {**answer["sent"], "history": []}
    assert {"history": [], **answer["short"]} == expected


@each_client
def test_js_client_task_continues_after_nonblocking_send(results: Results, client: str) -> None:
    """Send a non-blocking message: the response is a working task; the task completes later."""
    answer = result_of(results, client, "sendAtOnce")
    assert answer["sent"]["status"]["state"] == "TASK_STATE_WORKING"
    assert answer["ended"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(answer["ended"]["status"]["message"]) == "Hello again"


@each_client
def test_js_client_streams_answer(results: Results, client: str) -> None:
    """Stream an answer from the task to its final status."""
    responses = result_of(results, client, "stream")
    check_stream(responses, client, first_state="TASK_STATE_SUBMITTED", text="one two \U0001f600 four")
    chunks = [response["artifactUpdate"] for response in responses if "artifactUpdate" in response]
    assert "".join(texts(chunk["artifact"]) for chunk in chunks) == "one two \U0001f600 four"
    assert responses[1]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"


@each_client
def test_js_client_subscribes_to_running_task(results: Results, client: str) -> None:
    """Subscribe to a running task."""
    answer = result_of(results, client, "resubscribe")
    check_stream(answer["heard"], client, first_state="TASK_STATE_WORKING", text=LONG * answer["times"])
    assert answer["ended"]["status"] == answer["heard"][-1]["statusUpdate"]["status"]


@each_client
def test_js_client_cancels_task(results: Results, client: str) -> None:
    """Cancel a running task."""
    answer = result_of(results, client, "cancel")
    assert answer["canceled"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert answer["stored"] == answer["canceled"]


@pytest.mark.parametrize("client", ["JSONRPC 1.0", "HTTP+JSON 1.0"])
def test_js_client_lists_tasks_of_context(results: Results, client: str) -> None:
    answer = result_of(results, client, "list")
    page, rest = answer["page"], answer["rest"]
    assert [task["id"] for task in page["tasks"]] == answer["ids"][:2]
    assert [task["id"] for task in rest["tasks"]] == answer["ids"][2:]
    assert (page["totalSize"], page["pageSize"], rest.get("nextPageToken", "")) == (3, 2, "")
    assert all("artifacts" not in task or not task["artifacts"] for task in page["tasks"])


@each_client
def test_js_client_manages_push_configs(results: Results, client: str) -> None:
    """Create one push config with the message and one later; read, list and delete. A second delete also succeeds."""
    answer = result_of(results, client, "pushConfigs")
    assert answer["created"] == answer["read"]
    given = {"id": "q", "taskId": answer["task"], "url": "http://127.0.0.1:9/hook", "token": "token"}
    assert {name: answer["read"][name] for name in given} == given
    assert answer["read"]["authentication"] == {"scheme": "Bearer", "credentials": "secret"}
    assert (answer["both"], answer["left"]) == (["p", "q"], ["p"])


REFUSALS = {
    "unknownTask": "TaskNotFoundError",
    "subscribeToAnEndedTask": "UnsupportedOperationError",
    "cancelAnEndedTask": "TaskNotCancelableError",
    "messageToAnEndedTask": "UnsupportedOperationError",
    "messageWithoutParts": "RequestMalformedError",
    "pushConfigOfAnUnknownTask": "TaskNotFoundError",
    "pushConfigThatIsNotThere": "TaskNotFoundError",
    "pushConfigOfThePrivateNetwork": "RequestMalformedError",
    "extendedCard": "UnsupportedOperationError",
}


@each_client
@pytest.mark.parametrize("step", REFUSALS)
def test_js_client_raises_matching_sdk_error_class(results: Results, client: str, step: str) -> None:
    """Raise the SDK's class for the error, with the server's message."""
    line = results[client, step]
    assert "error" in line, line
    assert REFUSALS[step] in line["error"]["names"], line["error"]
    assert len(line["error"]["message"]) > 20


@each_client
def test_js_client_falls_back_to_public_card(results: Results, client: str) -> None:
    """Request the extended card of an agent without one: the client returns the public card."""
    card = result_of(results, client, "cardOrExtendedCard")
    assert card["name"] == "Echo"
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"]["pushNotifications"] is True
    assert [skill["id"] for skill in card["skills"]] == ["echo"]
