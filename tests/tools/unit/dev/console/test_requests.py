"""Console's own requests: stored state and webhooks, in development only, and for the owner only."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import InMemorySessionService
from google.genai import types

from aion_core.auth.schemes.api_key import make_key
from aion_core.bootstrap import build_app
from aion_core.clock import SystemClock
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey
from aion_core.web.request.body import MAX_BODY_BYTES
from aion_tools.dev.console.additions import console_additions
from aion_tools.dev.console.stored_state.forked_session import forked_session
from aion_tools.operator.bootstrap import build_keys
from tests.support.agents.session_counting import ADK
from tests.support.listening import free_port, listening
from tests.support.rows import each_row
from tests.support.service import http, send

LANGGRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def talk(state: MessagesState) -> dict:
    return {"messages": [AIMessage("Hello.")]}


builder = StateGraph(MessagesState).add_node("talk", talk).add_edge(START, "talk")
graph = builder.compile()


def made(config):
    return builder.compile()
"""
EXECUTOR = """
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor


class Echo(AgentExecutor):
    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(new_text_message("Hello."))

    async def cancel(self, context, event_queue):
        pass


executor = Echo()
"""
AGENTS = """
  agents:
    graph: {path: "lg.py:graph"}
    factory: {path: "lg.py:made"}
    adk: {path: "adk_agent.py:root_agent"}
    executor: {path: "ex.py:executor"}
    broken: {path: "broken.py:graph"}
"""
SECURED = "aion:\n  security: {schemes: {key: {type: api-key}}, require: [{key: []}]}\n"


def settings(folder: Path, base: str, **environ: str) -> Settings:
    for name, text in {"lg": LANGGRAPH, "adk_agent": ADK, "ex": EXECUTOR, "broken": "import missing_module"}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "aion.yaml").write_text(
        (SECURED if environ.get("AION_AUTH") == "on" else "aion:\n") + AGENTS.lstrip("\n")
    )
    return Settings.from_environ({
        "AION_STORE": "memory", "AION_CONFIG": str(folder / "aion.yaml"), "AION_BASE_URL": base, "AION_AUTH": "off",
        "AION_CONSOLE": "on", "AION_PUSH_HTTP": "true", "AION_PUSH_NETWORKS": "127.0.0.0/8",
        "AION_PUSH_RECEIVER": f"{base}/console/receiver", "AION_TRACE": "on", **environ,
    })  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = f"http://127.0.0.1:{(port := free_port())}"
    with listening(build_app(settings(tmp_path_factory.mktemp("console"), base), console_additions), port=port):
        yield base


def talk(url: str, agent: str, webhook: str = "") -> dict[str, Any]:
    """Send a message to the agent, and return its task or message."""
    request = send(message_id=str(uuid4()), contextId=f"c-{agent}{webhook and '-push'}")
    if webhook:
        request["params"]["configuration"] = {"taskPushNotificationConfig": {"url": webhook}}
    result = httpx.post(f"{url}/agents/{agent}", json=request, timeout=60).json()["result"]
    found: dict[str, Any] = result.get("task") or result["message"]
    return found


def state(url: str, agent: str) -> Any:
    return httpx.get(f"{url}/agents/{agent}/console/state", params={"contextId": f"c-{agent}"}, timeout=60).json()


@pytest.mark.parametrize("agent", ["graph", "factory"])
def test_console_shows_checkpoints_of_graph(url: str, agent: str) -> None:
    talk(url, agent)
    found = state(url, agent)
    assert found["kind"] == "LangGraph thread"
    assert [message["content"] for message in found["values"]["messages"]] == ["hi", "Hello."]
    assert [entry["label"] for entry in found["entries"]] == ["step 1, loop", "step 0, loop, next talk"]
    assert found["entries"][1]["content"]["next"] == ["talk"]


def test_console_shows_session_of_adk_agent(url: str) -> None:
    talk(url, "adk")
    found = state(url, "adk")
    assert (found["kind"], found["id"], found["values"]) == ("ADK session", "c-adk", {"count": 1})
    assert [entry["label"] for entry in found["entries"]][-2:] == ["counting", "user"]
    assert found["entries"][-2]["content"]["actions"]["stateDelta"] == {"count": 1}


def test_console_shows_no_state_without_stored_conversation(url: str) -> None:
    talk(url, "executor")
    assert state(url, "executor") is None
    assert "no stored state" in fork(url, "executor", {"id": "x"})["error"]["message"]
    answered = httpx.get(f"{url}/agents/adk/console/state", params={"contextId": "unknown"}, timeout=60)
    assert (answered.status_code, answered.json()) == (200, None)
    refused = httpx.get(f"{url}/agents/adk/console/state", params={"contextId": ""}, timeout=60)
    assert (refused.status_code, "contextId" in refused.text) == (400, True)
    assert "missing_module" in state(url, "broken")["error"]


