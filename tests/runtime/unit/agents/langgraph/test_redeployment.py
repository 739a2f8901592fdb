"""Turn or question that one graph begins and another resumes, after a deployment with other nodes or schemas."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel

from aion_core.agents.expected_answers import ordered
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.redeployment import REFUSES_EARLIER_ANSWER
from aion_core.clock import SystemClock
from aion_core.engine.agent import Emission, InputRequired, Paused, Reply, TurnRequest
from aion_core.engine.records import Turn
from aion_core.errors import AgentFailed
from aion_core.protocol.types import Message, Part, Role, Task
from aion_core.table.keys import ContextKey
from tests.support.rows import each_row
from tests.support.savers import memory_savers
from tests.support.service import http, parts, send

CONTEXT = ContextKey("owner", "agent", "context")


def says(name: str) -> Callable[..., Any]:
    return lambda state: {"messages": [AIMessage(name)]}


def asks(state: Any) -> Any:
    return {"messages": [AIMessage(f"heard {interrupt('Which?')}")]}


def row(saver: Any, *names: str, **nodes: Any) -> Any:
    """Return a graph with these nodes in a row; a name with the prefix `ask` has an interrupt."""
    builder: Any = StateGraph(MessagesState)
    before = START
    for name in names:
        builder.add_node(name, nodes.get(name) or (asks if name.startswith("ask") else says(name)))
        builder.add_edge(before, name)
        before = name
    return builder.compile(saver)


def asked(text: str, number: int, *history: Message, tries: int = 1, drain: asyncio.Event | None = None) -> TurnRequest:
    message = Message(message_id=f"m-{number}", role=Role.ROLE_USER, parts=[Part(text=text)])
    task = Task(id="t-1", context_id="context", history=[*history, message])
    turn = Turn(f"turn-{number}", "t-1", number, tries=tries)
    return TurnRequest(CONTEXT, turn, 1, task, message, drain=drain or asyncio.Event())


async def ending(graph: Any, asked: TurnRequest) -> Emission:
    return [emission async for emission in LangGraphAgent(graph).run(asked)][-1]


def said(emission: Emission) -> str:
    assert isinstance(emission, Reply | InputRequired)
    assert emission.message is not None
    return emission.message.parts[0].text


async def paused_before(names: tuple[str, ...], saver: Any) -> None:
    """Run turn 1 up to its first node, then suspend it."""
    drain = asyncio.Event()

    def last(state: Any) -> Any:
        drain.set()
        return {}

    assert isinstance(await ending(row(saver, *names, **{names[0]: last}), asked("hi", 1, drain=drain)), Paused)


@each_row("tries", [1, 2])
@each_row("names", [("a", "c"), ("a",)])
async def test_turn_fails_if_redeployed_graph_lacks_next_node(names: tuple[str, ...], tries: int) -> None:
    saver = InMemorySaver()
    await paused_before(("a", "b"), saver)
    with pytest.raises(AgentFailed, match=r"deployed with other nodes .*no longer has b\."):
        await ending(row(saver, *names), asked("hi", 1, tries=tries))


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")], ids=["the same", "one more"])
async def test_turn_resumes_if_redeployed_graph_has_all_nodes(names: tuple[str, ...]) -> None:
    saver = InMemorySaver()
    await paused_before(("a", "b"), saver)
    assert said(await ending(row(saver, *names), asked("hi", 1))) == names[-1]


async def test_turn_fails_if_redeployed_subgraph_lacks_node() -> None:
    saver = InMemorySaver()
    await paused_before(("a", "sub"), saver)  # here `sub` is a plain node
    inner = row(None, "x", "y")
    assert said(await ending(row(saver, "a", "sub", sub=inner), asked("hi", 1))) == "y"

    saver = InMemorySaver()
    drain = asyncio.Event()

    def drains(state: Any) -> Any:
        drain.set()
        return {}

    first = row(saver, "a", "sub", sub=row(None, "x", "y", x=drains))
    assert isinstance(await ending(first, asked("hi", 1, drain=drain)), Paused)
    with pytest.raises(AgentFailed, match=r"deployed with other nodes .*no longer has sub\|y\."):
        await ending(row(saver, "a", "sub", sub=row(None, "x", "z")), asked("hi", 1))


async def question_of(saver: Any, *names: str) -> Message:
    end = await ending(row(saver, *names), asked("hi", 1))
    assert isinstance(end, InputRequired)
    end.message.message_id = "q-1"
    end.message.role = Role.ROLE_AGENT
    return end.message


HI = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text="hi")])


async def test_answer_fails_if_redeployed_graph_lacks_interrupted_node() -> None:
    saver = InMemorySaver()
    question = await question_of(saver, "ask", "b")
    with pytest.raises(AgentFailed, match=r"no longer has ask\.") as failed:
        await ending(row(saver, "ask_again", "c"), asked("this", 2, HI, question))
    assert failed.value.__notes__[0].startswith("Missing nodes: ask, b."), "the log names all missing nodes"


async def test_finished_turn_returns_stored_answer_after_redeployment() -> None:
    """The process died after the last checkpoint: the new graph returns the stored answer without running a node."""
    saver = InMemorySaver()
    assert said(await ending(row(saver, "a", "b"), asked("hi", 1))) == "b"
    assert said(await ending(row(saver, "c"), asked("hi", 1, tries=2))) == "b"


async def test_retried_turn_without_stored_state_fails() -> None:
    class Hopped(Turn, frozen=True):
        handoffs: int = 1

    first = asked("hi", 1)
    for turn in (Turn("turn-1", "t-1", 1, tries=2), Hopped("turn-1", "t-1", 1, tries=1)):
        again = TurnRequest(CONTEXT, turn, 1, first.task, first.message)
        with pytest.raises(AgentFailed, match="stores no state"):
            await ending(row(None, "a"), again)


# ── Schemas of answers ────────────────────────────────────────────────────────────────────────────────────────────────


class Seats(BaseModel):
    number: int


class SeatsInRow(Seats):
    row: str


def booking(*schemas: Any, nested: bool = False, nodes: Sequence[str] = ("books",)) -> Any:
    """Return a graph whose nodes ask one question for each schema, one after another."""

    def books(_: Any) -> Any:
        answers = [interrupt(f"Question {number}?", response_schema=schema) for number, schema in enumerate(schemas)]
        return {"messages": [AIMessage(" ".join(map(repr, answers)))]}

    builder: Any = StateGraph(MessagesState)
    for node in nodes:
        builder.add_node(node, books)
        builder.add_edge(START, node)
    if nested:
        builder = StateGraph(MessagesState).add_node("inner", builder.compile()).add_edge(START, "inner")
    return builder.compile()


class Deployments:
    """Clients of several deployments of one agent, with one task store and one table of checkpoints."""

    def __init__(self) -> None:
        self._savers = memory_savers(SystemClock())

    def of(self, graph: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        return http(parts(LangGraphAgent(graph, self._savers.saver), self._savers.tasks).app())


async def post(client: httpx.AsyncClient, data: Any, **message: Any) -> dict[str, Any]:
    request = send(**message)
    request["params"]["message"]["parts"] = [{"data": data}]
    task: dict[str, Any] = (await client.post("/", json=request)).json()["result"]["task"]
    return task


def questions(task: dict[str, Any]) -> list[tuple[str, Any]]:
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", task["status"]
    return [(each["text"], each["schema"]) for each in task["status"]["message"]["metadata"]["interrupts"]]


@pytest.mark.parametrize("nested", [False, True])
async def test_refused_answer_shows_schema_of_redeployed_graph(nested: bool) -> None:
    deployments = Deployments()
    async with deployments.of(booking(Seats, nested=nested)) as client:
        asked = await post(client, {}, message_id="m-1")
    assert questions(asked) == [("Question 0?", Seats.model_json_schema())]
    async with deployments.of(booking(SeatsInRow, nested=nested)) as client:
        for number in range(2):
            again = await post(client, {"number": 2}, message_id=f"m-2-{number}", taskId=asked["id"])
            assert "in row: Field required" in again["status"]["message"]["parts"][0]["text"]
            assert questions(again) == [("Question 0?", ordered(SeatsInRow.model_json_schema()))]
        done = await post(client, {"number": 2, "row": "b"}, message_id="m-3", taskId=asked["id"])
    assert done["status"]["message"]["parts"] == [{"text": "SeatsInRow(number=2, row='b')"}]


async def test_turn_fails_if_redeployed_graph_refuses_earlier_answer() -> None:
    """The client cannot answer the first question again: the graph asks the second one."""
    deployments = Deployments()
    async with deployments.of(booking(Seats, Seats)) as client:
        asked = await post(client, {}, message_id="m-1")
        asked = await post(client, {"number": 1}, message_id="m-2", taskId=asked["id"])
    assert questions(asked) == [("Question 1?", Seats.model_json_schema())]
    async with deployments.of(booking(SeatsInRow, Seats)) as client:
        failed = await post(client, {"number": 2}, message_id="m-3", taskId=asked["id"])
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    assert failed["status"]["message"]["parts"] == [{"text": REFUSES_EARLIER_ANSWER}]


class Seating(BaseModel):
    """Class whose instances can be validated, but which has no JSON Schema."""

    row: str
    sort: Callable[[], int] | None = None


async def test_refused_answer_shows_old_schema_without_new_json_form() -> None:
    deployments = Deployments()
    async with deployments.of(booking(Seats)) as client:
        asked = await post(client, {}, message_id="m-1")
    async with deployments.of(booking(Seating)) as client:
        again = await post(client, {"number": 2}, message_id="m-2", taskId=asked["id"])
        assert "in row: Field required" in again["status"]["message"]["parts"][0]["text"]
        assert questions(again) == [("Question 0?", Seats.model_json_schema())]
        done = await post(client, {"row": "b"}, message_id="m-3", taskId=asked["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
