"""Questions with invalid or partial answers for longer than the retention: the agent's state expires with its task."""

import operator
from typing import Annotated, Any

import httpx
import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool
from langgraph.graph import START, MessagesState, StateGraph

from aion_core.agents.langgraph.agent import LangGraphAgent
from tests.contract.sessions import DynamoDBSessionPlace, memory_sessions
from tests.contract.turns import Work, asking_side_by_side, asks, reviewed
from tests.support.adk import answer_text, ask, call, scripted_model, served
from tests.support.clock import ManualClock
from tests.support.engines import Stack
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
