"""App of `aion console` on this machine: the page, the receiver of webhooks, and the requests to the server."""

import re
from importlib.resources import files
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.agent_client.limits import OF_COMMANDS
from aion_core.agent_client.origin import origin_of
from aion_core.web.console import ConsoleMiddleware
from aion_core.web.markdown.route import markdown_routes
from aion_core.web.middleware.nosniff import NoSniffMiddleware
from aion_tools.dev.console import RECEIVER_PATH
from aion_tools.dev.console.receiver import STATUSES, ReceiverMiddleware, WebhookReceiver
from aion_tools.inspector.own_origin import OwnOriginMiddleware
from aion_tools.inspector.remote import CardUnusable, RemoteAgent


def build_inspector(remote: RemoteAgent, port: int) -> Starlette:
    """Return the app that serves the console for the server on a port of this machine.

    The receiver of webhooks is for servers on this machine: others cannot reach it.
    """
    origin = origin_of(remote.url)
    is_here = origin is not None and origin[1] == "localhost"
    receiver = WebhookReceiver(f"http://127.0.0.1:{port}{RECEIVER_PATH}" if is_here else "")
    agent_id = _id_of(remote.url)
    requests = _Requests(remote, receiver)
    prefix = f"/agents/{agent_id}"
    manifest = {"endpoints": {agent_id: prefix}}
    features = {"development": False, "receiver": receiver.url, "remote": remote.url}
    further = [*files("aion_tools.dev.console").joinpath("static").iterdir()] if is_here else []
    return Starlette(
        routes=[
            Route("/.well-known/manifest.json", lambda _: JSONResponse(manifest)),
            Route(f"{prefix}/.well-known/agent-card.json", requests.card),
            *markdown_routes([prefix]),
            Route(f"{prefix}/console/webhooks", requests.webhooks),
            Route(f"{prefix}/console/receiver", requests.set_receiver, methods=["POST"]),
            Route(prefix, requests.call, methods=["POST"]),
        ],
        middleware=[
            Middleware(NoSniffMiddleware),
            Middleware(OwnOriginMiddleware, port=port),
            Middleware(ReceiverMiddleware, receiver=receiver),
            Middleware(ConsoleMiddleware, features=features, further=further, agent_id=agent_id),
        ],
    )


class _Requests:
    """Requests of the page about the one agent."""

    def __init__(self, remote: RemoteAgent, receiver: WebhookReceiver) -> None:
        self._remote, self._receiver = remote, receiver

    async def card(self, request: Request) -> Response:
        """Return the server's card, or the reason why there is none."""
        try:
            return JSONResponse(await self._remote.card(), headers={"cache-control": "no-store"})
        except CardUnusable as error:
            failure = {"message": str(error), "received": error.received}
        except httpx.HTTPError as error:
            failure = {"message": f"The server at {self._remote.url} doesn't answer: {error or type(error).__name__}"}
        return JSONResponse({"error": failure}, 502)

    async def call(self, request: Request) -> Response:
        """Pass a JSON-RPC request on."""
        # Another page would need a preflight for this media type, which is not answered.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return Response(status_code=415)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > OF_COMMANDS.answer:
                return Response(status_code=413)
        return await self._remote.answer(body, request.headers)

    async def webhooks(self, request: Request) -> Response:
        """Return the task's posts that the receiver has got. Only the server knows its webhooks, and their secrets."""
        posts = self._receiver.posts_of(request.query_params.get("taskId", ""))
        shown = [{**post.document([]), "signed": None} for post in posts]
        return JSONResponse({"webhooks": None, "posts": shown}, headers={"cache-control": "no-store"})

    async def set_receiver(self, request: Request) -> Response:
        """Set the status code for the receiver's next responses."""
        status: Any = (await request.json()).get("status")
        if status not in STATUSES:
            return JSONResponse(
                {"error": {"message": f"status has to be one of {', '.join(map(str, STATUSES))}."}}, 400
            )
        self._receiver.status = status
        return JSONResponse({})


def _id_of(url: str) -> str:
    """Return the id of the agent in the page's address: the server's host and port."""
    return re.sub(r"[^\w.-]+", "-", httpx.URL(url).netloc.decode()).strip("-") or "agent"
