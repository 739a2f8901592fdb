"""The ASGI app: every agent at its own path, the first at the root too, each with its card."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from aion_core.auth.guard import Guard
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, Clock, Limits, Metrics, NoopTraces, NullMetrics, RateLimits, Traces
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.service import TaskService
from aion_core.web.cards import ExtendedCard, Showing, card_routes, server_routes
from aion_core.web.errors import rest_error, rpc_error, v03_rest_error
from aion_core.web.limits import RateLimited, StreamLimits
from aion_core.web.middleware import Authentication, AwaitBackgroundTurnsMiddleware, LoopbackOnly, Observed
from aion_core.web.request_context import CallContextBuilder
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.rest import RestV1, extended_card_route, refuse_path
from aion_core.web.rpc import Dispatcher, context_methods
from aion_core.web.v03 import RestV03

logger = logging.getLogger(__name__)

Beside = Callable[[], Coroutine[Any, Any, None]]
"""What goes on for as long as the app is served, and is told to stop when it is not any more."""

_V03 = re.compile(r"(/agents/[^/]+)?/v1/")
"""Where v0.3's REST binding is."""


@dataclass(frozen=True, slots=True)
class Served:
    """An agent and how it is described."""

    agent: Agent
    card: AgentCard
    extended_card: AgentCard | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What each caller may ask for, and what counts it."""

    limits: Limits
    counts: RateLimits
    clock: Clock


def build_app(
    service: TaskService,
    lister: TaskLister,
    conversations: Conversations,
    agents: Mapping[str, Served],
    *,
    default: str = "",
    showing: Showing | None = None,
    keys: Sequence[Mapping[str, str]] = (),
    registry: PushRegistry | None = None,
    guards: Mapping[str, Guard] | None = None,
    loopback_only: bool = False,
    counted: Counted | None = None,
    beside: Beside | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
) -> FastAPI:
    """Return the app; the agent whose id is `default` also answers at the root, the first where none is named.

    `showing` shows the cards; without it they are shown as they are. `keys` are those that sign them. Without a `registry`
    no agent sends push notifications, whatever its card says. `guards` admit callers to each of the agents: without them,
    anybody calls, or, with `loopback_only`, whoever is on this machine. Without `counted`, each may ask for as much as they
    like. `beside` runs for as long as the app is served. `metrics` and `traces` are let go of when a request's call returns.
    """
    at_root, showing = default or next(iter(agents)), showing or Showing()
    app = FastAPI(
        openapi_url=None,
        lifespan=_lifespan(beside),
        redirect_slashes=False,
        # Its spans hold the query as it was sent, its records an exception's own words (R97).
        telemetry={"tracing": False, "logs": False},
    )
    app.state.agents = {agent_id: served.agent for agent_id, served in agents.items()}
    app.add_exception_handler(HTTPException, refuse_path)
    # What a client reads before it can know how to say who it is (spec 8.2); all else asks.
    readable = _readable(agents, at_root, showing, keys)
    app.router.routes.extend(readable)
    streams = (
        StreamLimits(counted.counts, counted.limits, counted.clock) if counted and counted.limits.of_streams else None
    )
    own_methods, rpc_paths = context_methods(conversations), set[str]()
    # The root last: a tenant's paths there fit whatever begins with one segment more.
    for agent_id, prefix in [*((agent_id, f"/agents/{agent_id}") for agent_id in agents), (at_root, "")]:
        served = agents[agent_id]
        extended = ExtendedCard(served.extended_card, showing) if served.extended_card else None
        handler = AionRequestHandler(
            service, lister, served.card, extended_card=extended, registry=registry, streams=streams
        )
        rpc = Dispatcher(handler, agent_id, served.card, own_methods).routes(prefix)
        rpc_paths |= {route.path for route in rpc}
        app.router.routes.extend(
            [
                extended_card_route(prefix, handler, CallContextBuilder(agent_id, served.card).build),
                *rpc,
                # Before v1.0's, where `v1` would be a tenant.
                *RestV03(handler, agent_id, served.card).routes(prefix),
                *RestV1(handler, agent_id, served.card).routes(prefix),
            ]
        )
    # The last that is added hears a request first.
    public = [route.path for route in readable]
    app.add_middleware(AwaitBackgroundTurnsMiddleware)
    if counted and (most := counted.limits.requests_per_minute) is not None:
        refuse = partial(_refusal, rpc_paths)
        app.add_middleware(RateLimited, counts=counted.counts, per_minute=most, public=public, refuse=refuse)
    if guards is not None:
        app.add_middleware(Authentication, guards=guards, at_root=at_root, public=public)
    if loopback_only:
        app.add_middleware(LoopbackOnly)
    app.add_middleware(Observed, metrics=metrics or NullMetrics(), traces=traces or NoopTraces())
    return app


def _lifespan(beside: Beside | None) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return what runs for as long as the app is served: the agents are loaded, and what goes on beside it goes on."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # A server that has loaded them itself, before it answers, leaves none here.
        running = [asyncio.create_task(_warm(list(app.state.agents.values())))]
        if beside is not None:
            running.append(asyncio.create_task(beside()))
        yield
        for task in running:
            task.cancel()

    return lifespan


def _readable(
    agents: Mapping[str, Served], at_root: str, showing: Showing, keys: Sequence[Mapping[str, str]]
) -> list[Route]:
    """Return the routes that ask nobody who they are: what the server says of itself, and the public cards."""
    since = datetime.now(UTC)
    routes = server_routes(agents, name=agents[at_root].card.name, keys=keys, since=since)
    for agent_id, served in agents.items():
        prefixes = [f"/agents/{agent_id}", *([""] if agent_id == at_root else [])]
        routes += card_routes(prefixes, served.card, showing, since=since)
    return routes


def _refusal(rpc_paths: Set[str], path: str, error: Exception) -> Response:
    """Return the error as the binding at this path says it."""
    if path in rpc_paths:
        return rpc_error(None, error)
    return v03_rest_error(error) if _V03.match(path) else rest_error(error)


async def _warm(agents: list[Agent]) -> None:
    """Load the agents' code once the card can be served, so that the first message does not wait for it."""
    for agent in agents:
        try:
            await asyncio.to_thread(agent.load)
        except ConfigurationError as error:
            logger.error("%s Its turns will fail until that is mended.", error)
        except Exception:
            logger.exception("An agent cannot be loaded; its turns will fail until its code is mended.")
