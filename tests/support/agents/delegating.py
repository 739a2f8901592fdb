"""Agents that call the agent of remote.py: by a node, tools, a subgraph and a task of LangGraph, and by an executor."""

import asyncio
import operator
import os
from pathlib import Path
from typing import Annotated, Any, TypedDict

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, interrupt

from aion.shared.remote import RemoteAgentFailed, call_agent

NOTES = "CALLER_NOTES"
"""Variable with the file to which each run of a caller writes its name."""


def note(name: str) -> None:
    if notes := os.environ.get(NOTES):
        with Path(notes).open("a") as file:
            file.write(f"{name}\n")


async def called(text: str) -> str:
    """Return the remote agent's answer to each text of a list with semicolons, one after another.

    A text such as `other: say hello` is for the remote agent with this name.
    """
    answers = []
    for each in text.split(";"):
        name, _, said = each.strip().rpartition(": ")
        answers.append((await call_agent(name or "remote", said)).text)
    return " ".join(answers)


async def ask_in_node(state: MessagesState) -> dict[str, Any]:
    note("node")
    return {"messages": [AIMessage(await called(state["messages"][-1].text))]}


node = StateGraph(MessagesState).add_node("ask", ask_in_node).add_edge(START, "ask")


async def ask_at_once(state: MessagesState) -> dict[str, Any]:
    """Send the texts at the same time, each to a conversation of its own."""
    texts = state["messages"][-1].text.split(";")
    answers = await asyncio.gather(*(call_agent("remote", each.strip()) for each in texts))
    return {"messages": [AIMessage(" ".join(answer.text for answer in answers))]}


at_once = StateGraph(MessagesState).add_node("ask", ask_at_once).add_edge(START, "ask")


class Parts(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


def asking(place: int) -> Any:
    async def ask(state: Parts) -> dict[str, Any]:
        text = state["messages"][0].text.split(";")[place].strip()
        return {"messages": [AIMessage((await call_agent("remote", text)).text)]}

    return ask


parallel = (
    StateGraph(Parts)
    .add_node("left", asking(0))
    .add_node("right", asking(1))
    .add_node("join", lambda state: {"messages": [AIMessage(" ".join(m.text for m in state["messages"][1:]))]})
    .add_edge(START, "left")
    .add_edge(START, "right")
    .add_edge(["left", "right"], "join")
)

nested = StateGraph(MessagesState).add_node("inner", node.compile()).add_edge(START, "inner")


@tool
async def remote(text: str) -> str:
    """Ask the remote agent."""
    return (await call_agent("remote", text)).text


def want_tools(state: MessagesState) -> dict[str, Any]:
    texts = state["messages"][-1].text.split(";")
    calls = [{"name": "remote", "args": {"text": each.strip()}, "id": f"call-{n}"} for n, each in enumerate(texts)]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def say_results(state: MessagesState) -> dict[str, Any]:
    last = max(n for n, message in enumerate(state["messages"]) if message.type == "ai")
    return {"messages": [AIMessage(" ".join(str(each.content) for each in state["messages"][last + 1 :]))]}


tools = (
    StateGraph(MessagesState)
    .add_node("model", want_tools)
    .add_node("tools", ToolNode([remote]))
    .add_node("say", say_results)
    .add_edge(START, "model")
    .add_edge("model", "tools")
    .add_edge("tools", "say")
)


@task
async def ask_in_task(text: str) -> str:
    return (await call_agent("remote", text)).text


@entrypoint()
async def functional(messages: dict[str, Any]) -> Any:
    return AIMessage(await ask_in_task(messages["messages"][-1].text))


async def catch(state: MessagesState) -> dict[str, Any]:
    try:
        text = await called(state["messages"][-1].text)
    except RemoteAgentFailed as error:
        text = f"{error.agent} {error.state}: {error.reason}"
    return {"messages": [AIMessage(text)]}


def ask_in_thread(state: MessagesState) -> dict[str, Any]:
    """Call from a node without `async`."""
    return {"messages": [AIMessage(asyncio.run(called(state["messages"][-1].text)))]}


thread = StateGraph(MessagesState).add_node("ask", ask_in_thread).add_edge(START, "ask")

retrying = StateGraph(MessagesState).add_node("ask", ask_in_node, retry_policy=RetryPolicy(initial_interval=0.01))
retrying.add_edge(START, "ask")


def asks(name: str) -> Any:
    return lambda state: {"heard": [f"{name} {interrupt(f'Which {name}?')}"]}


class Heard(MessagesState):
    heard: Annotated[list[str], operator.add]


two_questions = (
    StateGraph(Heard)
    .add_node("city", asks("city"))
    .add_node("day", asks("day"))
    .add_node("say", lambda state: {"messages": [AIMessage(", ".join(sorted(state["heard"])))]})
    .add_edge(START, "city")
    .add_edge(START, "day")
    .add_edge(["city", "day"], "say")
)

catching = StateGraph(MessagesState).add_node("catch", catch).add_edge(START, "catch")


class CallingExecutor(AgentExecutor):
    """Executor that calls the remote agent with each text of its message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        note("executor")
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work()
        await updater.complete(updater.new_agent_message([Part(text=await called(context.get_user_input()))]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: the server cancels the remote task."""


executor = CallingExecutor()


class CallingAtOnceExecutor(CallingExecutor):
    """Executor that makes its calls at the same time."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        texts = context.get_user_input().split(";")
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(call_agent("remote", each.strip())) for each in texts]
        answer = " ".join(call.result().text for call in calls)
        await updater.complete(updater.new_agent_message([Part(text=answer)]))


executor_at_once = CallingAtOnceExecutor()
