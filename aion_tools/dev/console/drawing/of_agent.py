"""Drawing of any agent."""

from aion_core.loading.lazy_agent import LazyAgent
from aion_core.table.keys import ContextKey
from aion_tools.dev.console.drawing.drawing import Drawing
from aion_tools.dev.load_errors import loaded_agent


async def drawing_of(agent: LazyAgent, context: ContextKey) -> Drawing | None:
    """Return the agent's parts and edges; None for an AgentExecutor. A factory makes its graph for `context`.

    Raises ConfigurationError if the agent's code cannot be loaded.
    """
    loaded = await loaded_agent(agent)
    # Import only the framework of this agent.
    if agent.framework == "langgraph":
        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_tools.dev.console.drawing.langgraph import drawn_graph

        assert isinstance(loaded, LangGraphAgent)  # noqa: S101  # the framework's adapter
        async with loaded.graph_of(context, "") as (graph, _):
            return drawn_graph(graph)
    if agent.framework == "adk":
        from aion_core.agents.adk.agent import AdkAgent
        from aion_tools.dev.console.drawing.adk import drawn_tree

        assert isinstance(loaded, AdkAgent)  # noqa: S101  # the framework's adapter
        return drawn_tree(loaded.root)
    return None
