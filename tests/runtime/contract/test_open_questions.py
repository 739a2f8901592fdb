"""Questions with invalid or partial answers for longer than the retention: the agent's state expires with its task."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any

import httpx
import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool
from langchain_core.messages import AIMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from aion_core.agents.langgraph.agent import LangGraphAgent
from tests.runtime.contract.sessions import DynamoDBSessionPlace, memory_sessions
from tests.runtime.contract.turns import RowState, Work, asking_side_by_side, asks, reviewed
from tests.support.adk import answer_text, ask, call, scripted_model, served
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import DynamoDBSavers, memory_savers
from tests.support.service import http, parts

pytestmark = pytest.mark.long

DAY = 24 * 3600


class Trails(MessagesState):
    trail: Annotated[list[str], operator.add]


async def answer(client: httpx.AsyncClient, task: dict[str, Any], text: str, message_id: str, to: str = "") -> Any:
    """Answer the task's question, or with `to` its interrupt with this id."""
    metadata = {"metadata": {"interruptId": to}} if to else {}
    return await ask(client, "SendMessage", text, message_id=message_id, taskId=task["id"], **metadata)


def state(task: dict[str, Any]) -> tuple[str, str | None]:
    return task["status"]["state"].removeprefix("TASK_STATE_"), answer_text(task)


def served_graph(graph: Any, adapter: Stack | None, clock: ManualClock) -> Any:
    savers = DynamoDBSavers(adapter, clock) if adapter else memory_savers(clock)
    return parts(LangGraphAgent(graph, savers.saver), savers.tasks, clock, blocking_wait=1e9).app()


def side_by_side_in_subgraphs(work: Work) -> Any:
    builder: Any = StateGraph(Trails)
    for name in ("x", "y"):
        builder.add_node(name, work.row(Trails, ("large", large), ("asks", asks(f"{name}?"))))
        builder.add_edge(START, name)
    return builder.compile()


def extend(log: Sequence[str], changes: Sequence[Sequence[str]]) -> list[str]:
    return [*log, *(word for change in changes for word in change)]


async def large(_: Any) -> Any:
    """Return a state that becomes a blob."""
    return {"trail": [str(list(range(20_000)))]}


async def refuse_answers(client: httpx.AsyncClient, task: dict[str, Any], clock: ManualClock) -> None:
    """Send invalid answers, the last one long after the first retention has ended."""
    for number in range(3):
        clock.move(20 * DAY)
        assert state(await answer(client, task, "perhaps", f"perhaps-{number}"))[0] == "INPUT_REQUIRED"


async def test_graph_accepts_answer_long_after_invalid_answers(adapter: Stack | None, clock: ManualClock) -> None:
    async with http(served_graph(reviewed(Work()), adapter, clock)) as client:
        task = await ask(client, "SendMessage")
        await refuse_answers(client, task, clock)
        clock.move(20 * DAY)
        done = await answer(client, task, "approve", "m-2")
    assert state(done) == ("COMPLETED", "It is sunny. ")


def asking_after_ten_seconds(clock: ManualClock) -> Any:
    """Return a graph that stores its checkpoint ten seconds after the client's message, and then interrupts."""

    async def waits(_: Any) -> Any:
        clock.move(10)

    return Work().row(Trails, ("waits", waits), ("asks", asks("which?", "sure?")))


async def test_checkpoint_expires_after_task_that_invalid_answer_has_extended(
    adapter: Stack | None, clock: ManualClock
) -> None:
    """The second message extends the task: a day has passed since the first message, but not since the checkpoint."""
    async with http(served_graph(asking_after_ten_seconds(clock), adapter, clock)) as client:
        task = await ask(client, "SendMessage")
        clock.move(DAY - 5)
        asked_again = await answer(client, task, "this one", "m-2")
        assert state(asked_again)[0] == "INPUT_REQUIRED"
        clock.move(30 * DAY - 60)
        done = await answer(client, task, "yes", "m-3")
    assert state(done)[0] == "COMPLETED", done["status"]


@pytest.mark.parametrize("graph", [asking_side_by_side, side_by_side_in_subgraphs])
async def test_graph_accepts_last_answer_long_after_partial_one(
    adapter: Stack | None, clock: ManualClock, graph: Any
) -> None:
    work = Work()
    async with http(served_graph(graph(work), adapter, clock)) as client:
        task = await ask(client, "SendMessage")
        first, last = [each["id"] for each in task["status"]["message"]["metadata"]["interrupts"]]
        clock.move(20 * DAY)
        partly = await answer(client, task, "one", "m-2", to=first)
        assert state(partly)[0] == "INPUT_REQUIRED"
        clock.move(20 * DAY)
        done = await answer(client, task, "two", "m-3", to=last)
    assert state(done)[0] == "COMPLETED", done["status"]


class Changes(RowState):
    changes: Annotated[list[str], DeltaChannel(extend)]


async def test_delta_channel_keeps_its_changes_in_long_conversation(adapter: Stack | None, clock: ManualClock) -> None:
    """The context's first message is older than the retention; the state still depends on its changes."""

    async def notes(state: Any) -> Any:
        return {"changes": [str(len(state["changes"]))], "messages": [AIMessage(" ".join(state["changes"]))]}

    builder: Any = StateGraph(Changes)
    builder.add_node("notes", notes)
    builder.add_edge(START, "notes")
    async with http(served_graph(builder.compile(), adapter, clock)) as client:
        for number in range(8):
            done = await ask(client, "SendMessage", message_id=f"m-{number}", contextId="c-1")
            assert state(done) == ("COMPLETED", " ".join(map(str, range(number))))
            clock.move(10 * DAY)
        clock.move(12 * DAY)
        done = await ask(client, "SendMessage", message_id="m-8", contextId="c-1")
    assert state(done) == ("COMPLETED", " ".join(map(str, range(8))))


async def test_delta_channel_keeps_its_changes_with_invalid_answers(adapter: Stack | None, clock: ManualClock) -> None:
    async def counts(state: Any) -> Any:
        number = interrupt("how many?", response_schema=int)
        return {"messages": [AIMessage(" ".join([*state["changes"], str(number)]))]}

    builder: Any = StateGraph(Changes)
    builder.add_node("notes", lambda _: {"changes": ["noted"]})
    builder.add_node("counts", counts)
    builder.add_edge(START, "notes")
    builder.add_edge("notes", "counts")
    async with http(served_graph(builder.compile(), adapter, clock)) as client:
        task = await ask(client, "SendMessage")
        await refuse_answers(client, task, clock)
        clock.move(20 * DAY)
        done = await answer(client, task, "7", "m-2")
    assert state(done) == ("COMPLETED", "noted 7")


async def test_session_accepts_answer_long_after_invalid_answers(adapter: Stack | None, clock: ManualClock) -> None:
    def pay(amount: int) -> str:
        """Pay the amount."""
        return "paid"

    model = scripted_model([call("pay", amount=50)], ["Paid."])
    root = LlmAgent(name="root", model=model, tools=[FunctionTool(pay, require_confirmation=True)])
    place = DynamoDBSessionPlace(adapter, clock) if adapter else memory_sessions(clock)
    service = parts(served(root, lambda fence: place.service(fence=fence)), place.tasks, clock, blocking_wait=1e9)
    async with http(service.app()) as client:
        task = await ask(client, "SendMessage")
        await refuse_answers(client, task, clock)
        clock.move(20 * DAY)
        done = await answer(client, task, "yes", "m-2")
    assert state(done) == ("COMPLETED", "Paid.")
