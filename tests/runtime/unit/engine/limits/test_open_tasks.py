"""Limit of a caller's open tasks."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.runtime.unit.engine.limits.test_limits_over_http import TENANTS, Ask, asking, rpc
from tests.support.asgi import ask
from tests.support.issuer import Issuer

GRAPH = """
import asyncio

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


async def act(state):
    text = state["messages"][-1].content
    if text == "ask":
        interrupt("really?")
    if text == "work":
        await asyncio.Event().wait()
    return {"messages": [AIMessage("done")]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""

AION_YAML = """
aion:
  limits: {open_tasks_per_owner: %d}
  security:
    schemes:
%s
  agents:
    one: {path: open_agent.py:graph}
    two: {path: open_agent.py:graph, double_texting: reject}
"""

MOST = 3


@pytest.fixture
def app(tmp_path: Path, issuer: Issuer) -> FastAPI:
    (tmp_path / "open_agent.py").write_text(GRAPH)
    config = tmp_path / "aion.yaml"
    config.write_text(AION_YAML % (MOST, jwt_scheme(issuer).rstrip("\n")))
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test"}
    return build_app(Settings.from_environ(environ))


def sending(text: str, name: str, context: str = "", **more: Any) -> dict[str, Any]:
    message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": text}], **more}
    if context:
        message["contextId"] = context
    return {"message": message, "configuration": {"returnImmediately": text == "work"}}


async def begin(caller: Ask, text: str, name: str, context: str = "", at: str = "/", **more: Any) -> httpx.Response:
    answer: httpx.Response = await caller("POST", at, rpc("SendMessage", **sending(text, name, context, **more)))
    return answer


def task_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    task: dict[str, Any] = answer.json()["result"]["task"]
    return task


async def cancel_all(caller: Ask) -> None:
    for at in ("/", "/agents/two/"):
        for task in (await caller("POST", at, rpc("ListTasks"))).json()["result"]["tasks"]:
            await caller("POST", at, rpc("CancelTask", id=task["id"]))


async def test_open_task_limit_applies_to_every_send_request(app: FastAPI, issuer: Issuer) -> None:
    """Count the tasks of all agents and tenants of a caller; after a task has ended, a new one may start."""
    alice, bob = asking(app, issuer, "alice"), asking(app, issuer, "bob")
    first = task_of(await begin(alice, "work", "m-1"))
    task_of(await begin(alice, "work", "m-2", at="/agents/two/"))
    red = (await alice("POST", "/red/message:send", sending("work", "m-3"))).json()["task"]
    ways = [
        ("POST", "/", rpc("SendMessage", **sending("x", "m-4"))),
        ("POST", "/", rpc("SendStreamingMessage", **sending("x", "m-4"))),
        ("POST", "/agents/two/", rpc("SendMessage", **sending("work", "m-4"))),
        ("POST", "/message:send", sending("x", "m-4")),
        ("POST", "/message:stream", sending("x", "m-4")),
        ("POST", "/blue/message:send", sending("x", "m-4")),
    ]
    old = {"message": {"messageId": "m-4", "role": 1, "content": [{"text": "x"}]}}
    ways += [("POST", "/v1/message:send", old), ("POST", "/v1/message:stream", old)]
    for method, path, body in ways:
        refused = await alice(method, path, body)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10"), (path, refused.text)
        assert "TOO_MANY_REQUESTS" in refused.text
        assert "You have 3 open tasks, the maximum." in refused.text
    assert (await alice("GET", "/tasks")).json()["totalSize"] == 1
    task_of(await begin(bob, "hello", "m-1"))
    # The limit of open tasks does not apply to reads and cancellations.
    assert (await alice("GET", f"/tasks/{first['id']}")).status_code == 200
    assert "result" in (await alice("POST", "/", rpc("CancelTask", id=first["id"]))).json()
    for n in range(2 * MOST):
        assert task_of(await begin(alice, "hello", f"m-5-{n}"))["status"]["state"] == "TASK_STATE_COMPLETED"
    task_of(await begin(alice, "work", "m-6"))
    assert (await begin(alice, "hello", "m-7")).status_code == 429
    assert "result" in (await alice("POST", "/", rpc("CancelTask", id=red["id"], tenant="red"))).json()
    task_of(await begin(alice, "hello", "m-7"))
    await cancel_all(alice)


async def test_open_tasks_of_removed_agent_are_not_counted(app: FastAPI, issuer: Issuer, tmp_path: Path) -> None:
    """Admit a task although others wait for input: their agent is removed, so the caller can no longer end them."""
    config = tmp_path / "aion.yaml"
    environ = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(tmp_path), "AION_CONFIG": str(config)}
    before = asking(build_app(Settings.from_environ(environ)), issuer, "alice")
    for n in range(MOST):
        task_of(await begin(before, "ask", f"m-{n}"))
    assert (await begin(before, "hello", "m-9")).status_code == 429
    config.write_text(config.read_text().replace("one:", "three:"))
    after = asking(build_app(Settings.from_environ(environ)), issuer, "alice")
    assert task_of(await begin(after, "hello", "m-9"))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("tenant", TENANTS)
