"""The official JavaScript client (@a2a-js/sdk) against `make dev`, in each version and binding: nothing was changed for it.

One Node process drives them all (`tests/support/js/drive.mjs`) and says what it heard; the tests read that.
"""

import json
import subprocess
from typing import Any

import pytest

from tests.support.environments import NodeMissing, node_with
from tests.support.server import ROOT, Server

Heard = dict[tuple[str, str], dict[str, Any]]

LONG = "The quick brown fox jumps over the lazy dog. " * 500
CLIENTS = ["JSONRPC 1.0", "JSONRPC 0.3", "HTTP+JSON 1.0", "HTTP+JSON 0.3"]
LOSSY = "HTTP+JSON 0.3"
"""Where the client itself drops a file's name, and whether a chunk is to be appended."""
each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def heard(server: Server) -> Heard:
    """What each client heard at each step."""
    try:
        environment = node_with(ROOT / "tests" / "support" / "js")
    except NodeMissing as missing:
        pytest.skip(f"NOT PROVEN: the JavaScript client. {missing}")
    ran = subprocess.run(
        ["node", "drive.mjs", server.url, LONG], cwd=environment, capture_output=True, text=True, timeout=200
    )
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {(line["client"], line["step"]): line for line in lines}


def said(heard: Heard, client: str, step: str) -> Any:
    line = heard[client, step]
    assert "error" not in line, line["error"]
    return line["heard"]


def texts(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"])


def check_stream(heard: list[dict[str, Any]], client: str, *, first_state: str, text: str) -> None:
    """First a task, last a final status; the text adds up once, by one artifact that is opened and closed once."""
    kinds = [next(iter(response)) for response in heard]
    assert kinds[0] == "task"
    assert heard[0]["task"]["status"]["state"] == first_state
    assert kinds[-1] == "statusUpdate"
    assert heard[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(heard[-1]["statusUpdate"]["status"]["message"]) == text
    assert set(kinds[1:-1]) <= {"statusUpdate", "artifactUpdate"}
    task = heard[0]["task"]
    for response in heard[1:]:
        (update,) = response.values()
        assert (update["taskId"], update["contextId"]) == (task["id"], task["contextId"])
    chunks = [response["artifactUpdate"] for response in heard if "artifactUpdate" in response]
    if client != LOSSY:
        assert [chunk.get("append", False) for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert text.endswith("".join(texts(chunk["artifact"]) for chunk in chunks))


def test_it_takes_the_newest_version_that_the_card_offers(heard: Heard) -> None:
    """R1, R107, D1, D3."""
    assert said(heard, "by its card", "choose") == {"binding": "JSONRPC", "version": "1.0"}
    assert said(heard, "by its card", "send")["sent"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_it_reads_the_card_as_one_of_version_0_3(heard: Heard) -> None:
    """R4, D3: what a client sees that knows nothing of `supportedInterfaces`."""
    assert said(heard, "by its card's v0.3 part", "choose") == {"binding": "JSONRPC", "version": "0.3"}
    assert said(heard, "by its card's v0.3 part", "send")["sent"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    "client",
    [
        *CLIENTS[:3],
        pytest.param(
            LOSSY,
            marks=pytest.mark.xfail(
                strict=True, reason="a file's content is in base64 twice, as v0.3's Python SDK reads it"
            ),
        ),
    ],
)
def test_it_gets_the_whole_task(heard: Heard, client: str) -> None:
    """R10, R12, R20, R40, R47."""
    answer = said(heard, client, "send")
    sent, asked = answer["sent"], answer["sent"]["history"][0]
    name = {} if client == LOSSY else {"filename": "three.bin"}
    assert sent["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(sent["status"]["message"]) == "Hello, \U0001f600 \u202e\u05e9\u05dc\u05d5\u05dd"
    assert asked["parts"][1] == {"raw": "AAEC", "mediaType": "application/octet-stream", **name}
    assert asked["parts"][2]["data"] == {"n": [1, 2.5, None]}
    assert answer["stored"] == sent


@each_client
def test_it_asks_for_no_history(heard: Heard, client: str) -> None:
    """R12: in v0.3 only a positive number is a limit."""
    answer = said(heard, client, "send")
    expected = answer["sent"] if client.endswith("0.3") else {**answer["sent"], "history": []}
    assert {"history": [], **answer["short"]} == expected


@each_client
def test_a_task_goes_on_when_the_answer_does_not_wait(heard: Heard, client: str) -> None:
    """R21, D12."""
    answer = said(heard, client, "sendAtOnce")
    assert answer["sent"]["status"]["state"] == "TASK_STATE_WORKING"
    assert answer["ended"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(answer["ended"]["status"]["message"]) == "Hello again"


@each_client
def test_it_sees_the_answer_stream(heard: Heard, client: str) -> None:
    """R11, R22, R25, R27, R28, R32-R35, R103, D9-D11."""
    responses = said(heard, client, "stream")
    check_stream(responses, client, first_state="TASK_STATE_SUBMITTED", text="one two \U0001f600 four")
    chunks = [response["artifactUpdate"] for response in responses if "artifactUpdate" in response]
    assert "".join(texts(chunk["artifact"]) for chunk in chunks) == "one two \U0001f600 four"
    assert responses[1]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"


@each_client
def test_it_hears_the_rest_of_a_task_that_runs(heard: Heard, client: str) -> None:
    """R14."""
    answer = said(heard, client, "resubscribe")
    check_stream(answer["heard"], client, first_state="TASK_STATE_WORKING", text=LONG * answer["times"])
    assert answer["ended"]["status"] == answer["heard"][-1]["statusUpdate"]["status"]


@each_client
def test_it_cancels(heard: Heard, client: str) -> None:
    """R13."""
    answer = said(heard, client, "cancel")
    assert answer["canceled"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert answer["stored"] == answer["canceled"]


@pytest.mark.parametrize("client", ["JSONRPC 1.0", "HTTP+JSON 1.0"])
def test_it_lists_a_conversation(heard: Heard, client: str) -> None:
    answer = said(heard, client, "list")
    page, rest = answer["page"], answer["rest"]
    assert [task["id"] for task in page["tasks"]] == answer["ids"][:2]
    assert [task["id"] for task in rest["tasks"]] == answer["ids"][2:]
    assert (page["totalSize"], page["pageSize"], rest.get("nextPageToken", "")) == (3, 2, "")
    assert all("artifacts" not in task or not task["artifacts"] for task in page["tasks"])


@each_client
def test_it_says_where_it_wants_to_be_told(heard: Heard, client: str) -> None:
    """R15, R16, R24, R91, R92: with a message and later; read, listed and deleted, twice."""
    answer = said(heard, client, "pushConfigs")
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
def test_it_knows_a_refusal_for_what_it_is(heard: Heard, client: str, step: str) -> None:
    """R95, R98, R99: the client's own class of error, and a sentence of ours."""
    line = heard[client, step]
    assert "error" in line, line
    assert REFUSALS[step] in line["error"]["names"], line["error"]
    assert len(line["error"]["message"]) > 20


@each_client
def test_it_has_the_card_where_there_is_no_extended_one(heard: Heard, client: str) -> None:
    """R2, R3, R6."""
    card = said(heard, client, "cardOrExtendedCard")
    assert card["name"] == "Echo"
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"]["pushNotifications"] is True
    assert [skill["id"] for skill in card["skills"]] == ["echo"]
