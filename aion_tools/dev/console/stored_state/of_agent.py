"""Stored state of a context, read and copied in the way of the agent's framework."""

from collections.abc import Mapping
from typing import Any

from aion_core.errors import InvalidMessage
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.table.keys import ContextKey
from aion_tools.dev.console.stored_state.state import Fork, StoredState
from aion_tools.dev.load_errors import loaded_agent


async def stored_state(agent: LazyAgent, context: ContextKey, *, limit: int) -> StoredState | None:
    """Return the context's stored state with at most `limit` entries; None if the framework stores none.

    Raises ConfigurationError if the agent's code cannot be loaded, and StoreError.
    """
    loaded = await loaded_agent(agent)
    # Import only the framework of this agent.
    if agent.framework == "langgraph":
        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_tools.dev.console.stored_state.langgraph import stored_thread

        assert isinstance(loaded, LangGraphAgent)  # noqa: S101  # the framework's adapter
        async with loaded.graph_of(context, "") as (graph, setup):
            return await stored_thread(graph, setup, context, limit=limit)
    if agent.framework == "adk":
        from aion_core.agents.adk.agent import AdkAgent
        from aion_tools.dev.console.stored_state.adk import stored_session

        assert isinstance(loaded, AdkAgent)  # noqa: S101  # the framework's adapter
        return await stored_session(loaded.sessions(None), context, limit=limit)
    return None


async def forked(
    agent: LazyAgent, source: ContextKey, target: ContextKey, entry_id: str, values: Mapping[str, Any], message_id: str
) -> Fork:
    """Let the context `target` begin at an entry of the stored state of `source`, with these values of a graph's state.

    The message `message_id` is to run the agent from there. Raises InvalidMessage for an unknown entry, for values that
    do not fit, and for an agent without stored state; ConfigurationError if its code cannot be loaded; StoreError.
    """
    loaded = await loaded_agent(agent)
    if agent.framework == "langgraph":
        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_tools.dev.console.stored_state.forked_thread import forked_thread

        assert isinstance(loaded, LangGraphAgent)  # noqa: S101  # the framework's adapter
        async with loaded.graph_of(target, "") as (graph, setup):
            return await forked_thread(graph, setup, source, target, entry_id, values, message_id)
    if agent.framework == "adk":
        from aion_core.agents.adk.agent import AdkAgent
        from aion_tools.dev.console.stored_state.forked_session import forked_session

        assert isinstance(loaded, AdkAgent)  # noqa: S101  # the framework's adapter
        return await forked_session(loaded.sessions(None), source, target, entry_id)
    raise InvalidMessage("An AgentExecutor has no stored state to run from.")
