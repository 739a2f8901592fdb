"""Agents under `sam local` with the store in memory: the real handler in a process, which serves one event at a time.

The environment is that of the built template and of .aion/sam-env.json. The process runs between no two requests.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, TaskState
from starlette.types import ASGIApp

from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import Template
from tests.runtime.protocol.answers import NO_PUSH, check_refusal, events_of, gist, result_of
from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.support.asgi import AsgiAnswer, call
from tests.support.e2e.warm_container import WarmContainer, warm_container
from tests.support.entrypoints import SAM_LOCAL, by_sam
from tests.support.server import ROOT

AGENT = """
import asyncio, logging, os

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

KEY = os.environ["AGENT_KEY"]


async def act(state):
    said = state["messages"][-1].content
    if said == "ask":
        return {"messages": [AIMessage("You answered: " + interrupt("Really?"))]}
    if said == "key":
        logging.getLogger("an.author").warning("The key is %s.", KEY)
        return {"messages": [AIMessage(KEY[-4:])]}
    if said == "fail":
        raise RuntimeError("the author's fault")
    if said == "wait":
        await asyncio.sleep(0.3)
    if said == "take too long":
        await asyncio.sleep(4)
    return {"messages": [AIMessage(f"I know {len(state['messages'])} messages.")]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""
AION_YAML = """
aion:
  secrets: {AGENT_KEY: my-key}
  agents:
    one:
      path: agent.py:graph
      capabilities: {extended_agent_card: true}
      extended_card: {description: For a few.}
"""
KEY = f"value-{uuid4().hex}"
SAM_ENV = {
    "AION_STORE": "memory",
    "AION_AUTH": "off",
    "AION_LOOPBACK_ORIGINS": "true",
    "AION_REVEAL_ERRORS": "true",
    "AION_LOCAL_ENVIRONMENT": json.dumps({"AGENT_KEY": KEY}),
}
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmContainer]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "agent.py").write_text(AGENT)
    (folder / "aion.yaml").write_text(AION_YAML)
    declared = Template(ROOT / "template.yaml", BUILD_PLACE).environment("ApiFunction")
    # SAM CLI leaves out the values from nested stacks, and passes only declared variables.
    unresolved = ("AION_TABLE", "AION_BUCKET", "AION_TASK_QUEUE_URL", "AION_PUSH_QUEUE_URL", "AION_KMS_KEY")
    environ = {name: SAM_ENV.get(name, value) for name, value in declared.items() if name not in unresolved}
    assert environ.keys() >= SAM_ENV.keys()
    with warm_container({**environ, "AION_CONFIG": str(folder / "aion.yaml")}) as container:
        yield container


@pytest.fixture
def sam(container: WarmContainer) -> ASGIApp:
    return by_sam(container.answer)


@pytest.fixture
async def http(sam: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(sam)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{SAM_LOCAL}", timeout=60) as client:
        yield client


async def ask(sam: ASGIApp, dialect: Dialect, operation: str, params: Any) -> AsgiAnswer:
    sent = dialect.request(operation, params)
    assert sent is not None
    return await call(sam, sent.method, sent.target, sent.body, {**sent.headers, "host": SAM_LOCAL})


def said(text: str, context: str = "", task: str = "", **configuration: Any) -> dict[str, Any]:
    """Return the params of a message with a text."""
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    message |= {"contextId": context} if context else {}
    message |= {"taskId": task} if task else {}
    return {"message": message, "configuration": configuration}


async def send(sam: ASGIApp, text: str, context: str = "", task: str = "", **configuration: Any) -> dict[str, Any]:
    """Send a text by JSON-RPC 1.0, and return the task."""
    answer = await ask(sam, DIALECTS[0], "SendMessage", said(text, context, task, **configuration))
    sent: dict[str, Any] = result_of(DIALECTS[0], answer)["task"]
    return sent


def text_of(task: dict[str, Any]) -> str:
    text: str = task["status"]["message"]["parts"][0]["text"]
    return text


async def test_first_log_line_says_what_local_run_lacks(sam: ASGIApp, container: WarmContainer) -> None:
    await send(sam, "hello")
    first = json.loads(container.log()[0])
    assert "This is a local run" in first["message"]
    assert "`aion sam-local`" in first["message"]


async def test_cards_have_sams_address_and_no_push_notifications(http: httpx.AsyncClient) -> None:
    card = await A2ACardResolver(http, f"http://{SAM_LOCAL}").get_agent_card()
    assert {each.url.rstrip("/") for each in card.supported_interfaces} == {f"http://{SAM_LOCAL}"}
    assert not card.capabilities.push_notifications
    extended = (await http.get("/extendedAgentCard", headers={"a2a-version": "1.0"})).json()
    assert extended["description"] == "For a few."
    assert not extended["capabilities"].get("pushNotifications", False)


@pytest.mark.parametrize("streaming", [True, False])
async def test_official_client_gets_answer(http: httpx.AsyncClient, streaming: bool) -> None:
    card = await A2ACardResolver(http, f"http://{SAM_LOCAL}").get_agent_card()
    for binding in ("JSONRPC", "HTTP+JSON"):
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])
        message = Message(message_id=uuid4().hex, role=Role.ROLE_USER, parts=[Part(text="hello")])
        client = ClientFactory(config).create(card)
        answers = [each async for each in client.send_message(SendMessageRequest(message=message))]
        last = answers[-1].status_update if streaming else answers[-1].task
        assert last.status.state == TaskState.TASK_STATE_COMPLETED
        assert last.status.message.parts[0].text == "I know 1 messages."


