"""Stack created by `aion deploy`; the runtime emulator runs the packages of its four functions.

`aion doctor` passes on this stack, and reports each injected fault.
"""

import asyncio
import base64
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
)
from botocore.credentials import Credentials as AwsCredentials

from aion_core.clock import SystemClock
from aion_core.engine.task import projection
from aion_core.protocol.types import TaskState
from aion_tools.cli.chat.credentials import ClientCredentials, Signer
from aion_tools.cli.steps import INDENT
from aion_tools.deploy.sam_install import command as sam
from aion_tools.shipped import shipped
from tests.support import operating
from tests.support.e2e.rest_api import ARN, CALLER, REGION
from tests.support.receiver import receiving
from tests.support.recorded import recorded_event
from tests.support.server import ROOT
from tests.support.stores import dynamodb_store
from tests.support.tasks import orphan
from tests.tools.e2e.deployed_stack import STACK, DeployedStack, deployed_stack, running_alone
from tests.tools.unit.cli.checks.doctor_command import run_doctor

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the runtime emulator is a program for Linux"),
    # Allow fifteen minutes, because the first test installs SAM if necessary, and builds four packages.
    pytest.mark.timeout(900),
]

CONFIG = """
aion:
  agents:
    slow: {path: agent.py:graph, name: Slow}
    echo: {path: echo.py:graph}
"""
AGENTS = {
    "agent.py": (ROOT / "tests" / "support" / "e2e" / "agents" / "taking_its_time.py").read_text(),
    "echo.py": (ROOT / "examples" / "echo" / "agent.py").read_text(),
}
TASK = "0197f3c2-5a0b-7c1e-9d2f-6b8f1f0a3c11"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStack]:
    with deployed_stack(tmp_path_factory.mktemp("deployed"), CONFIG, AGENTS) as stack:
        yield stack


@pytest.fixture
def breakable_stack(stack: DeployedStack) -> Iterator[DeployedStack]:
    """Return the stack for a test that injects faults into it; remove the faults after the test."""
    yield stack
    stack.entrypoint_url.faults.clear()


Checked = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def checked(stack: DeployedStack) -> Checked:
    """Return a function that runs `aion doctor` on an agent's URL, and returns its exit code and the results."""

    def checked(agent: str = "slow", **variables: str) -> tuple[int, dict[str, dict[str, str]]]:
        run = operating.runs({**CALLER, "AWS_REGION": REGION, **variables})
        url = f"{stack.entrypoint_url.url}/agents/{agent}"
        return run_doctor(lambda *arguments: run("doctor", *arguments), url, "--config", "/nowhere.yaml")

    return checked


# --- From a folder to a streamed reply ---


def test_deploy_command_prints_streamed_reply_of_deployed_agent(stack: DeployedStack) -> None:
    assert f"Successfully created/updated stack - {STACK} in {REGION}" in stack.printed
    again = stack.project.run("deploy", "--yes", *stack.options)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"{INDENT}one two three four five\n" in again.stdout
    assert "ok       first reply: Slow answered, streamed, after " in again.stdout
    assert f"  URL   {stack.entrypoint_url.url}\n" in again.stdout
    price = json.loads((shipped() / "aion_tools" / "deploy" / "idle_price.json").read_text())
    assert f"  idle  about {price['together']:.2f} USD a month" in again.stdout


@pytest.mark.deep
def test_deploy_fails_if_first_message_to_agent_is_refused(stack: DeployedStack) -> None:
    refused = stack.project.run("deploy", "--yes", *stack.options, AWS_SECRET_ACCESS_KEY="another")
    assert refused.returncode == 1
    assert "FAILED   first reply" in refused.stdout
    assert "These credentials don't give access to this agent (403)" in refused.stderr
    assert f"sam logs --cw-log-group /aws/lambda/{STACK}-api" in refused.stderr
    assert "is deployed." in refused.stdout


# --- Messages ---


def test_doctor_sends_signed_messages_to_deployed_agent(checked: Checked) -> None:
    code, results = checked()
    assert (code, {each["status"] for each in results.values()}) == (0, {"ok"}), results
    assert results["blocking message"]["message"].endswith(" s: one two three four five")
    assert ", first words after " in results["streamed message"]["message"]
    assert "signed for AWS IAM" in results["callers"]["message"]


@pytest.mark.parametrize(
    ("fault", "check", "told"),
    [
        ("buffers", "streamed message", "events arrived together after"),
        ("leads elsewhere", "card at /.well-known/agent-card.json", "names http://127.0.0.1:9/elsewhere/agents/slow"),
    ],
)
def test_doctor_detects_injected_fault(
    breakable_stack: DeployedStack, checked: Checked, fault: str, check: str, told: str
) -> None:
    breakable_stack.entrypoint_url.faults.add(fault)
    code, results = checked()
    assert (code, results[check]["status"]) == (1, "FAILED"), results
    assert told in results[check]["message"]


@pytest.mark.deep
def test_doctor_reports_caller_refused_by_gateway(checked: Checked) -> None:
    code, results = checked(AWS_SECRET_ACCESS_KEY="another")
    refused = results["card at /.well-known/agent-card.json"]
    assert (code, refused["message"]) == (1, "The response is 403.")
    assert "execute-api:Invoke" in refused["next"]
    assert "blocking message" not in results


