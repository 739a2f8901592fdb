"""Ids of another caller, tenant or agent: each request treats them as unknown ids."""

import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.routing import Match

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.runtime.unit.auth.id_requests import HOOK, NEVER_WAS, answered, requests
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
    return {"messages": [AIMessage(f"{text}, says the agent")]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    one: {path: acting.py:graph}
    two: {path: acting.py:graph}
"""

SECRET = "only-bob-knows"
REQUESTS = list(requests())


class Callers:
    """Two callers of an app: Bob, who has tasks, and Alice, who has none."""

    def __init__(self, app: FastAPI, issuer: Issuer) -> None:
        self.app = app
        self._tokens = {name: issuer.token(sub=name) for name in ("alice", "bob")}
        self._sent = 0

    async def rpc(self, who: str, method: str, *, at: str = "", **params: Any) -> Any:
        """Return the response to a JSON-RPC request."""
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
        answer = await self.send(who, "POST", f"{at}/", body)
        assert "result" in answer.json(), answer.text
        return answer.json()["result"]

    async def send(
        self, who: str, method: str, target: str, body: bytes = b"", *, heard: Callable[[], None] = lambda: None
    ) -> httpx.Response:
        """Return the response to a caller's request. `heard` is called at its first bytes."""
        headers = {"authorization": f"Bearer {self._tokens[who]}", "content-type": "application/json"}
        return await ask(self.app, method, target, headers, body, heard=heard)

    async def a_task(self, who: str, text: str, tenant: str = "") -> dict[str, Any]:
        """Return a new task with a push config. Its context id contains SECRET; `text` makes the agent end, ask or work."""
        self._sent += 1
        named = {"messageId": f"m-{who}-{self._sent}", "contextId": f"{SECRET}-{self._sent}"}
        at_once = {"returnImmediately": text == "work"}
        message = {**named, "role": "ROLE_USER", "parts": [{"text": text}], "metadata": {"private": SECRET}}
        sent = await self.rpc(who, "SendMessage", message=message, configuration=at_once, tenant=tenant)
        task: dict[str, Any] = sent["task"]
        config = {"taskId": task["id"], "id": "c-1", "url": HOOK, "token": SECRET, "tenant": tenant}
        await self.rpc(who, "CreateTaskPushNotificationConfig", **config)
        return task

    async def everything(self, who: str, task: dict[str, Any], tenant: str = "") -> list[Any]:
        """Return all of the owner's views of a task."""
        named = {"taskId": task["id"], "tenant": tenant}
        return [
            await self.rpc(who, "GetTask", id=task["id"], tenant=tenant),
            await self.rpc(who, "ListTaskPushNotificationConfigs", **named),
            await self.rpc(who, "GetContext", contextId=task["contextId"], tenant=tenant),
            await self.rpc(who, "ListTasks", contextId=task["contextId"], tenant=tenant, includeArtifacts=True),
        ]


@asynccontextmanager
async def served(folder: Path, issuer: Issuer) -> AsyncIterator[Callers]:
    """Serve the app, then cancel its running tasks."""
    (folder / "acting.py").write_text(GRAPH)
    config = folder / "aion.yaml"
    config.write_text(AION_YAML % jwt_scheme(issuer).rstrip("\n"))
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test"}
    callers = Callers(build_app(Settings.from_environ(environ)), issuer)
    yield callers
    for tenant in ("", "red"):
        for task in (await callers.rpc("bob", "ListTasks", status="TASK_STATE_WORKING", tenant=tenant))["tasks"]:
            await callers.rpc("bob", "CancelTask", id=task["id"], tenant=tenant)


def without(ids: dict[str, str], answer: httpx.Response) -> tuple[int, Any, bytes]:
    """Return the status, headers and body of the response, with placeholders in place of the ids."""
    body = answer.content
    for what in sorted(set(ids.values()), key=len, reverse=True):
        body = body.replace(what.encode(), b"<id>")
    headers = [(name, value) for name, value in answer.headers.multi_items() if name != "content-length"]
    return answer.status_code, headers, body


def is_unknown(answer: httpx.Response) -> bool:
    """Return True if the response reports an unknown id."""
    if answer.status_code == 404:
        return True
    if answer.headers["content-type"] not in ("application/json", "text/event-stream; charset=utf-8"):
        return False
    # v0.3 refuses a streaming method by a stream whose only frame is the error.
    found = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    body = json.loads(found[0] if found else answer.text)
    return isinstance(body, dict) and bool(body.get("error", {}).get("code") == -32001)


TASKS = [request for request in REQUESTS if request.names("task")]
STATES = ("hello", "ask", "work") if os.environ.get("SIMULATION_DEEP") else ("ask",)


def test_every_private_route_has_request_in_foreign_id_tests(tmp_path: Path, issuer: Issuer) -> None:
    """Each path of the server has a request in these tests, or is public."""
    (tmp_path / "acting.py").write_text(GRAPH)
    config = tmp_path / "aion.yaml"
    config.write_text(AION_YAML % jwt_scheme(issuer).rstrip("\n"))
    app = build_app(Settings.from_environ({"AION_STORE": "memory", "AION_CONFIG": str(config)}))
    tried = set()
    for request in REQUESTS:
        method, target, _ = request.to(tenant="red", task=NEVER_WAS, context="c")
        for prefix in ("", "/agents/one", "/agents/two"):
            path = f"{prefix}{target.partition('?')[0]}"
            scope = {"type": "http", "method": method, "path": path, "root_path": ""}
            route = next(found for found in app.router.routes if found.matches(scope)[0] is Match.FULL)
            tried.add(route.path)  # type: ignore[attr-defined]
    all_paths = {route.path for route in app.router.routes}  # type: ignore[attr-defined]
    public = re.compile(r"(/agents/\w+)?/\.well-known/(agent-card|agent|manifest|jwks)\.json|/health/?")
    # Leave out the paths that no request above uses: JSON-RPC without a final slash, and v0.3's extended card.
    others = {"/agents/one", "/agents/two"}
    assert {path for path in all_paths - tried - others if not public.fullmatch(path)} <= {
        path for path in all_paths if path.endswith("/agent/authenticatedExtendedCard")
    }


async def test_every_request_treats_another_owners_task_id_as_unknown(tmp_path: Path, issuer: Issuer) -> None:
    """Send Bob's task id as Alice: the response equals that for an unknown id, and nothing changes."""
    async with served(tmp_path, issuer) as callers:
        bobs = [await callers.a_task("bob", text) for text in STATES]
        in_red = await callers.a_task("bob", "ask", tenant="red")
        before = [await callers.everything("bob", task) for task in bobs]
        before.append(await callers.everything("bob", in_red, "red"))
        for request in TASKS:
            tenants = request.tenants
            # Combinations of caller, task, tenant and agent without access to the task.
            attempts = [("alice", task, tenant, "") for task in (*bobs, in_red) for tenant in tenants]
            attempts += [("bob", task, tenant, "") for task in bobs for tenant in tenants if tenant]
            attempts += [("bob", in_red, tenant, "") for tenant in tenants if tenant != "red"]
            attempts += [("bob", task, tenant, "/agents/two") for task in bobs for tenant in tenants]
            for who, task, tenant, prefix in attempts:
                answers = []
                for id_ in (task["id"], NEVER_WAS):
                    method, target, body = request.to(task=id_, tenant=tenant)
                    answer = await callers.send(who, method, prefix + target, body)
                    answers.append(without({"task": id_}, answer))
                    assert is_unknown(answer), (request.name, who, tenant, prefix, answer.text)
                    assert SECRET not in answer.text
                assert answers[0] == answers[1], (request.name, who, tenant, prefix)
        after = [await callers.everything("bob", task) for task in bobs]
        assert [*after, await callers.everything("bob", in_red, "red")] == before


async def test_every_request_with_task_id_succeeds_for_the_owner(tmp_path: Path, issuer: Issuer) -> None:
    """Send the same requests as the owner: they succeed, so their refusal for others is due to the id."""
    async with served(tmp_path, issuer) as callers:
        for request in TASKS:
            tenant = "red" if "{tenant}" in request.path else ""
            task = await callers.a_task("bob", "ask", tenant)
            method, target, body = request.to(task=task["id"], tenant=tenant)
            cancel = partial(callers.send, "bob", "POST", f"{f'/{tenant}' if tenant else ''}/tasks/{task['id']}:cancel")
            answer = await answered(request, partial(callers.send, "bob", method, target, body), cancel)
            assert not is_unknown(answer), (request.name, answer.text)
            assert answer.status_code == 200, (request.name, answer.text)
            assert "error" not in answer.text, (request.name, answer.text)


async def test_every_request_treats_another_owners_context_id_as_unknown(tmp_path: Path, issuer: Issuer) -> None:
    about = [request for request in REQUESTS if request.names("context")]
    assert {request.operation for request in about} == {
        "SendMessage",
        "SendStreamingMessage",
        "GetContext",
        "ListTasks",
    }
    async with served(tmp_path, issuer) as callers:
        for request in about:
            tenant = "red" if "{tenant}" in request.path else ""
            # Keep Bob's task running, so that a message of Alice that reached its context would be queued there.
            bobs = await callers.a_task("bob", "work", tenant)
            before = await callers.everything("bob", bobs, tenant)
            answers = []
            for context_id in (bobs["contextId"], f"never-{bobs['contextId']}"):
                method, target, body = request.to(context=context_id, tenant=tenant)
                answer = await callers.send("alice", method, target, body)
                assert bobs["id"] not in answer.text
                status, headers, content = without({"context": context_id}, answer)
                # Ignore ids and times of Alice's new tasks and messages, because they differ in each response.
                own = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z?"
                answers.append((status, headers, re.sub(own, b"<own>", content)))
            assert answers[0] == answers[1], request.name
            assert await callers.everything("bob", bobs, tenant) == before
            await callers.rpc("bob", "CancelTask", id=bobs["id"], tenant=tenant)


async def test_lists_contain_no_tasks_or_contexts_of_other_owners(tmp_path: Path, issuer: Issuer) -> None:
    """List tasks and contexts as other callers, in other tenants and of other agents: Bob's are missing."""
    lists = [request for request in REQUESTS if request.operation in ("ListTasks", "GetContexts")]
    async with served(tmp_path, issuer) as callers:
        for tenant in ("", "red"):
            await callers.a_task("bob", "ask", tenant)
        for request in lists:
            there = "red" if "{tenant}" in request.path else ""
            for who, tenant, prefix, sees in (
                ("bob", there, "", True),
                ("alice", there, "", False),
                ("bob", there, "/agents/two", False),
                *([("bob", "blue", "", False)] if there else []),
            ):
                method, target, body = request.to(tenant=tenant)
                answer = await callers.send(who, method, prefix + target, body)
                assert answer.status_code == 200, answer.text
                assert (SECRET in answer.text) is sees, (request.name, who, tenant, prefix)


async def test_reference_to_another_owners_task_is_ignored(tmp_path: Path, issuer: Issuer) -> None:
    async with served(tmp_path, issuer) as callers:
        bobs = await callers.a_task("bob", "ask")
        before = await callers.everything("bob", bobs)
        about = [request for request in REQUESTS if request.names("references")]
        assert len(about) == 10
        for request in about:
            answers = []
            for id_ in (bobs["id"], NEVER_WAS):
                method, target, body = request.to(references=id_, tenant="red")
                answer = await callers.send("alice", method, target, body.replace(b'"m-1"', f'"{id_}"'.encode()))
                assert "hello, says the agent" in answer.text, (request.name, answer.text)
                assert SECRET not in answer.text
                answers.append(answer.status_code)
            assert answers == [200, 200]
        assert await callers.everything("bob", bobs) == before
