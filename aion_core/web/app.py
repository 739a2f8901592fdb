"""ASGI app. It serves each agent and its card at the agent's own path, and the default agent also at the root."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fastapi import FastAPI
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from aion_core.auth.authenticator import Authenticator
from aion_core.clock import Clock
from aion_core.engine.agent import Agent
from aion_core.engine.limits.limits import Limits
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.service import TaskService
from aion_core.errors import ConfigurationError
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.telemetry import Metrics, NoopTraces, NullMetrics, Traces
from aion_core.web.additions import AppAdditions
from aion_core.web.cards.extended import ExtendedCardPublisher
from aion_core.web.cards.publication import CardPublisher, InputModes
from aion_core.web.console import ConsoleMiddleware
from aion_core.web.errors import rpc_error
from aion_core.web.middleware.authentication import AuthenticationMiddleware
from aion_core.web.middleware.background_turns import AwaitBackgroundTurnsMiddleware
from aion_core.web.middleware.compression import LargeResponseMiddleware
from aion_core.web.middleware.cors import CorsByPathMiddleware, CorsPolicy
from aion_core.web.middleware.loopback import LoopbackOnlyMiddleware
from aion_core.web.middleware.observability import ObservabilityMiddleware
from aion_core.web.middleware.paths import PathMiddleware
from aion_core.web.middleware.rate_limit import RateLimitMiddleware
from aion_core.web.operations import OPERATIONS
from aion_core.web.operations.operation import Operation
from aion_core.web.operations.services import AgentServices
from aion_core.web.public_routes import card_routes, server_routes
from aion_core.web.request.call_context import CallContextBuilder
from aion_core.web.rest.extended_card import extended_card_route
from aion_core.web.rest.refusals import http_refusal, refuse_path
from aion_core.web.rest.v03 import RestV03
from aion_core.web.rest.v1 import RestV1
from aion_core.web.rpc import ROUTE_NAME, JsonRpcBinding
from aion_core.web.stream_limits import StreamLimits

logger = logging.getLogger(__name__)

BackgroundTask = Callable[[], Coroutine[Any, Any, None]]
"""Coroutine function. The app runs it in the background from its start to its shutdown."""

Startup = Callable[[], Mapping[str, Any] | None]
"""Function of the app's startup. It returns the lifespan state for the server (ASGI lifespan protocol)."""


class ServedAgent(Struct, frozen=True):
    """Agent served by the app, with its public card and its extended card."""

    agent: Agent
    card: AgentCard
    extended_card: AgentCard | None = None
    input_modes: InputModes = tuple


class CallerLimits(Struct, frozen=True):
    """Rate and stream limits for each caller, with the stored counters and the clock."""

    limits: Limits
    counters: RateLimits
    clock: Clock


def build_app(
    service: TaskService,
    lister: TaskLister,
    conversations: Conversations,
    agents: Mapping[str, ServedAgent],
    *,
    default: str = "",
    publisher: CardPublisher | None = None,
    keys: Sequence[Mapping[str, str]] = (),
    registry: PushRegistry | None = None,
    authenticators: Mapping[str, Authenticator] | None = None,
    loopback_only: bool = False,
    cors: Mapping[str, CorsPolicy] | None = None,
    console: bool = False,
    additions: AppAdditions | None = None,
    limits: CallerLimits | None = None,
    background_task: BackgroundTask | None = None,
    startup: Startup | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
    operations: Sequence[Operation] = OPERATIONS,
) -> FastAPI:
    """Return the ASGI app of the agents. The `default` agent, or else the first agent, is also served at the root.

    `publisher` adapts the cards to the base URL of a request. `keys` is the JWK set for the cards' signatures. Without
    a `registry` no agent sends push notifications, even if its card declares them. `authenticators` authenticate the
    callers of each agent. Without authenticators the app admits every caller, or with `loopback_only` every caller on
    this machine. `cors` has the policies of the agents that pages of other origins may call. With `console`, browsers
    get a page at the root. `additions` are routes and middleware beyond A2A. `startup` loads the agents before the
    first request; without `startup` they load in the background. The app flushes `metrics` and `traces` after each
    request.
    """
    at_root, publisher = default or next(iter(agents)), publisher or CardPublisher()
    additions = additions or AppAdditions()
    app = _new_app(background_task, startup)
    app.state.agents = {agent_id: served.agent for agent_id, served in agents.items()}
    app.add_exception_handler(HTTPException, refuse_path)
    # Add public routes without credentials: clients read the card before they can authenticate (A2A 8.2).
    public_routes = _public_routes(agents, at_root, publisher, keys)
    app.router.routes.extend(public_routes)
    counted = limits and limits.limits.of_streams
    streams = StreamLimits(limits.counters, limits.limits, limits.clock) if limits and counted else None
    # Add the routes at the root last, because their `{tenant}` parameter matches the first segment of any path.
    for agent_id, prefix in [*((agent_id, f"/agents/{agent_id}") for agent_id in agents), (at_root, "")]:
        served = agents[agent_id]
        card, modes = served.extended_card, served.input_modes
        extended = ExtendedCardPublisher(card, publisher, modes) if card else None
        services = AgentServices(service, lister, conversations, served.card, extended, registry, streams, modes)
        if prefix:
            build_context = CallContextBuilder(agent_id, served.card).build
            app.router.routes.extend(additions.agent_routes(prefix, served.agent, build_context))
        _add_routes(app, services, agent_id, prefix, operations)
    # Add the outermost middleware last, because the middleware added last runs first.
    public = [route.path for route in public_routes]
    app.add_middleware(PathMiddleware)
    app.add_middleware(LargeResponseMiddleware)
    app.add_middleware(AwaitBackgroundTurnsMiddleware)
    if limits:
        _limit_requests(app, limits, public)
    if authenticators is not None:
        app.add_middleware(AuthenticationMiddleware, authenticators=authenticators, at_root=at_root, public=public)
    app.add_middleware(CorsByPathMiddleware, policies=cors or {}, agent_ids=agents, at_root=at_root, public=public)
    if console:
        app.add_middleware(ConsoleMiddleware, features=additions.console_features, agent_id=at_root)
    for added in additions.middleware:
        app.add_middleware(added.cls, *added.args, **added.kwargs)
    if loopback_only:
        app.add_middleware(LoopbackOnlyMiddleware)
    app.add_middleware(ObservabilityMiddleware, metrics=metrics or NullMetrics(), traces=traces or NoopTraces())
    return app


