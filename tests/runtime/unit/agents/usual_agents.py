"""Agents of `docs/agents.md`: their turns, and checks of the streams and of the stored tasks, in both versions."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.types import Message, Role, Task, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.runtime.unit.agents.folding import Folded, fold, text_of
from tests.support.adk import as_v03
from tests.support.histories import before_status
from tests.support.service import http, send

METHODS = {"v1": ("SendMessage", "SendStreamingMessage"), "v0.3": ("message/send", "message/stream")}
"""Blocking and streaming method of each version."""
GET = {"v1": "GetTask", "v0.3": "tasks/get"}

both_versions = pytest.mark.parametrize("version", ["v1", pytest.param("v0.3", marks=pytest.mark.deep)])

Sent = str | dict[str, Any]
"""Text or part of a client's message."""
PNG = b"\x89PNG"


@dataclass(frozen=True)
class UsualTurn:
    """Message of a client, and the response that the client receives."""

    sent: tuple[Sent, ...] = ("Hi",)
    state: str = "COMPLETED"
    answer: str | None = None
    """Text of the last status's message; None without a message."""
    before: tuple[str, ...] = ()
    """Texts of the agent's messages before the answer, in the task's history."""
    streamed: tuple[str, ...] = ()
    """Texts of the stream delta that are in no message."""
    parts: tuple[dict[str, Any], ...] = ()
    """Parts of the answer that are not text, in their v1 form."""
    artifacts: dict[str, str] = field(default_factory=dict)
    """Texts of the task's artifacts, by name."""
    each: str | None = None
    """Text that answers each of several interrupts, in one message."""
    new_context: bool = False
    """True if the message begins a new context."""


@dataclass(frozen=True)
class Case:
    """Agent with its turns; each turn after the first continues the context, or the interrupted task."""

    agent: Callable[[], Any]
    turns: tuple[UsualTurn, ...]


class Cases(dict[str, Case]):
    """Cases by their names in `docs/agents.md`; `add` is the decorator of an agent's factory."""

    def add(self, name: str, *turns: UsualTurn) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        def added(agent: Callable[[], Any]) -> Callable[[], Any]:
            self[name] = Case(agent, turns)
            return agent

        return added


def agents_named_in(section: str) -> set[str]:
    """Return the agents that a section of `docs/agents.md` names, in rows or in the list after a table."""
    rows = re.findall(r"^\| ([^|]+?) \| ", section, re.MULTILINE)
    lists = re.findall(r"^Also tested[^:]*: (.+?)\.$", section, re.MULTILINE | re.DOTALL)
    listed = [name for each in lists for name in " ".join(each.split()).split("; ")]
    return {name.replace("`", "") for name in [*rows, *listed]} - {"Agent", "Executor", "---"}


def request_of(turn: UsualTurn, number: int, method: str, last: Task) -> dict[str, Any]:
    """Return the request of a turn. It continues the context of the last task, or the task if it is interrupted."""
    context = {} if turn.new_context or not last.id else {"contextId": last.context_id}
    if last.status.state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED):
        context["taskId"] = last.id
    given = [{"text": each} if isinstance(each, str) else each for each in turn.sent]
    if turn.each is not None:
        interrupts = MessageToDict(last.status.message.metadata)["interrupts"]
        given = [{"text": turn.each, "metadata": {"interruptId": each["id"]}} for each in interrupts]
    request = send(method=method, message_id=f"m-{number}", **context)
    request["params"]["message"]["parts"] = [as_v03(as_v1(part)) if "/" in method else as_v1(part) for part in given]
    return request


def as_v1(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "raw": base64.b64encode(part["raw"]).decode()} if "raw" in part else part


def as_task(result: dict[str, Any]) -> Task:
    """Return the task of a response's result, in either version."""
    if result.get("kind") == "task":
        return conversions.to_core_task(v03.Task.model_validate(result))
    return ParseDict(result["task"], Task())


def check_parts(message: Message | None, expected: UsualTurn) -> None:
    """Check the message parts that are not text: a file as a whole, data by its first key."""
    others = [part for part in (message.parts if message else ()) if not part.text]
    assert len(others) == len(expected.parts)
    for part, wanted in zip(others, expected.parts, strict=True):
        if "raw" in wanted:
            assert (part.raw, part.media_type) == (wanted["raw"], wanted["mediaType"])
        else:
            assert next(iter(wanted)) in str(part.data)


async def streamed_turn(client: httpx.AsyncClient, request: dict[str, Any], version: str) -> tuple[Folded, Task]:
    """Return what a client has after the stream, and the task as it is stored then, which is also a blocking response."""
    folded = fold((await client.post("/", json=request)).text)
    if folded.message is not None:
        return folded, Task()
    read = {"jsonrpc": "2.0", "id": 8, "method": GET[version], "params": {"id": folded.task.id}}
    stored = (await client.post("/", json=read)).json()["result"]
    return folded, as_task({"task": stored} if version == "v1" else stored)


async def check_turns(app: Any, case: Case, version: str) -> None:
    """Check each turn's stream and stored task. Each text of the stream delta is that of a message, or is expected."""
    async with http(app) as client:
        last = Task()
        for number, expected in enumerate(case.turns):
            request = request_of(expected, number, METHODS[version][1], last)
            folded, stored = await streamed_turn(client, request, version)
            if folded.message is not None:
                assert (expected.state, text_of(folded.message)) == ("MESSAGE", expected.answer)
                continue
            last = stored
            for task, artifacts in ((folded.task, folded.artifacts), (stored, stored.artifacts)):
                message = task.status.message if task.status.HasField("message") else None
                assert TaskState.Name(task.status.state) == f"TASK_STATE_{expected.state}"
                assert (text_of(message) if message else "") == (expected.answer or "")
                check_parts(message, expected)
                assert {artifact.name: text_of(artifact) for artifact in artifacts} == expected.artifacts
            # Sort the messages, because concurrent agents finish in any order.
            earlier = before_status(stored)
            own = [each.message_id for each in earlier].index(f"m-{number}")
            before = [text_of(each) for each in earlier[own + 1 :] if each.role == Role.ROLE_AGENT]
            assert sorted(before) == sorted(expected.before)
            assert not folded.repeated.total()
            texts = [text_of(each) for each in folded.messages.values()]
            assert len(set(folded.texts)) == len(folded.texts)
            assert set(folded.texts) <= {*texts, *expected.streamed}
