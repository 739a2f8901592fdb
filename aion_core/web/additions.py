"""Parts that a server adds to the app of the agents: routes, middleware and views of the console."""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import Any

from a2a.server.context import ServerCallContext
from msgspec import Struct
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import BaseRoute

from aion_core.engine.agent import Agent
from aion_core.web.operations.operation import Operation

BuildContext = Callable[[Request], ServerCallContext]
"""Function from a request to the context of its call, with the authenticated caller."""

AgentRoutes = Callable[[str, Agent, BuildContext], Sequence[BaseRoute]]
"""Function from an agent's path prefix, the agent and its `BuildContext` to further routes below this prefix."""


def no_routes(prefix: str, agent: Agent, build: BuildContext) -> Sequence[BaseRoute]:
    """Return no routes: by default an agent has those of the A2A operations only."""
    return ()


class AppAdditions(Struct, frozen=True):
    """Parts of the app beyond A2A. By default there are none."""

    agent_routes: AgentRoutes = no_routes
    """Further routes of each agent. They require the same credentials as the agent's operations."""
    operations: Sequence[Operation] = ()
    """Further entries of the operations table."""
    middleware: Sequence[Middleware] = ()
    """Middleware that runs before CORS and authentication. The last one runs first."""
    console_features: Mapping[str, Any] = {}
    """Values for the console's page (`features.json`). The page shows the views for which there are features."""
    console_files: Sequence[Traversable] = ()
    """Further static files of the console's page, such as the scripts of these views."""