def _new_app(background_task: BackgroundTask | None, startup: Startup | None) -> FastAPI:
    return FastAPI(
        openapi_url=None,
        lifespan=_lifespan(background_task, startup),
        redirect_slashes=False,
        # Turn off FastAPI's spans and log records, because they contain the query and the texts of exceptions, which
        # may be confidential.
        telemetry={"tracing": False, "logs": False},
    )


def _add_routes(
    app: FastAPI, services: AgentServices, agent_id: str, prefix: str, operations: Iterable[Operation]
) -> None:
    """Add the routes of an agent. v0.3's routes come before v1.0's, because v1.0's tenant routes also match `/v1`."""
    build_context = CallContextBuilder(agent_id, services.card).build
    app.router.routes += [
        extended_card_route(prefix, services, build_context),
        *RestV03(services, agent_id, operations).routes(prefix),
        *RestV1(services, agent_id, operations).routes(prefix),
    ]
    # Insert the JSON-RPC routes first: Starlette takes the first matching route, and most requests are JSON-RPC. No
    # other POST route has the same paths.
    app.router.routes[:0] = JsonRpcBinding(services, agent_id, operations).routes(prefix)


def _lifespan(
    background_task: BackgroundTask | None, startup: Startup | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[Any]]:
    """Return the app's lifespan function. It loads the agents and runs the background task."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Mapping[str, Any] | None]:
        running, state = [], None
        if startup is not None:
            state = await asyncio.to_thread(startup)
        else:
            # Load the agents in the background, so that the first message need not wait for their imports.
            running.append(asyncio.create_task(_load(list(app.state.agents.values()))))
        if background_task is not None:
            running.append(asyncio.create_task(background_task()))
        yield state
        for task in running:
            task.cancel()

    return lifespan


def _public_routes(
    agents: Mapping[str, ServedAgent], at_root: str, publisher: CardPublisher, keys: Sequence[Mapping[str, str]]
) -> list[Route]:
    """Return the routes without authentication: public cards, manifest, signing keys and health check."""
    since = datetime.now(UTC)
    routes = server_routes(agents, name=agents[at_root].card.name, keys=keys, since=since)
    for agent_id, served in agents.items():
        prefixes = [f"/agents/{agent_id}", *([""] if agent_id == at_root else [])]
        routes += card_routes(prefixes, served.card, publisher, since=since, input_modes=served.input_modes)
    return routes


def _limit_requests(app: FastAPI, limits: CallerLimits, public: Sequence[str]) -> None:
    """Add the middleware that limits requests per minute, if a limit is set. Call it after adding all routes."""
    if (per_minute := limits.limits.requests_per_minute) is None:
        return
    rpc_paths = {route.path for route in app.routes if isinstance(route, Route) and route.name == ROUTE_NAME}
    refuse = partial(_refusal, rpc_paths)
    app.add_middleware(
        RateLimitMiddleware, counters=limits.counters, per_minute=per_minute, public=public, refuse=refuse
    )


def _refusal(rpc_paths: Set[str], path: str, error: Exception) -> Response:
    """Return the error response for a refused request, in the format of the path's protocol binding."""
    return rpc_error(None, error) if path in rpc_paths else http_refusal(path, error)


async def _load(agents: list[Agent]) -> None:
    """Load the agents' code in the background, so that the first message need not wait for it."""
    for agent in agents:
        try:
            await asyncio.to_thread(agent.load)
        except ConfigurationError as error:
            logger.error("%s Its turns will fail until this is fixed.", error)
        except Exception:
            logger.exception("An agent cannot be loaded; its turns will fail until its code is fixed.")
