"""Answers of agents whose code cannot be loaded. They have the error, until the next edit corrects the code."""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from aion_core.engine.agent import Agent, Emission, Paused, TurnRequest
from aion_core.engine.agent_profile import AgentProfile
from aion_core.errors import ConfigurationError
from aion_core.loading.lazy_agent import LazyAgent

_CARDS = ("/.well-known/agent-card.json", "/.well-known/agent.json")

INTERNAL_ERROR = -32603


class FailedAgent:
    """Agent in place of one that cannot be loaded. It refuses messages; the turns of earlier ones wait for the next worker."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def load(self) -> None:
        """Do nothing: only a new process reads edited code."""

    def profile(self) -> AgentProfile:
        """Return a profile that refuses each message with the reason."""
        return AgentProfile(refusal=lambda message, continues: self.reason)

    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Wait until this worker stops, then pause the turn, which is not counted as a try."""
        await request.drain.wait()
        yield Paused()


async def loaded_agent(agent: LazyAgent) -> Agent:
    """Return the adapter of the agent's framework. Raises ConfigurationError if the agent's code cannot be loaded."""
    loaded = await agent.loaded()
    if isinstance(loaded, FailedAgent):
        raise ConfigurationError(loaded.reason)
    return loaded


class LoadErrors:
    """ASGI app that answers with the reasons in place of the failed agents' cards and of the health check.

    Without an app, as for an invalid aion.yaml, it answers every request so.
    """

    def __init__(self, app: ASGIApp | None, failures: Mapping[str, str], at_root: str = "") -> None:
        """`failures` has the reasons by agent id; `at_root` is the id of the agent at the root."""
        self._app, self._failures, self._at_root = app, failures, at_root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with a reason, or pass it to the app."""
        if scope["type"] == "http" and (reason := self._reason(scope["path"])):
            response = await _response(Request(scope, receive), reason)
            await response(scope, receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)

    def _reason(self, path: str) -> str:
        if self._app is None or path.rstrip("/") == "/health":
            return "\n\n".join(self._failures.values())
        if not path.endswith(_CARDS):
            return ""
        _, agents, agent_id, *_ = [*path.split("/"), "", ""]
        return self._failures.get(agent_id if agents == "agents" else self._at_root, "")


async def _response(request: Request, reason: str) -> Response:
    """Return the reason as a JSON-RPC error, for a browser as text, or else as JSON."""
    if request.method == "POST":
        call = _json(await request.body())
        if isinstance(call, dict) and "jsonrpc" in call:
            error = {"code": INTERNAL_ERROR, "message": reason}
            return JSONResponse({"jsonrpc": "2.0", "id": call.get("id"), "error": error})
    if "text/html" in request.headers.get("accept", ""):
        return PlainTextResponse(reason, 503, {"refresh": "2"})  # the browser asks again after two seconds
    return JSONResponse({"error": {"code": 503, "status": "UNAVAILABLE", "message": reason}}, 503)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