@each_dialect
async def test_message_that_returns_immediately_has_run_before(sam: ASGIApp, dialect: Dialect) -> None:
    answer = await ask(sam, dialect, "SendMessage", said("wait", returnImmediately=True))
    assert gist("SendMessage", dialect, answer) == "task:completed"


@each_dialect
async def test_stream_has_all_events_at_its_end(sam: ASGIApp, dialect: Dialect) -> None:
    answer = await ask(sam, dialect, "SendStreamingMessage", said("hello"))
    assert gist("SendStreamingMessage", dialect, answer) == "task:submitted status:working status:completed"
    assert "I know 1 messages." in json.dumps(events_of(dialect, answer)[-1])


async def test_second_message_continues_conversation(sam: ASGIApp) -> None:
    context = uuid4().hex
    assert text_of(await send(sam, "hello", context)) == "I know 1 messages."
    assert text_of(await send(sam, "again", context)) == "I know 3 messages."


async def test_answer_to_question_resumes_task(sam: ASGIApp) -> None:
    asking = await send(sam, "ask", returnImmediately=True)
    assert (asking["status"]["state"], text_of(asking)) == ("TASK_STATE_INPUT_REQUIRED", "Really?")
    since = time.monotonic()
    subscribed = await ask(sam, DIALECTS[0], "SubscribeToTask", {"id": asking["id"]})
    assert gist("SubscribeToTask", DIALECTS[0], subscribed) == "task:input-required"
    assert time.monotonic() - since < 60, "a subscription must not keep the only container from the answer"
    done = await send(sam, "yes", task=asking["id"])
    assert (done["id"], text_of(done)) == (asking["id"], "You answered: yes")


async def test_asking_task_can_be_canceled_and_listed(sam: ASGIApp) -> None:
    context = uuid4().hex
    asking = await send(sam, "ask", context)
    canceled = result_of(DIALECTS[0], await ask(sam, DIALECTS[0], "CancelTask", {"id": asking["id"]}))
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    listed = result_of(DIALECTS[0], await ask(sam, DIALECTS[0], "ListTasks", {"contextId": context}))
    assert [(task["id"], task["status"]["state"]) for task in listed["tasks"]] == [
        (asking["id"], "TASK_STATE_CANCELED")
    ]
    refused = await ask(sam, DIALECTS[0], "SubscribeToTask", {"id": asking["id"]})
    assert "GetTask returns it" in json.loads(refused.body)["error"]["message"]


@each_dialect
async def test_webhook_is_refused_with_name_of_command(sam: ASGIApp, dialect: Dialect) -> None:
    hook = {"url": "https://hooks.example.org/"}
    refused = [await ask(sam, dialect, "SendMessage", said("hello", taskPushNotificationConfig=hook))]
    created = {"taskId": (await send(sam, "hello"))["id"], "id": "p", **hook}
    refused.append(await ask(sam, dialect, "CreateTaskPushNotificationConfig", created))
    for answer in refused:
        assert "`aion sam-local`" in check_refusal(dialect, answer, NO_PUSH)


async def test_developers_key_reaches_agent_but_no_log_line(sam: ASGIApp, container: WarmContainer) -> None:
    assert text_of(await send(sam, "key")) == KEY[-4:]
    written = "\n".join(container.log())
    assert "The key is" in written
    assert KEY not in written


async def test_error_of_agent_is_shown_to_developer(sam: ASGIApp) -> None:
    failed = await send(sam, "fail")
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert "the author's fault" in text_of(failed)


async def test_page_of_this_machine_may_call_agents(http: httpx.AsyncClient) -> None:
    asked = {"origin": "http://localhost:5173", "access-control-request-method": "POST"}
    preflight = await http.options("/", headers=asked)
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, "http://localhost:5173")


async def test_turn_goes_on_in_requests_after_its_invocation(
    sam: ASGIApp, container: WarmContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the invocation end before its turn: the client polls the task, and the turn runs in its requests."""
    monkeypatch.setattr(container, "seconds", 8.0)
    task = await send(sam, "take too long")
    monkeypatch.undo()
    polls = 0
    while task["status"]["state"] == "TASK_STATE_WORKING":
        polls += 1
        assert polls < 60
        task = result_of(DIALECTS[0], await ask(sam, DIALECTS[0], "GetTask", {"id": task["id"]}))
    assert (polls > 1, text_of(task)) == (True, "I know 1 messages.")