@pytest.mark.parametrize("agent", ["graph", "factory", "adk", "executor"])
def test_console_draws_agent(url: str, agent: str) -> None:
    found = httpx.get(f"{url}/agents/{agent}/console/drawing", timeout=60).json()
    if agent == "executor":
        assert found is None
    elif agent == "adk":
        assert found == {"parts": [{"id": "counting", "name": "counting", "kind": "agent"}], "edges": []}
    else:
        assert [(part["name"], part["kind"]) for part in found["parts"]] == [
            ("__start__", "end"),
            ("talk", "node"),
            ("__end__", "end"),
        ]
        assert [(edge["source"], edge["target"]) for edge in found["edges"]] == [
            ("__start__", "talk"),
            ("talk", "__end__"),
        ]


def turns(url: str, agent: str, *task_ids: str) -> Any:
    return httpx.get(f"{url}/agents/{agent}/console/turns", params={"taskId": task_ids}, timeout=60).json()


def test_console_shows_steps_of_own_task_only(url: str) -> None:
    ids = [talk(url, "graph")["id"] for _ in range(2)]
    until(lambda: all(each["tries"] for each in turns(url, "graph", *ids).values()))
    found = turns(url, "graph", *ids)
    assert list(found) == ids
    for each in found.values():
        (run,) = each["tries"]
        assert [(step["kind"], step["name"]) for step in run["steps"]] == [("agent", "graph"), ("node", "talk")]
        assert each["lease"] is None
    assert "task not found" in turns(url, "factory", ids[0])["error"]["message"].lower()


def fork(url: str, agent: str, entry: dict[str, Any], **values: Any) -> Any:
    body = {"contextId": f"c-{agent}", "checkpointId": entry["id"], "messageId": str(uuid4()), "values": values}
    answered = httpx.post(f"{url}/agents/{agent}/console/fork", json=body, timeout=60).json()
    return {"messageId": body["messageId"], **answered}


def ran(url: str, agent: str, forked: dict[str, Any], text: str) -> dict[str, Any]:
    """Send the message that runs the agent in the forked context, and return the context's stored state."""
    request = send(text, message_id=forked["messageId"], contextId=forked["contextId"])
    task = httpx.post(f"{url}/agents/{agent}", json=request, timeout=60).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    asked = {"contextId": forked["contextId"]}
    found: dict[str, Any] = httpx.get(f"{url}/agents/{agent}/console/state", params=asked, timeout=60).json()
    return found


@pytest.mark.parametrize("agent", ["graph", "factory"])
def test_new_context_runs_graph_from_edited_checkpoint(url: str, agent: str) -> None:
    """The message starts the next node, which reads the edited state, and is no input of the graph."""
    talk(url, agent)
    before = state(url, agent)
    entry = next(each for each in before["entries"] if each["content"]["next"] == ["talk"])
    messages = [{**message, "content": "edited"} for message in entry["content"]["values"]["messages"][:1]]
    forked = fork(url, agent, entry, messages=messages)
    assert (forked["runs"], forked["parts"]) == (True, [])
    after = ran(url, agent, forked, "not read")
    assert [message["content"] for message in after["values"]["messages"]] == ["edited", "Hello."]
    assert state(url, agent) == before, "the forked context has not changed"


def test_new_context_begins_at_end_of_conversation(url: str) -> None:
    talk(url, "graph")
    (newest, *_) = state(url, "graph")["entries"]
    forked = fork(url, "graph", newest)
    assert forked["runs"] is False
    found = ran(url, "graph", forked, "next")
    assert [message["content"] for message in found["values"]["messages"]][-2:] == ["next", "Hello."]


def test_value_that_does_not_fit_state_is_refused(url: str) -> None:
    talk(url, "graph")
    (newest, *_) = state(url, "graph")["entries"]
    refused = fork(url, "graph", newest, messages=[{"type": "human"}, {"type": "nobody", "content": ""}])
    assert "messages does not fit the state" in refused["error"]["message"]


@pytest.mark.parametrize("label", ["counting", "user"])
def test_new_context_runs_adk_from_message_before_event(url: str, label: str) -> None:
    """The message itself is an event too, from which the agent can be run again."""
    talk(url, "adk")
    talk(url, "adk")
    before = state(url, "adk")
    newest = next(each for each in before["entries"] if each["label"] == label)
    forked = fork(url, "adk", newest)
    assert (forked["runs"], forked["parts"]) == (True, [{"text": "hi"}])
    after = ran(url, "adk", forked, "hi")
    assert after["values"]["count"] == before["values"]["count"]
    assert len(after["entries"]) == len(before["entries"])


