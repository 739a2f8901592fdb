"""Two callers in one warm execution environment: nothing of the first caller remains for the second."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.types import ASGIApp

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.runtime.unit.auth.id_requests import HOOK
from tests.runtime.unit.auth.reachable import texts_with
from tests.support.asgi import ask
from tests.support.issuer import Issuer

GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

import warm_spy


async def act(state):
    await warm_spy.look()
    return {"messages": [AIMessage("You said: " + state["messages"][-1].content)]}


graph = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
"""

AION_YAML = """
aion:
  security:
    schemes:
%s
  agents:
    one: {path: warm_agent.py:graph}
"""


class Spy:
    """Search of this process for the marks of another caller, during the agent's turn."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.found: tuple[str, str] | None = None
        """First found mark, with its text."""
        self.looked = False
        self.in_step: asyncio.Barrier | None = None

    async def look(self) -> None:
        """Search once for reachable marks and record them; with `in_step`, first wait for the other turn."""
        if self.in_step:
            await self.in_step.wait()
        if self.marks and not self.looked:
            # Search the asyncio tasks too: the running turn is referenced by its asyncio task only, not by a module.
            self.looked, self.found = True, next(texts_with(self.marks, asyncio.all_tasks()), None)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    found = Spy()
    monkeypatch.setitem(sys.modules, "warm_spy", found)
    return found


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp], spy: Spy) -> ASGIApp:
    return api_function("warm_agent", GRAPH, AION_YAML)


@pytest.fixture
def local_app(tmp_path: Path, issuer: Issuer, spy: Spy) -> ASGIApp:
    (tmp_path / "warm_agent.py").write_text(GRAPH)
    config = tmp_path / "aion.yaml"
    config.write_text(AION_YAML % jwt_scheme(issuer).rstrip("\n"))
    environ = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test"}
    return build_app(Settings.from_environ(environ))


class MarkedCaller:
    """Caller with a mark in all data that it sends."""

    def __init__(self, app: ASGIApp, issuer: Issuer, name: str) -> None:
        self.mark = f"{name}{uuid4().hex}"
        self._app = app
        self._token = issuer.token(sub=f"subject-{self.mark}", private=f"claim-{self.mark}")
        self.marks = [self.mark, self._token[-40:]]

    async def rpc(self, method: str, **params: Any) -> httpx.Response:
        """Return the response to a JSON-RPC request."""
        headers = {
            "authorization": f"Bearer {self._token}",
            "content-type": "application/json",
            "x-more": f"header-{self.mark}",
        }
        body = {"jsonrpc": "2.0", "id": f"request-{self.mark}", "method": method, "params": params}
        return await ask(self._app, "POST", f"/?query={self.mark}", headers, json.dumps(body).encode())

    async def session(self) -> list[str]:
        """Make all kinds of requests; return their responses."""
        mark = self.mark
        message = {
            "messageId": f"message-{mark}",
            "contextId": f"context-{mark}",
            "role": "ROLE_USER",
            "parts": [{"text": f"text-{mark}"}, {"data": {"data": mark}}, {"raw": "aGk=", "filename": f"file-{mark}"}],
            "metadata": {f"name-{mark}": f"value-{mark}"},
        }
        hook = {"id": f"hook-{mark}", "url": f"{HOOK}?{mark}", "token": f"token-{mark}"}
        params = {"configuration": {"taskPushNotificationConfig": hook}, "metadata": {"request": mark}}
        answers = [await self.rpc("SendMessage", message=message, **params)]
        task = answers[0].json()["result"]["task"]
        again = {**message, "messageId": f"message-2-{mark}"}
        answers += [
            await self.rpc("SendStreamingMessage", message=again),
            await self.rpc("GetTask", id=task["id"]),
            await self.rpc("GetTask", id=f"unknown-{mark}"),
            await self.rpc("ListTasks"),
            await self.rpc("GetContext", contextId=task["contextId"]),
            await self.rpc("GetContexts"),
            await self.rpc("ListTaskPushNotificationConfigs", taskId=task["id"]),
            await self.rpc(f"Nothing{mark}", **{mark: mark}),
            await self.rpc("SubscribeToTask", id=task["id"]),
            await self.rpc("CancelTask", id=task["id"]),
        ]
        return [answer.text for answer in answers]


async def test_warm_environment_retains_no_data_of_caller(app: ASGIApp, issuer: Issuer, spy: Spy) -> None:
    """Search the modules' state and the responses to the next caller for the first caller's marks."""
    alice, bob = MarkedCaller(app, issuer, "alice"), MarkedCaller(app, issuer, "bob")
    spy.marks = alice.marks
    answers = await alice.session()
    assert all(alice.mark in answer for answer in answers)
    assert spy.found, "the search finds data of the running turn"
    spy.looked = False
    assert not any(mark in answer for answer in await bob.session() for mark in alice.marks)
    assert spy.looked
    assert spy.found is None, "Bob's turn holds no data of Alice"
    assert list(texts_with([*alice.marks, *bob.marks], app)) == []


async def test_concurrent_callers_are_isolated(local_app: ASGIApp, issuer: Issuer, spy: Spy) -> None:
    """Run the requests of two callers at the same time in one process, as `make dev` does."""
    spy.in_step = asyncio.Barrier(2)
    callers = [MarkedCaller(local_app, issuer, name) for name in ("alice", "bob")]
    alices, bobs = await asyncio.gather(*(caller.session() for caller in callers))
    assert all(callers[0].mark in answer and callers[1].mark not in answer for answer in alices)
    assert all(callers[1].mark in answer and callers[0].mark not in answer for answer in bobs)
