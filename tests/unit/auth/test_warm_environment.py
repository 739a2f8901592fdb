"""Two callers in one warm execution environment: of the first nothing is left when the second one comes (75)."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.types import ASGIApp

from tests.support.asgi import ask
from tests.support.issuer import Issuer
from tests.support.reachable import texts_with
from tests.unit.auth.foreign import HOOK

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
    """What the agent calls in the midst of its turn."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.found: set[str] = set()
        self.looked = False
        self.in_step: asyncio.Barrier | None = None

    async def look(self) -> None:
        """Note which of the marks can be found now, once; in step with another turn, where one is told to be."""
        if self.in_step:
            await self.in_step.wait()
        if self.marks and not self.looked:
            # The turn that runs is reached from its task, which no module holds.
            self.looked, self.found = True, {mark for mark, _ in texts_with(self.marks, asyncio.all_tasks())}


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    found = Spy()
    monkeypatch.setitem(sys.modules, "warm_spy", found)
    return found


@pytest.fixture
def app(api_function: Callable[[str, str, str], ASGIApp], spy: Spy) -> ASGIApp:
    return api_function("warm_agent", GRAPH, AION_YAML)


class Caller:
    """Somebody all of whose words hold a mark."""

    def __init__(self, app: ASGIApp, issuer: Issuer, name: str) -> None:
        self.mark = f"{name}{uuid4().hex}"
        self._app = app
        self._token = issuer.token(sub=f"subject-{self.mark}", private=f"claim-{self.mark}")
        self.marks = [self.mark, self._token[-40:]]

    async def rpc(self, method: str, **params: Any) -> httpx.Response:
        """The answer to a request."""
        headers = {
            "authorization": f"Bearer {self._token}",
            "content-type": "application/json",
            "x-more": f"header-{self.mark}",
        }
        body = {"jsonrpc": "2.0", "id": f"request-{self.mark}", "method": method, "params": params}
        return await ask(self._app, "POST", f"/?query={self.mark}", headers, json.dumps(body).encode())

    async def session(self) -> list[str]:
        """All that somebody may do, and what it was answered."""
        said = self.mark
        message = {
            "messageId": f"message-{said}",
            "contextId": f"context-{said}",
            "role": "ROLE_USER",
            "parts": [{"text": f"text-{said}"}, {"data": {"data": said}}, {"raw": "aGk=", "filename": f"file-{said}"}],
            "metadata": {f"name-{said}": f"value-{said}"},
        }
        hook = {"id": f"hook-{said}", "url": f"{HOOK}?{said}", "token": f"token-{said}"}
        asked = {"configuration": {"taskPushNotificationConfig": hook}, "metadata": {"request": said}}
        answers = [await self.rpc("SendMessage", message=message, **asked)]
        task = answers[0].json()["result"]["task"]
        again = {**message, "messageId": f"message-2-{said}"}
        answers += [
            await self.rpc("SendStreamingMessage", message=again),
            await self.rpc("GetTask", id=task["id"]),
            await self.rpc("GetTask", id=f"unknown-{said}"),
            await self.rpc("ListTasks"),
            await self.rpc("GetContext", contextId=task["contextId"]),
            await self.rpc("GetContexts"),
            await self.rpc("ListTaskPushNotificationConfigs", taskId=task["id"]),
            await self.rpc(f"Nothing{said}", **{said: said}),
            await self.rpc("SubscribeToTask", id=task["id"]),
            await self.rpc("CancelTask", id=task["id"]),
        ]
        return [answer.text for answer in answers]


async def test_nothing_of_a_caller_is_left_when_the_next_one_comes(app: ASGIApp, issuer: Issuer, spy: Spy) -> None:
    """R96: 75: neither in the state of any module that serves requests, nor in what the next one is answered."""
    alice, bob = Caller(app, issuer, "alice"), Caller(app, issuer, "bob")
    spy.marks = alice.marks
    answers = await alice.session()
    assert all(alice.mark in answer for answer in answers)
    assert spy.found >= {alice.mark}, "what a turn holds can be found while it runs"
    left = list(texts_with(alice.marks, app))
    assert left == []
    spy.looked = False
    assert not any(mark in answer for answer in await bob.session() for mark in alice.marks)
    assert spy.looked
    assert spy.found == set(), "a turn of Bob's holds nothing of Alice's"
    assert list(texts_with([*alice.marks, *bob.marks], app)) == []


async def test_callers_who_call_at_once_hear_nothing_of_each_other(app: ASGIApp, issuer: Issuer, spy: Spy) -> None:
    """R96: 75: where a process serves several at once, as make dev does."""
    spy.in_step = asyncio.Barrier(2)
    callers = [Caller(app, issuer, "alice"), Caller(app, issuer, "bob")]
    alices, bobs = await asyncio.gather(*(caller.session() for caller in callers))
    assert all(callers[0].mark in answer and callers[1].mark not in answer for answer in alices)
    assert all(callers[1].mark in answer and callers[0].mark not in answer for answer in bobs)