async def test_new_context_leaves_state_that_sessions_share() -> None:
    """The events of the copied session have set it to values that are old by now."""
    sessions, context = InMemorySessionService(), ContextKey("ann", "adk", "c-1")
    given: dict[str, Any] = {"app_name": "adk", "user_id": "ann"}
    session = await sessions.create_session(**given, session_id="c-1")
    for number in (1, 2):
        asked = Event(author="user", content=types.UserContent("hi"))
        await sessions.append_event(session, asked)
        delta = {"app:n": number, "user:n": number, "n": number}
        await sessions.append_event(session, Event(author="adk", actions=EventActions(state_delta=delta)))
    await forked_session(sessions, context, ContextKey("ann", "adk", "c-2"), asked.id)
    for session_id, own in (("c-1", 2), ("c-2", 1)):
        found = await sessions.get_session(**given, session_id=session_id)
        assert found is not None
        assert found.state == {"app:n": 2, "user:n": 2, "n": own}


@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_new_context_is_of_callers_tenant(tenant: str, tmp_path: Path) -> None:
    store = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(tmp_path / "store")}
    given = settings(tmp_path, "http://test", AION_AUTH="on", **store)
    key = make_key("ann", now=SystemClock().now(), tenant=tenant)
    await build_keys(given).add(key.record)
    async with http(build_app(given, console_additions)) as client:
        client.headers["X-API-Key"] = key.text
        sent = await client.post("/agents/graph", json=send("first", message_id="m-1", contextId="c-1"))
        assert "task" in sent.json()["result"], sent.text
        (newest, *_) = (await client.get("/agents/graph/console/state?contextId=c-1")).json()["entries"]
        body = {"contextId": "c-1", "checkpointId": newest["id"], "messageId": "m-2"}
        context = (await client.post("/agents/graph/console/fork", json=body)).json()["contextId"]
        await client.post("/agents/graph", json=send("second", message_id="m-2", contextId=context))
        found = (await client.get(f"/agents/graph/console/state?contextId={context}")).json()["values"]["messages"]
    assert [message["content"] for message in found] == ["first", "Hello.", "second", "Hello."]


def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds, for at most a minute."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "the condition does not hold"
        time.sleep(0.02)


def webhooks(url: str, task_id: str) -> Any:
    return httpx.get(f"{url}/agents/graph/console/webhooks", params={"taskId": task_id}, timeout=60).json()


def test_console_redrive_sends_failed_notifications_to_receiver_again(url: str) -> None:
    api = f"{url}/agents/graph/console"
    assert httpx.post(f"{api}/receiver", json={"status": 410}, timeout=60).status_code == 200
    task = talk(url, "graph", f"{url}/console/receiver")
    until(lambda: any(each["disabled"] for each in webhooks(url, task["id"])["webhooks"]))
    found = webhooks(url, task["id"])
    assert [post["status"] for post in found["posts"]] == [410]
    httpx.post(f"{api}/receiver", json={"status": 204}, timeout=60)
    asked = {"taskId": task["id"], "configId": found["webhooks"][0]["id"]}
    assert httpx.post(f"{api}/redrive", json=asked, timeout=60).status_code == 200
    until(lambda: [post["status"] for post in webhooks(url, task["id"])["posts"]][:1] == [204])
    until(lambda: not webhooks(url, task["id"])["webhooks"][0]["tries"])
    found = webhooks(url, task["id"])
    assert {post["signed"] for post in found["posts"]} == {True}
    assert not found["webhooks"][0]["disabled"]
    assert "authorization" not in found["posts"][0]["headers"]


def test_console_of_one_agent_hides_webhooks_of_another(url: str) -> None:
    task = talk(url, "graph", f"{url}/console/receiver")
    (webhook,) = webhooks(url, task["id"])["webhooks"]
    api = f"{url}/agents/factory/console"
    read = httpx.get(f"{api}/webhooks", params={"taskId": task["id"]}, timeout=60)
    redriven = httpx.post(f"{api}/redrive", json={"taskId": task["id"], "configId": webhook["id"]}, timeout=60)
    unknown = httpx.get(f"{api}/webhooks", params={"taskId": "unknown"}, timeout=60)
    assert (read.status_code, redriven.status_code) == (404, 404)
    assert read.text == redriven.text == unknown.text.replace("unknown", task["id"])


def test_console_receiver_marks_forged_signature_invalid(url: str) -> None:
    task = talk(url, "graph", f"{url}/console/receiver")
    forged = {"statusUpdate": {"taskId": task["id"], "status": {"state": "TASK_STATE_FAILED"}}}
    headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,\xff"}
    httpx.post(
        f"{url}/console/receiver",
        json=forged,
        headers={k.encode(): v.encode("latin-1") for k, v in headers.items()},
        timeout=60,
    )
    posts = webhooks(url, task["id"])["posts"]
    assert [post["signed"] for post in posts if post["headers"]["webhook-id"] == "1"] == [False]


