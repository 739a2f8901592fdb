"""ASGI app of the agents: each at a path of its own, and the default agent also at the root."""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from functools import partial

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aion_core.engine.agent_profile import UNKNOWN
from aion_core.web.additions import AppAdditions
from aion_core.web.app_parts import Access, CallerLimits, Instruments, ServedAgent, SharedServices
from aion_core.web.cards.extended import ExtendedCardPublisher
from aion_core.web.cards.publication import CardPublisher
from aion_core.web.console import ConsoleMiddleware
from aion_core.web.errors import rpc_error
from aion_core.web.lifespan import Lifecycle, lifespan_of
from aion_core.web.markdown.route import markdown_routes
from aion_core.web.middleware.authentication import AuthenticationMiddleware
from aion_core.web.middleware.background_turns import AwaitBackgroundTurnsMiddleware
from aion_core.web.middleware.compression import LargeResponseMiddleware
from aion_core.web.middleware.cors import CorsByPathMiddleware
from aion_core.web.middleware.loopback import LoopbackOnlyMiddleware
from aion_core.web.middleware.nosniff import NoSniffMiddleware
from aion_core.web.middleware.observability import ObservabilityMiddleware
from aion_core.web.middleware.paths import PathMiddleware, route_path
from aion_core.web.middleware.rate_limit import RateLimitMiddleware
from aion_core.web.operations import OPERATIONS
from aion_core.web.operations.operation import Operation
from aion_core.web.operations.services import AgentServices
from aion_core.web.public_routes import card_routes, server_routes
from aion_core.web.request.call_context import CallContextBuilder
from aion_core.web.rest.extended_card import extended_card_route
from aion_core.web.rest.refusals import answer_failure, http_refusal, refuse_path
from aion_core.web.rest.v03 import RestV03
from aion_core.web.rest.v1 import RestV1
from aion_core.web.rpc import ROUTE_NAME, JsonRpcBinding
from aion_core.web.stream_limits import StreamLimits


def build_app(
    services: SharedServices,
    agents: Mapping[str, ServedAgent],
    *,
    default: str = "",
    access: Access | None = None,
    lifecycle: Lifecycle | None = None,
    instruments: Instruments | None = None,
    console: bool = False,
    additions: AppAdditions | None = None,
) -> FastAPI:
    """Return the ASGI app of the agents, which are keyed by id.

    The `default` agent, or else the first agent, is also served at the root. With `console`, browsers get a page there.
    """
    at_root, limits = default or next(iter(agents)), services.limits
    access, instruments, additions = access or Access(), instruments or Instruments(), additions or AppAdditions()
    operations = (*OPERATIONS, *additions.operations)
    lifecycle = lifecycle or Lifecycle()
    app = _new_app(lifecycle)
    app.state.agents = {agent_id: served.agent for agent_id, served in agents.items()}
    app.add_exception_handler(HTTPException, refuse_path)
    app.add_exception_handler(Exception, answer_failure)
    # Add public routes without credentials: clients read the card before they can authenticate (A2A 8.2).
    public_routes = _public_routes(agents, at_root, services.cards)
    app.router.routes.extend(public_routes)
    if services.callback_route is not None:
        app.router.routes.append(services.callback_route)
    callbacks = [services.callback_route.path] if services.callback_route is not None else []
    # Add the routes at the root last, because their `{tenant}` parameter matches the first segment of any path.
    for agent_id, prefix in _places(agents, at_root):
        served = agents[agent_id]
        if prefix:
            build_context = CallContextBuilder(agent_id, served.cards.public).build
            app.router.routes.extend(additions.agent_routes(prefix, served.agent, build_context))
        _add_routes(app, _services_of(served, services, prefix), agent_id, prefix, operations)
    if console:
        app.router.routes[:0] = markdown_routes([prefix for _, prefix in _places(agents, at_root) if prefix])
    # Add the outermost middleware last, because the middleware added last runs first.
    public = [route.path for route in public_routes]
    app.add_middleware(PathMiddleware)
    app.add_middleware(LargeResponseMiddleware)
    app.add_middleware(AwaitBackgroundTurnsMiddleware, leftover=lifecycle.leftover)
    if limits:
        _limit_requests(app, limits, [*public, *callbacks])
    if access.authenticators is not None:
        app.add_middleware(
            AuthenticationMiddleware,
            authenticators=access.authenticators,
            at_root=at_root,
            public=public,
            with_tokens=callbacks,
        )
    app.add_middleware(CorsByPathMiddleware, policies=access.cors, agent_ids=agents, at_root=at_root, public=public)
    if console:
        features, further = additions.console_features, additions.console_files
        app.add_middleware(ConsoleMiddleware, features=features, further=further, agent_id=at_root)
    for added in additions.middleware:
        app.add_middleware(added.cls, *added.args, **added.kwargs)
    if access.loopback_only:
        app.add_middleware(LoopbackOnlyMiddleware)
    app.add_middleware(NoSniffMiddleware)
    app.add_middleware(
        ObservabilityMiddleware, metrics=instruments.metrics, traces=instruments.traces, flush=instruments.flush
    )
    return app


def _new_app(lifecycle: Lifecycle) -> FastAPI:
    return FastAPI(
        openapi_url=None,
        lifespan=lifespan_of(lifecycle),
        redirect_slashes=False,
        # Turn off FastAPI's spans and log records, because they contain the query and the texts of exceptions, which
        # may be confidential.
        telemetry={"tracing": False, "logs": False},
    )


def _places(agent_ids: Iterable[str], at_root: str) -> list[tuple[str, str]]:
    """Return each agent's id with its path prefix, and at last the agent at the root."""
    return [*((agent_id, f"/agents/{agent_id}") for agent_id in agent_ids), (at_root, "")]


def _services_of(served: ServedAgent, shared: SharedServices, prefix: str) -> AgentServices:
    """Return the services of one agent at a path: those that all agents share, with the agent's cards."""
    cards, limits = served.cards, shared.limits
    return AgentServices(
        shared.tasks,
        shared.lister,
        shared.conversations,
        cards,
        ExtendedCardPublisher(cards, shared.cards, prefix) if cards.extended_of(UNKNOWN) else None,
        shared.push,
        StreamLimits(limits.counters, limits.limits, limits.clock) if limits and limits.limits.of_streams else None,
        served.reads_aion_extensions,
        served.no_push,
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


def _public_routes(agents: Mapping[str, ServedAgent], at_root: str, publisher: CardPublisher) -> list[Route]:
    """Return the routes without authentication: public cards, manifest, signing keys and health check."""
    since = datetime.now(UTC)
    routes = server_routes(agents, agents[at_root].cards, keys=publisher.keys, since=since)
    for agent_id, prefix in _places(agents, at_root):
        routes += card_routes(prefix, agents[agent_id].cards, publisher, since=since)
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


def _refusal(rpc_paths: Set[str], request: Request, error: Exception) -> Response:
    """Return the error response for a refused request, in the format of the path's protocol binding."""
    is_rpc = route_path(request.scope) in rpc_paths
    return rpc_error(None, error) if is_rpc else http_refusal(request, error)
