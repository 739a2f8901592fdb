"""Requirements on which the project's first documents contradicted each other, over HTTP in both protocol versions."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from a2a.compat.v0_3 import types as v03
from google.protobuf.json_format import ParseDict
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from aion.langgraph import AionContext
from aion_core.protocol.types import Message, Part, Role, Task
from tests.runtime.unit.agents.langgraph.requests import RequestEnvelope, one_node
from tests.support import asgi
from tests.support.service import http, parts, send

State = dict[str, Any]
METHODS = {
    "v1": ("SendMessage", "SendStreamingMessage", "GetTask"),
    "v0.3": ("message/send", "message/stream", "tasks/get"),
}


@pytest.fixture(params=METHODS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def post(client: httpx.AsyncClient, request: dict[str, Any]) -> dict[str, Any]:
    """Return the task of the response in its version."""
    answer = (await client.post("/", json=request)).json()
    assert "result" in answer, answer
    result: dict[str, Any] = answer["result"]
    return result.get("task", result)  # type: ignore[no-any-return]


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the events of a stream without v1's wrapper."""
    results = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [result if "kind" in result else next(iter(result.values())) for result in results]


def state(task: dict[str, Any]) -> str:
    """Return the name of the task's state, spelled alike for protocol versions 0.3 and 1.0."""
    named: str = task["status"].get("state", "unknown")
    return named.removeprefix("TASK_STATE_").lower().replace("_", "-")


async def test_send_with_return_immediately_returns_working_task(version: str) -> None:
    """The states submitted and working are recorded before the response; the turn continues after it."""
    began, go = asyncio.Event(), asyncio.Event()

    async def node(state: State) -> State:
        began.set()
        await go.wait()
        return {"messages": [AIMessage("done")]}

    sends, _, gets = METHODS[version]
    made = parts(one_node(node))
    async with http(made.app()) as client:
        request = send(method=sends)
        flag = {"returnImmediately": True} if version == "v1" else {"blocking": False}
        request["params"]["configuration"] = flag
        _, answer = await asgi.post(made.app(), request)
        result = json.loads(answer)["result"]
        task = result.get("task", result)
        assert state(task) == "working"
        await began.wait()
        go.set()
        get = {"jsonrpc": "2.0", "id": 1, "method": gets, "params": {"id": task["id"]}}
        async with asyncio.timeout(60):
            while state(await post(client, get)) != "completed":
                await asyncio.sleep(0.01)
        # Repeat the send as a stream: the server returns the first task's events from the beginning.
        subscribe = send(method=METHODS[version][1])
        events = events_of(await client.post("/", json=subscribe))
    assert [state(event) for event in events] == ["submitted", "working", "completed"]


async def test_langchain_message_becomes_answer_with_a2a_fields(version: str) -> None:
    """The answer has role, parts and id, and in v0.3 its kind. It has neither `role: assistant` nor `content`."""
    async with http(
        parts(one_node(lambda state: {"messages": [{"role": "assistant", "content": "Done!"}]})).app()
    ) as c:
        task = await post(c, send(method=METHODS[version][0]))
    message = task["status"]["message"]
    assert message.pop("messageId")
    assert (message.pop("taskId"), message.pop("contextId")) == (task["id"], task["contextId"])
    assert message == (
        {"role": "ROLE_AGENT", "parts": [{"text": "Done!"}]}
        if version == "v1"
        else {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "Done!"}]}
    )


async def test_outbox_task_with_v03_state_unknown_is_refused(version: str) -> None:
    """An outbox task has the state `unknown`, which only v0.3 has: it must not reach the stored task."""
    outbox = {
        "kind": "task",
        "status": {"state": "unknown"},
        "history": [{"kind": "message", "role": "agent", "messageId": "x", "parts": [{"kind": "text", "text": "out"}]}],
    }
    graph = one_node(lambda state: {"a2a_outbox": outbox}, RequestEnvelope)
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method=METHODS[version][1]))
    assert [state(event) for event in events_of(answer)] == ["submitted", "working", "completed"]
    assert "unknown" not in answer.text.lower().replace('"x"', "")
    assert "UNSPECIFIED" not in answer.text


PART: dict[str, Any] = {"data": {"n": 1}, "metadata": {"kept": True}}
GIVEN: dict[str, Any] = {
    "the SDK's": Message(role=Role.ROLE_AGENT, parts=[Part(text="out"), ParseDict(PART, Part())]),
    "v1 JSON": {"role": "ROLE_AGENT", "parts": [{"text": "out"}, PART]},
    "v0.3 JSON": {
        "kind": "message",
        "role": "agent",
        "messageId": "",
        "parts": [{"kind": "text", "text": "out"}, {"kind": "data", **PART}],
    },
    "v0.3 models": v03.Message(
        role=v03.Role.agent,
        message_id="",
        parts=[v03.Part(root=v03.TextPart(text="out")), v03.Part(root=v03.DataPart(**PART))],
    ),
    "a v0.3 task": v03.Task(
        id="",
        context_id="",
        status=v03.TaskStatus(state=v03.TaskState.completed),
        history=[
            v03.Message(
                role=v03.Role.agent,
                message_id="x",
                parts=[v03.Part(root=v03.TextPart(text="out")), v03.Part(root=v03.DataPart(**PART))],
            )
        ],
    ),
    "the SDK's task": Task(history=[Message(role=Role.ROLE_AGENT, parts=[Part(text="out"), ParseDict(PART, Part())])]),
}


@pytest.mark.parametrize("given", GIVEN)
async def test_a2a_outbox_accepts_parts_of_either_protocol_version(given: str, version: str) -> None:
    graph = one_node(lambda state: {"a2a_outbox": GIVEN[given]}, RequestEnvelope)
    async with http(parts(graph).app()) as client:
        task = await post(client, send(method=METHODS[version][0]))
    assert task["status"]["message"]["parts"] == (
        [{"text": "out"}, PART] if version == "v1" else [{"kind": "text", "text": "out"}, {"kind": "data", **PART}]
    )


async def test_thread_history_lists_oldest_message_first(version: str) -> None:
    """Call `history(limit=20, before=None)`: the oldest message is first, the message being answered is last."""
    seen: list[tuple[str, str]] = []

    async def node(state: State, runtime: Runtime[AionContext]) -> State:
        thread = runtime.context.thread
        seen.extend((message.id, message.text) for message in await thread.history())
        assert [message.id for message in await thread.history(limit=1)] == ["m-1"]
        assert await thread.history(limit=1, before="m-1") == []
        return {"messages": [AIMessage("an answer")]}

    graph = StateGraph(MessagesState, context_schema=AionContext).add_node("node", node).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        await post(client, send("one", message_id="m-1", contextId="c-1", method=METHODS[version][0]))
    assert seen == [("m-1", "one")]