@each_row(
    ("name", "body"),
    [
        ("redrive", {"taskId": "t", "configId": "unknown"}),
        ("redrive", {"taskId": "", "configId": "c"}),
        ("redrive", []),
        ("receiver", {"status": 200}),
        ("receiver", {"status": 204.0}),
        ("receiver", None),
        ("fork", {"contextId": "c-graph", "checkpointId": "unknown", "messageId": "m"}),
        ("fork", {"contextId": "c-graph", "checkpointId": "unknown", "messageId": ""}),
        ("fork", {"contextId": "", "checkpointId": "unknown", "messageId": "m"}),
        ("fork", {"contextId": "c-graph", "checkpointId": "unknown", "messageId": "m", "values": []}),
    ],
)
def test_invalid_console_request_is_refused(url: str, name: str, body: Any) -> None:
    answered = httpx.post(f"{url}/agents/graph/console/{name}", json=body, timeout=60)
    assert answered.status_code in (400, 404)
    assert answered.json()["error"]["message"]


def test_large_console_request_is_refused(url: str) -> None:
    answered = httpx.post(f"{url}/agents/graph/console/receiver", json={"status": "x" * MAX_BODY_BYTES}, timeout=60)
    assert answered.status_code == 413


@each_row("value", ["NaN", "1e999", '"\\ud800"', "9" * 5000, "[" * 900 + "]" * 900])
def test_webhook_post_with_unusual_json_does_not_break_console(url: str, value: str) -> None:
    """Any program on this machine may post anything to the receiver: the console must still show the other posts."""
    task = talk(url, "graph", f"{url}/console/receiver")
    posted = f'{{"statusUpdate": {{"taskId": "{task["id"]}"}}, "value": {value}}}'
    httpx.post(f"{url}/console/receiver", content=posted, timeout=60)
    until(lambda: webhooks(url, task["id"])["posts"])


def test_console_webhook_receiver_refuses_large_post(url: str) -> None:
    assert httpx.post(f"{url}/console/receiver", content=b"x" * 300_000, timeout=60).status_code == 413


REQUESTS = [
    ("GET", "drawing"),
    ("GET", "turns"),
    ("GET", "state"),
    ("POST", "fork"),
    ("GET", "webhooks"),
    ("POST", "redrive"),
    ("POST", "receiver"),
    ("POST", "kill"),
]


@each_row(("method", "name"), REQUESTS)
async def test_console_requests_require_credentials_for_the_agent(method: str, name: str, tmp_path: Path) -> None:
    """Send each request without credentials; an accepted kill request would end the test's process."""
    app = build_app(settings(tmp_path, "http://test", AION_AUTH="on"), console_additions)
    async with http(app) as client:
        answered = await client.request(method, f"/agents/graph/console/{name}", json={})
    assert answered.status_code == 401


async def test_form_of_another_page_does_not_kill_the_process(tmp_path: Path) -> None:
    """A page of any origin may post a form without a preflight request. An accepted kill would end this process."""
    app = build_app(settings(tmp_path, "http://127.0.0.1"), console_additions)
    async with http(app) as client:
        client.base_url = httpx.URL("http://127.0.0.1")
        path = "/agents/graph/console/kill"
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            answered = await client.post(path, content="{}", headers={"content-type": kind})
            assert answered.status_code in (400, 415), answered.text
        assert (await client.post(path)).status_code == 400


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_deployed_console_has_no_development_endpoints(mode: str, tmp_path: Path) -> None:
    app = build_app(settings(tmp_path, "http://127.0.0.1", AION_CONSOLE=mode))
    async with http(app) as client:
        client.base_url = httpx.URL("http://127.0.0.1")
        for method, name in REQUESTS:
            assert (await client.request(method, f"/agents/graph/console/{name}", json={})).status_code in (404, 405)
        assert (await client.post("/console/receiver", json={})).status_code in (404, 405)
        assert (await client.get("/console/inspect.js")).status_code == 404


def test_development_views_load_nothing_from_other_origins(url: str) -> None:
    assert '"./inspect.js"' in httpx.get(f"{url}/console/console.js", timeout=60).text
    script = httpx.get(f"{url}/console/inspect.js", timeout=60)
    assert script.headers["content-type"].startswith("text/javascript")
    assert not re.search(r"https?://(?!$)[a-z]", script.text)
    for name in re.findall(r'from "\./([^"]+)"', script.text):
        assert httpx.get(f"{url}/console/{name}", timeout=60).status_code == 200
