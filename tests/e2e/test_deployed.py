"""Packages of all four functions under the runtime emulator, on a stack of the template.

`make smoke` passes on this stack, and finds each deliberate fault.
"""

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest
from botocore.credentials import Credentials as AwsCredentials
from click.testing import CliRunner

from aion_core.cli.smoke import smoke
from aion_core.clock import SystemClock
from aion_core.ports import ContextKey, PushWakeUp, TaskKey, WakeUp
from aion_core.ports.queues import body_of, push_body_of
from aion_core.protocol.types import TaskState
from aion_core.smoke.credentials import Signer, SmokeCredentials
from aion_core.smoke.report import CHECKS
from aion_core.tasks import lifecycle
from tests.e2e.deployed_stack import DeployedStack, deployed_stack, running_alone
from tests.e2e.rest_api import ARN, CALLER, REGION
from tests.support.listening import free_port
from tests.support.recorded import recorded_event
from tests.support.server import ROOT
from tests.support.stores import dynamodb_store
from tests.support.tasks import orphan

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the runtime emulator is a program for Linux"),
    # The first test builds four packages, if necessary.
    pytest.mark.timeout(900),
]

CONFIG = """
aion:
  agents:
    echo: {path: examples/echo/agent.py:graph}
    slow: {path: slow.py:graph, name: Slow}
"""
SLOW = (ROOT / "tests" / "e2e" / "agents" / "taking_its_time.py").read_text()
# Instead of a tunnel: the webhook's address is on this machine.
TIMEOUT = "60"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStack]:
    with deployed_stack(tmp_path_factory.mktemp("deployed"), CONFIG, {"slow.py": SLOW}) as stack:
        yield stack


@pytest.fixture
def breakable_stack(stack: DeployedStack) -> Iterator[DeployedStack]:
    """Return the stack; the test may break a part of it for its own duration."""
    yield stack
    stack.entrypoint_url.faults.clear()
    stack.idle.clear()


