"""The ASGI app: every agent at its own path, the first at the root too, each with its card."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.auth.guard import Guard
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, Clock, Limits, Metrics, RateLimits, Traces, Uncounted, Untraced
from aion_core.protocol.types import AgentCard
from aion_core.push.configs import PushRegistry
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.service import TaskService
from aion_core.tasks.time_up import TimeUp
from aion_core.web.auth import Authentication
from aion_core.web.calls import TIME_UP, WORK, CallContextBuilder
from aion_core.web.cards import card_routes, extended_card_route, server_routes
from aion_core.web.context_methods import context_methods
from aion_core.web.correlation import Observed
from aion_core.web.errors import rest_error, rpc_error, v03_rest_error
from aion_core.web.extended_card import ExtendedCard, unsigned
from aion_core.web.http_binding import refuse_path
from aion_core.web.loopback import LoopbackOnly
from aion_core.web.rate_limits import RateLimited
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.rest import RestV1
from aion_core.web.rest_v03 import RestV03
from aion_core.web.rpc import Dispatcher
from aion_core.web.stream_limits import StreamLimits

logger = logging.getLogger(__name__)

_V03 = re.compile(r"(/agents/[^/]+)?/v1/")
"""Where v0.3's REST binding is."""

STREAMED = "aion.streamed"
"""What the scope of a request holds whose answer leaves as it is written, on Lambda."""


LAST_WORDS_SECONDS = 0.5
"""How long a request that is stopped waits for the turns that it stops."""


@dataclass(frozen=True, slots=True)
class Served:
    """An agent and how it is described."""

    agent: Agent
    card: AgentCard
    extended_card: AgentCard | None = None
    sign: Callable[[AgentCard], AgentCard] = unsigned
    """Signs what is shown of the extended card: not all of it to everybody."""


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
    keys: Sequence[Mapping[str, str]] = (),
    registry: PushRegistry | None = None,
    guards: Mapping[str, Guard] | None = None,
    loopback_only: bool = False,
    counted: Counted | None = None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    metrics: Metrics | None = None,
    traces: Traces | None = None,
) -> FastAPI:
    """Return the app; the agent whose id is `default` also answers at the root, the first where none is named.

    `keys` are those that sign the cards. Without a `registry` no agent sends push notifications, whatever its card says.
    `guards` admit callers to each of the agents: without them, anybody calls, or, with `loopback_only`, whoever is on
    this machine. Without `counted`, each may ask for as much as they like. `beside` runs for as long as the app is served.
    `metrics` and `traces` are let go of when a request's call returns.
    """
    at_root = default or next(iter(agents))
    since = datetime.now(UTC)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = [asyncio.create_task(_warm([served.agent for served in agents.values()]))]
        if beside is not None:
            running.append(asyncio.create_task(beside()))
        yield
        for task in running:
            task.cancel()

    app = FastAPI(
        openapi_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        # Its spans hold the query as it was sent, its records an exception's own words (R97).
        telemetry={"tracing": False, "logs": False},
    )
    app.add_exception_handler(HTTPException, refuse_path)
    own_methods = context_methods(conversations)
    routes = app.router.routes
    # What a client reads before it can know how to say who it is (spec 8.2); all else asks.
    readable = [
        *server_routes(agents, name=agents[at_root].card.name, keys=keys, since=since),
        *card_routes("", agents[at_root].card, since=since),
        *(route for id_ in agents for route in card_routes(f"/agents/{id_}", agents[id_].card, since=since)),
    ]
    routes.extend(readable)
    streams = (
        StreamLimits(counted.counts, counted.limits, counted.clock) if counted and counted.limits.of_streams else None
    )
    rpc_paths: set[str] = set()
    # The root last: a tenant's paths there fit whatever begins with one segment more.
    for agent_id, prefix in [*((agent_id, f"/agents/{agent_id}") for agent_id in agents), (at_root, "")]:
        served = agents[agent_id]
        extended = ExtendedCard(served.extended_card, served.sign) if served.extended_card else None
        handler = AionRequestHandler(
            service, lister, served.card, extended_card=extended, registry=registry, streams=streams
        )
        routes.append(extended_card_route(prefix, handler, CallContextBuilder(agent_id, served.card).build))
        rpc = Dispatcher(handler, agent_id, served.card, own_methods).routes(prefix)
        rpc_paths |= {route.path for route in rpc}
        routes.extend(rpc)
        # Before v1.0's, where `v1` would be a tenant.
        routes.extend(RestV03(handler, agent_id, served.card).routes(prefix))
        routes.extend(RestV1(handler, agent_id, served.card).routes(prefix))
    app.add_middleware(RestsBeforeItReturns)
    public = [route.path for route in readable]
    if counted and counted.limits.requests_per_minute is not None:

        def refuse(path: str, error: Exception) -> Response:
            if path in rpc_paths:
                return rpc_error(None, error)
            return v03_rest_error(error) if _V03.match(path) else rest_error(error)

        most = counted.limits.requests_per_minute
        app.add_middleware(RateLimited, counts=counted.counts, per_minute=most, public=public, refuse=refuse)
    if guards is not None:
        app.add_middleware(Authentication, guards=guards, at_root=at_root, public=public)
    if loopback_only:
        app.add_middleware(LoopbackOnly)
    app.add_middleware(Observed, metrics=metrics or Uncounted(), traces=traces or Untraced())
    return app


class RestsBeforeItReturns:
    """Lets a request's app call return only when the turns that it set going have come to rest.

    The answer is long gone by then. On Lambda the environment freezes when the next event is asked for, which our
    runtime loop does once the call has returned; elsewhere nobody waits for the call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, then rest."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        work: set[asyncio.Task[None]] = set()
        time_up = TimeUp(_deadline(scope))

        async def send_and_rest(message: Message) -> None:
            if not message.get("more_body") and message["type"] == "http.response.body":
                # Behind this front the answer leaves only when the call returns: what still runs is handed on.
                time_up.now.set()
                await _rest(work)
            await send(message)

        try:
            await self._app(
                {**scope, WORK: work, TIME_UP: time_up}, receive, send_and_rest if _is_buffered(scope) else send
            )
            await _rest(work)
        except BaseException:
            # The invocation's time is up: nothing of it may go on in the next one. The lease finds the turn an heir.
            for task in work:
                task.cancel()
            if work:
                # They still count what there was of them.
                await asyncio.wait(set(work), timeout=LAST_WORDS_SECONDS)
            raise


async def _rest(work: set[asyncio.Task[None]]) -> None:
    while work:
        await asyncio.wait(set(work))


def _deadline(scope: Scope) -> datetime | None:
    """Return when Lambda ends the invocation; None where this is not Lambda."""
    context = scope.get("aws.context")
    if context is None:
        return None
    return datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())


def _is_buffered(scope: Scope) -> bool:
    """Tell whether the answer leaves as a whole: Lambda's, and not by our own loop."""
    return "aws.context" in scope and STREAMED not in scope


async def _warm(agents: list[Agent]) -> None:
    """Load the agents' code once the card can be served, so that the first message does not wait for it."""
    for agent in agents:
        try:
            await asyncio.to_thread(agent.load)
        except ConfigurationError as error:
            logger.error("%s Its turns will fail until that is mended.", error)
        except Exception:
            logger.exception("An agent cannot be loaded; its turns will fail until its code is mended.")