async def test_deployed_functions_deliver_background_task_to_webhook(stack: DeployedStack) -> None:
    """Send a message without waiting: TaskFunction runs its turn, and PushFunction sends its notifications."""
    before, secret = len(stack.handed), "whsec_" + base64.b64encode(b"k" * 32).decode()
    async with receiving() as receiver:
        webhook = TaskPushNotificationConfig(url=receiver.url(), token=secret)
        configuration = SendMessageConfiguration(return_immediately=True, task_push_notification_config=webhook)
        started = await sent(stack, "slow", configuration)
        assert started.status.state != TaskState.TASK_STATE_COMPLETED
        end = time.monotonic() + 120
        while not any(b"TASK_STATE_COMPLETED" in post.body for post in receiver.posts):
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
    assert all(post.is_signed_by(secret) for post in receiver.posts)
    assert {function for function, _ in stack.handed[before:]} == {"TaskFunction", "PushFunction"}


async def test_deployed_agent_without_base_url_is_reachable(stack: DeployedStack) -> None:
    """Run ApiFunction without AION_BASE_URL: the official client reaches the agent at the URL in its card."""
    assert stack.environment("ApiFunction")["AION_BASE_URL"] == ""
    task = await sent(stack, "echo", SendMessageConfiguration())
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert task.status.message.parts[0].text == "who?"


async def sent(stack: DeployedStack, agent: str, configuration: SendMessageConfiguration) -> Task:
    """Send a message to the agent at the URL in its card, with the official client. Return the task."""
    signs = Signer(AwsCredentials(*CALLER.values()), "execute-api", REGION)
    async with httpx.AsyncClient(auth=ClientCredentials(signer=signs), timeout=120) as http:
        url = f"{stack.entrypoint_url.url}/agents/{agent}"
        card = await A2ACardResolver(http, url).get_agent_card()
        assert {each.url.rstrip("/") for each in card.supported_interfaces} == {url}
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        message = Message(message_id=f"m-{agent}", role=Role.ROLE_USER, parts=[Part(text="who?")])
        request = SendMessageRequest(message=message, configuration=configuration)
        answers = [each async for each in client.send_message(request)]
    return answers[-1].task


# --- Each function, with its recorded event ---


@pytest.mark.deep
def test_api_function_under_sam_local_returns_whole_response_at_once(stack: DeployedStack) -> None:
    """Run the package with AWS_SAM_LOCAL, as `sam local` does: the whole response is returned at once."""
    event = recorded_event("rest_api_v1")
    with running_alone(stack, "ApiFunction", AWS_SAM_LOCAL="true") as url:
        unsigned = httpx.post(url, json=event, timeout=120).json()
        event["requestContext"]["identity"]["userArn"] = ARN
        unknown = httpx.post(url, json=event, timeout=120).json()
        answer = httpx.post(url, json={**event, "path": "/agents/echo/message:send"}, timeout=120).json()
    assert unsigned["statusCode"] == 401
    assert unknown["statusCode"] == 404
    assert answer["statusCode"] == 200
    body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
    task = json.loads(body)["task"]
    assert (task["status"]["state"], task["status"]["message"]["parts"]) == (
        "TASK_STATE_COMPLETED",
        [{"text": "Grüße"}],
    )


async def test_sweep_finds_expired_turn(stack: DeployedStack) -> None:
    """Let the sweep find a turn whose worker has died and whose wake-up message is lost."""
    head = await orphan(stack, "who is there?", agent="echo")
    swept = await asyncio.to_thread(stack.invoke, "SweepFunction", recorded_event("eventbridge_schedule"))
    assert swept["found"] >= swept["enqueued"] >= 1
    store, end = dynamodb_store(stack, SystemClock()), time.monotonic() + 120
    while (log := await store.log(head.key)) is None or log.head.state != TaskState.TASK_STATE_COMPLETED:
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    assert projection.fold(log.events).status.message.parts[0].text == "who is there?"


# --- Logs ---


def log(stack: DeployedStack, function: str, **fields: object) -> None:
    logs = stack.client("logs")
    group, text = f"/aws/lambda/{STACK}-{function}", json.dumps(fields)
    streams = {each["logStreamName"] for each in logs.describe_log_streams(logGroupName=group)["logStreams"]}
    if "one" not in streams:
        logs.create_log_stream(logGroupName=group, logStreamName="one")
    event = {"timestamp": int(time.time() * 1000), "message": text}
    logs.put_log_events(logGroupName=group, logStreamName="one", logEvents=[event])


@pytest.mark.deep
def test_sam_logs_prints_lines_of_one_task(stack: DeployedStack) -> None:
    """Run the runbook's command. The emulator ignores its filter."""
    log(stack, "task", level="ERROR", message="The agent failed.", task_id=TASK, exception="Traceback\n  boom")
    page = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^(sam logs .*--filter .*)$", page, re.MULTILINE)
    words = shlex.split(line.replace("$AION_STACK", STACK).replace("$TASK", TASK))
    environ = {**stack.project.environment(), "SAM_CLI_TELEMETRY": "0"}
    ran = subprocess.run([sam(), *words[1:]], env=environ, capture_output=True, text=True)
    assert f'"task_id": "{TASK}"' in ran.stdout, ran.stderr


# --- Destroy ---


def test_destroy_deletes_nothing_without_consent(stack: DeployedStack) -> None:
    done = stack.project.run("destroy", "--stack", STACK, "--data")
    assert done.returncode == 2
    assert stack.project.outputs(STACK)["TableName"] in done.stdout
    assert "Nothing was deleted: without a terminal, give --yes" in done.stderr
    code, shown = stack.project.typed("destroy", "--stack", STACK, answers=["another"])
    assert (code, "Nothing was deleted." in shown) == (1, True)
    assert stack.project.status(STACK).endswith("E_COMPLETE")