Checked = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def checked(stack: DeployedStack, monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Return a function to run `make smoke`: the result of each check, and the exit code as `exit`."""
    for name, value in {**CALLER, "SIGN": REGION, "TIMEOUT": TIMEOUT}.items():
        monkeypatch.setenv(name, value)

    def checked(agent: str = "slow", **variables: str) -> dict[str, tuple[str, str]]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        done = CliRunner().invoke(smoke, [stack.entrypoint_url.url, *(["--agent", agent] if agent else [])])
        lines = done.stdout.splitlines()[1:]
        said = {line.split()[1]: (line.split()[0], line) for line in lines if line[0] not in "0123456789"}
        return {**said, "exit": (str(done.exit_code), lines[-1])}

    return checked


# --- Nothing is wrong ---


def test_make_smoke_passes_on_deployed_stack(stack: DeployedStack) -> None:
    """Pass every check on the built packages, with a signature on each request and a notified webhook."""
    port = str(free_port())
    told = {"WEBHOOK": f"http://127.0.0.1:{port}/hook", "WEBHOOK_PORT": port, "AGENT": "slow", "TIMEOUT": TIMEOUT}
    command = ["make", "--silent", "smoke", f"URL={stack.entrypoint_url.url}/", f"VENV={sys.prefix}"]
    environ = {**os.environ, **CALLER, **told, "SIGN": REGION}
    before = len(stack.handed)
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:-1]] == [["ok", name] for name in CHECKS], done.stdout
    assert (done.returncode, lines[-1], done.stderr) == (0, "7 ok", "")
    assert "with an AWS signature for execute-api" in lines[0]
    handed = {function for function, _ in stack.handed[before:]}
    assert handed == {"TaskFunction", "PushFunction"}
    assert not any(secret in done.stdout for secret in CALLER.values())


async def test_agent_without_base_url_is_reachable(stack: DeployedStack) -> None:
    """Deploy without BaseUrl: the card's URL leads the official client to the agent."""
    assert stack.environment("ApiFunction")["AION_BASE_URL"] == ""
    signs = Signer(AwsCredentials(*CALLER.values()), "execute-api", REGION)
    async with httpx.AsyncClient(auth=SmokeCredentials(signer=signs), timeout=60) as http:
        card = await A2ACardResolver(http, stack.entrypoint_url.url).get_agent_card()
        assert {each.url.rstrip("/") for each in card.supported_interfaces} == {stack.entrypoint_url.url}
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        request = SendMessageRequest(
            message=Message(message_id="m-told", role=Role.ROLE_USER, parts=[Part(text="who?")])
        )
        answers = [each async for each in client.send_message(request)]
    assert answers[-1].task.status.state == TaskState.TASK_STATE_COMPLETED
    assert answers[-1].task.status.message.parts[0].text == "who?"


@pytest.mark.deep
def test_smoke_of_example_agent_has_no_failure(checked: Checked) -> None:
    """Report some checks as inconclusive: the example agent may answer too fast for them."""
    said = checked(agent="")
    assert said["exit"][0] == "0"
    assert said["card"][0] == said["send"][0] == said["webhooks"][0] == "ok"
    assert said["push"][0] == "skipped"
    assert "set WEBHOOK to a public URL" in said["push"][1]


# --- Something is wrong ---


@pytest.mark.parametrize(
    ("fault", "check", "told"),
    [
        pytest.param("buffers", "stream", "a proxy buffers the stream until its end", marks=pytest.mark.deep),
        (
            "leads elsewhere",
            "card",
            "the card names http://127.0.0.1:9/elsewhere/agents/slow/, not {url}/agents/slow: deploy with BaseUrl={url},",
        ),
        pytest.param(
            "cancels nothing", "cancel", "the answer says working, and the task is completed", marks=pytest.mark.deep
        ),
    ],
)
def test_smoke_check_finds_planted_fault(
    breakable_stack: DeployedStack, checked: Checked, fault: str, check: str, told: str
) -> None:
    """Break one thing: its own check fails."""
    breakable_stack.entrypoint_url.faults.add(fault)
    said = checked(ONLY=f"{check},send")
    assert (said[check][0], said["send"][0], said["exit"][0]) == ("FAILED", "ok", "1")
    assert told.format(url=breakable_stack.entrypoint_url.url) in said[check][1]


@pytest.mark.deep
def test_smoke_finds_missing_push(breakable_stack: DeployedStack, checked: Checked) -> None:
    breakable_stack.idle.add("PushFunction")
    port = str(free_port())
    said = checked(WEBHOOK=f"http://127.0.0.1:{port}/hook", WEBHOOK_PORT=port, ONLY="push", TIMEOUT="12")
    assert (said["push"][0], said["exit"][0]) == ("FAILED", "1")
    assert "the webhook did not receive the task's end in time: 0 notifications arrived" in said["push"][1]


def test_smoke_finds_turns_without_worker(breakable_stack: DeployedStack, checked: Checked) -> None:
    breakable_stack.idle.add("TaskFunction")
    said = checked(ONLY="subscribe", TIMEOUT="4")
    assert said["subscribe"][0] == "FAILED"
    assert "no result within 4 s" in said["subscribe"][1]


def test_smoke_reports_denied_caller(checked: Checked) -> None:
    said = checked(SIGN="off")
    assert (said["card"][0], said["exit"][0]) == ("FAILED", "2")
    assert 'returned 403: {"message":"Missing Authentication Token"}' in said["card"][1]
    assert "is the request signed" in said["card"][1]
    assert "403" in checked(SIGN=REGION, AWS_SECRET_ACCESS_KEY="another")["card"][1]


# --- Each function, with its recorded event ---


def test_api_function_without_streaming_returns_buffered_response(stack: DeployedStack) -> None:
    """Answer buffered, as under `sam local` with the same package."""
    event = recorded_event("rest_api_v1")
    with running_alone(stack, "ApiFunction", AWS_SAM_LOCAL="true") as url:
        unsigned = httpx.post(url, json=event, timeout=60).json()
        event["requestContext"]["identity"]["userArn"] = ARN
        unknown = httpx.post(url, json=event, timeout=60).json()
        answer = httpx.post(url, json={**event, "path": "/agents/echo/message:send"}, timeout=60).json()
    assert unsigned["statusCode"] == 401
    assert unknown["statusCode"] == 404
    assert answer["statusCode"] == 200
    body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
    task = json.loads(body)["task"]
    assert (task["status"]["state"], task["status"]["message"]["parts"]) == (
        "TASK_STATE_COMPLETED",
        [{"text": "Grüße"}],
    )


@pytest.mark.parametrize(
    ("function", "body"),
    [
        ("TaskFunction", body_of(WakeUp(ContextKey("nobody", "echo", "c-0")))),
        ("PushFunction", push_body_of(PushWakeUp(TaskKey("nobody", "t-0")))),
    ],
)
def test_worker_reports_failures_per_message(stack: DeployedStack, function: str, body: str) -> None:
    """Return the recorded message, of another version, to the queue; delete the valid message beside it."""
    event = recorded_event("sqs")
    strange = event["Records"][0]
    event["Records"].append({**strange, "messageId": "a bell in vain", "body": body})
    assert stack.invoke(function, event) == {"batchItemFailures": [{"itemIdentifier": strange["messageId"]}]}


async def test_sweep_finds_expired_turn(stack: DeployedStack) -> None:
    """Run a turn of a dead worker without a wake-up message."""
    head = await orphan(stack, "who is there?", agent="echo")
    swept = await asyncio.to_thread(stack.invoke, "SweepFunction", recorded_event("eventbridge_schedule"))
    assert swept["found"] >= swept["enqueued"] >= 1
    store, end = dynamodb_store(stack, SystemClock()), time.monotonic() + 60
    while (log := await store.log(head.key)) is None or log.head.state != TaskState.TASK_STATE_COMPLETED:
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    assert lifecycle.fold(log.events).status.message.parts[0].text == "who is there?"


async def test_template_schedule_rule_invokes_sweep(stack: DeployedStack) -> None:
    assert set(await asyncio.to_thread(stack.call_schedule, "SweepFunction")) == {"found", "enqueued"}
