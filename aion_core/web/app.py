"""The ASGI app: every agent at its own path, the first at the root too, each with its card."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher  # noqa: F401  # before `rpc`: see there
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.errors import ConfigurationError
from aion_core.ports import Agent
from aion_core.protocol.media_types import modes_of
from aion_core.protocol.types import AgentCard
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.service import TaskService
from aion_core.tasks.time_up import TimeUp
from aion_core.web.request_handler import AionRequestHandler
from aion_core.web.rpc import TIME_UP, WORK, Dispatcher

logger = logging.getLogger(__name__)

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""The card's place since 0.3, and the older one (D3)."""
CARD_MAX_AGE = 300

STREAMED = "aion.streamed"
"""What the scope of a request holds whose answer leaves as it is written, on Lambda."""


@dataclass(frozen=True, slots=True)
class Served:
    """An agent and how it is described."""

    agent: Agent
    card: AgentCard


def build_app(service: TaskService, lister: TaskLister, agents: Mapping[str, Served]) -> FastAPI:
    """Return the app; the first of the agents also answers at the root."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(_warm([served.agent for served in agents.values()]))
        yield
        warming.cancel()

    app = FastAPI(openapi_url=None, lifespan=lifespan)
    for position, (agent_id, served) in enumerate(agents.items()):
        handler = AionRequestHandler(
            service, lister, streaming=served.card.capabilities.streaming, modes=modes_of(served.card)
        )
        dispatcher = Dispatcher(handler, agent_id)

        async def rpc(request: Request, dispatcher: Dispatcher = dispatcher) -> Response:
            return await dispatcher.handle_requests(request)

        for prefix in (f"/agents/{agent_id}", *([""] if position == 0 else [])):
            for path in {prefix or "/", f"{prefix}/"}:
                app.add_route(path, rpc, methods=["POST"])
            for card_path in CARD_PATHS:
                app.router.routes.extend(
                    create_agent_card_routes(
                        served.card, card_url=f"{prefix}{card_path}", cache_control=f"public, max-age={CARD_MAX_AGE}"
                    )
                )
    app.add_middleware(RestsBeforeItReturns)
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
