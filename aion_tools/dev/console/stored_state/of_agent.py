"""Stored state of a context, read in the way of the agent's framework."""

from aion_core.errors import ConfigurationError
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.table.keys import ContextKey
from aion_tools.dev.console.stored_state.state import StoredState
from aion_tools.dev.load_errors import FailedAgent


async def stored_state(agent: LazyAgent, context: ContextKey, *, limit: int) -> StoredState | None:
    """Return the context's stored state with at most `limit` entries; None if the framework stores none.

    Raises ConfigurationError if the agent's code cannot be loaded, and StoreError.
    """
    loaded = await agent.loaded()
    if isinstance(loaded, FailedAgent):
        raise ConfigurationError(loaded.reason)
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