async def test_open_task_limit_allows_messages_to_existing_tasks(app: FastAPI, issuer: Issuer, tenant: str) -> None:
    """At the limit, send a repeat, an answer to an interrupt, and a message to a running task: all are accepted."""
    alice = asking(app, issuer, "alice", tenant)
    asks = [task_of(await begin(alice, "ask", f"m-{n}", f"c-{n}")) for n in range(2)]
    works = task_of(await begin(alice, "work", "m-2", "c-2"))
    assert {task["status"]["state"] for task in asks} == {"TASK_STATE_INPUT_REQUIRED"}
    assert (await begin(alice, "hello", "m-9", "c-9")).status_code == 429
    assert task_of(await begin(alice, "ask", "m-0", "c-0"))["id"] == asks[0]["id"], "a repeat"
    assert task_of(await begin(alice, "work", "m-4", taskId=works["id"]))["id"] == works["id"]
    answered = task_of(await begin(alice, "yes", "m-3", taskId=asks[0]["id"]))
    assert (answered["id"], answered["status"]["state"]) == (asks[0]["id"], "TASK_STATE_COMPLETED")
    task_of(await begin(alice, "ask", "m-5", "c-5"))
    assert (await begin(alice, "hello", "m-9", "c-9")).status_code == 429
    # Without a taskId, a message to the interrupted task's context resumes that task.
    answered = task_of(await begin(alice, "yes", "m-6", "c-1"))
    assert (answered["id"], answered["status"]["state"]) == (asks[1]["id"], "TASK_STATE_COMPLETED")
    await cancel_all(alice)


@pytest.mark.parametrize("tenant", TENANTS)
async def test_open_task_limit_allows_repeated_request_with_same_idempotency_key(
    app: FastAPI, issuer: Issuer, tenant: str
) -> None:
    token = issuer.token(sub="alice")

    async def send(text: str, key: str, name: str) -> httpx.Response:
        headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "idempotency-key": key,
        }
        return await ask(
            app, "POST", "/", headers, json.dumps(rpc("SendMessage", **sending(text, name), tenant=tenant)).encode()
        )

    made = [task_of(await send("work", f"k-{n}", f"m-{n}")) for n in range(MOST)]
    assert (await send("work", "k-9", "m-9")).status_code == 429
    assert task_of(await send("work", "k-1", "m-1"))["id"] == made[1]["id"]
    await cancel_all(asking(app, issuer, "alice", tenant))


@pytest.mark.parametrize("tenant", TENANTS)
async def test_refused_messages_do_not_count_as_open_tasks(app: FastAPI, issuer: Issuer, tenant: str) -> None:
    alice = asking(app, issuer, "alice", tenant)
    task_of(await begin(alice, "work", "m-1", "c-1", at="/agents/two/"))
    for n in range(2 * MOST):
        refused = await begin(alice, "hello", f"m-2-{n}", "c-1", at="/agents/two/")
        assert refused.json()["error"]["code"] == -32004, "the agent refuses messages during a turn"
        again = await begin(alice, "work", "m-1", "c-1", at="/agents/two/")
        assert again.status_code == 200
    for n in range(MOST - 1):
        task_of(await begin(alice, "work", f"m-3-{n}"))
    assert (await begin(alice, "work", "m-4")).status_code == 429
    await cancel_all(alice)


@pytest.mark.parametrize("tenant", TENANTS)
async def test_concurrent_new_tasks_respect_open_task_limit(app: FastAPI, issuer: Issuer, tenant: str) -> None:
    """Send many messages at once: the limit holds although the store has none of their tasks yet."""
    alice = asking(app, issuer, "alice", tenant)
    answers = await asyncio.gather(*(begin(alice, "work", f"m-{n}") for n in range(5 * MOST)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(200), statuses.count(429)) == (MOST, 4 * MOST)
    await cancel_all(alice)
