"""Graphs that call LangGraph's own server by the client of the real langgraph_sdk."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client

from aion_core.agents.langgraph.loopback import HOW_TO_DO_WITHOUT, NO_LANGGRAPH_SERVER
from tests.runtime.unit.agents.langgraph.requests import State, ask, one_node, said
from tests.support.rows import each_row
from tests.support.service import http, parts


async def asks_another_agent(state: State) -> State:
    return {"messages": [AIMessage(str(await get_client().runs.wait(None, "other", input={})))]}


async def streams_another_agent(state: State) -> State:
    return {"messages": [AIMessage(str([part async for part in get_client().runs.stream(None, "other", input={})]))]}


async def calls_remote_graph(state: State, config: RunnableConfig) -> Any:
    return await RemoteGraph("other", client=get_client()).ainvoke(state, config)


async def within_subgraph(state: State) -> Any:
    return await one_node(asks_another_agent).compile().ainvoke(state)


async def calls_nothing(state: State) -> State:
    missing: Any = None
    return {"messages": missing("an author's own mistake")}


CALLS = [asks_another_agent, streams_another_agent, calls_remote_graph, within_subgraph]


@each_row("node", CALLS)
@each_row(("reveals", "advice"), [(False, ""), (True, f" {HOW_TO_DO_WITHOUT}")])
async def test_call_of_langgraphs_own_server_is_explained(
    node: Callable[..., Any], reveals: bool, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Explain the failure to the author: in the answer of `aion dev`, and in the log everywhere."""
    graph = StateGraph(MessagesState).add_node("greet", lambda _: {"messages": [AIMessage("One moment.")]})
    graph = graph.add_node("node", node).add_edge(START, "greet").add_edge("greet", "node")
    async with http(parts(graph, reveal_errors=reveals).app()) as client:
        task = await ask(client)
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_FAILED", NO_LANGGRAPH_SERVER + advice)
    (logged,) = [record for record in caplog.records if record.getMessage() == "The agent failed."]
    assert HOW_TO_DO_WITHOUT in logging.Formatter().format(logged)


async def test_other_type_error_is_left_as_it_is() -> None:
    async with http(parts(one_node(calls_nothing), reveal_errors=True).app()) as client:
        task = await ask(client)
    reason = "TypeError: the agent could not finish this turn. 'NoneType' object is not callable"
    assert (task["status"]["state"], said(task)) == ("TASK_STATE_FAILED", reason)
