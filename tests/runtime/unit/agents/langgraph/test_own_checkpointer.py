"""Graph with its own checkpointer: a turn that the checkpointer has lost fails instead of silently starting over."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter, interrupt

from aion.langgraph.stream import emit_message
from aion_core.agents.client_answers import QUESTION_EXPIRED
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.resumption import STATE_LOST
from aion_core.engine.agent import Agent, Reply, TurnRequest
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.errors import AgentFailed
from tests.runtime.contract.driven import DrivenConversation
from tests.support.clock import ManualClock
from tests.support.savers import begin, memory_savers, taken_over
from tests.support.service import http, parts, send


class ServedBy:
    """Agent that makes its graph anew for each turn, as a new process would."""

    def __init__(self, graph: Callable[[], Any]) -> None:
        self._graph = graph

    def load(self) -> None: ...

    def profile(self) -> AgentProfile:
        return UNKNOWN

    async def run(self, asked: TurnRequest) -> Any:
        async for emission in LangGraphAgent(self._graph()).run(asked):
            yield emission


def asks(saver: Any) -> Any:
    def node(state: Any) -> Any:
        return {"messages": [AIMessage(f"Booked for {interrupt('Which day?')}.")]}

    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(saver)


async def conversation(agent: Agent, *texts: str) -> list[Any]:
    """Send each text to the task of the first text; return the task's status after each."""
    statuses: list[Any] = []
    task: dict[str, str] = {}
    async with http(parts(agent).app()) as client:
        for number, text in enumerate(texts):
            request = send(text, message_id=f"m-{number}", **task)
            answer = (await client.post("/", json=request)).json()["result"]["task"]
            task = {"taskId": answer["id"]}
            statuses.append(answer["status"])
    return statuses


async def test_answering_fails_if_checkpointer_has_lost_the_interrupt() -> None:
    """A new process does not have the interrupt: asking again would lose every further answer too."""
    _, status = await conversation(ServedBy(lambda: asks(InMemorySaver())), "book", "Monday")
    assert status["state"] == "TASK_STATE_FAILED"
    assert status["message"]["parts"][0]["text"] == STATE_LOST


async def test_interrupt_is_answered_with_persistent_checkpointer_of_author() -> None:
    saver = InMemorySaver()
    _, status = await conversation(ServedBy(lambda: asks(saver)), "book", "Monday")
    assert status["message"]["parts"][0]["text"] == "Booked for Monday."


class Lasting(BaseCheckpointSaver[str]):
    """Checkpointer that keeps its checkpoints in memory, but counts as a persistent one."""

    def __init__(self, threads: InMemorySaver) -> None:
        super().__init__()
        self._threads = threads

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._threads.aget_tuple(config)

    async def aput(self, *given: Any) -> RunnableConfig:
        return await self._threads.aput(*given)

    async def aput_writes(self, *given: Any) -> None:
        await self._threads.aput_writes(*given)

    async def alist(self, *given: Any, **options: Any) -> Any:
        async for found in self._threads.alist(*given, **options):
            yield found

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._threads.get_next_version(current, channel)


async def test_error_names_expiry_if_persistent_checkpointer_has_lost_interrupt() -> None:
    _, status = await conversation(ServedBy(lambda: asks(Lasting(InMemorySaver()))), "book", "Monday")
    assert status["message"]["parts"][0]["text"] == QUESTION_EXPIRED


class Died(BaseException):
    """Exception that stands for the death of the process."""


def charges(saver: Any, ran: list[str], *, emits: bool, dies: list[bool]) -> Any:
    def charge(state: Any, writer: StreamWriter) -> Any:
        ran.append("charge")
        if emits:
            emit_message(writer, AIMessage("Charged."))
        return {}

    async def book(state: Any) -> Any:
        if dies:
            dies.pop()
            raise Died
        return {"messages": [AIMessage("Booked.")]}

    graph = StateGraph(MessagesState).add_node("charge", charge).add_node("book", book)
    return graph.add_edge(START, "charge").add_edge("charge", "book").compile(saver)


@pytest.mark.parametrize("emits", [True, False])
async def test_crashed_turn_fails_if_its_checkpointer_lost_the_state(emits: bool) -> None:
    clock, ran = ManualClock(), list[str]()
    savers = memory_savers(clock)
    turn = DrivenConversation.of(await begin(savers.tasks, clock))
    with pytest.raises(Died):
        await turn.run(charges(InMemorySaver(), ran, emits=emits, dies=[True]), savers)
    turn.taken_over(await taken_over(savers, clock, turn.begun))
    with pytest.raises(AgentFailed) as failed:
        await turn.run(charges(InMemorySaver(), ran, emits=emits, dies=[]), savers)
    assert str(failed.value) == STATE_LOST
    assert ran == ["charge"]


async def test_turn_starts_over_if_persistent_checkpointer_has_no_checkpoint() -> None:
    clock, ran = ManualClock(), list[str]()
    savers = memory_savers(clock)
    turn = DrivenConversation.of(await begin(savers.tasks, clock))
    turn.taken_over(await taken_over(savers, clock, turn.begun))
    assert isinstance(await turn.run(charges(Lasting(InMemorySaver()), ran, emits=True, dies=[]), savers), Reply)
    assert ran == ["charge"]


async def test_turn_resumes_with_persistent_checkpointer() -> None:
    clock, ran, threads = ManualClock(), list[str](), InMemorySaver()
    savers = memory_savers(clock)
    turn = DrivenConversation.of(await begin(savers.tasks, clock))
    with pytest.raises(Died):
        await turn.run(charges(Lasting(threads), ran, emits=True, dies=[True]), savers)
    turn.taken_over(await taken_over(savers, clock, turn.begun))
    assert isinstance(await turn.run(charges(Lasting(threads), ran, emits=True, dies=[]), savers), Reply)
    assert ran == ["charge"]


@pytest.mark.parametrize("call", ["as a node", "awaited", "synchronous"])
async def test_subgraph_without_checkpointer_completes(call: str) -> None:
    """Compile a subgraph with `checkpointer=False`, as LangGraph offers for subgraphs without memory and interrupts."""

    def answer(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"echo {state['messages'][-1].text}")]}

    inner: Any = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    inner = inner.compile(checkpointer=False)

    async def awaits(state: MessagesState) -> Any:
        return await inner.ainvoke(state)

    def calls(state: MessagesState) -> Any:
        return inner.invoke(state)

    outer: Any = {"as a node": inner, "awaited": awaits, "synchronous": calls}[call]
    graph: Any = StateGraph(MessagesState).add_node("outer", outer).add_edge(START, "outer")
    async with http(parts(graph).app()) as client:
        status = (await client.post("/", json=send())).json()["result"]["task"]["status"]
    assert status["message"]["parts"][0]["text"] == "echo hi"
