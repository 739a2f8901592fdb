"""A2A servers that are not ours: the official SDK's in each version and binding, ADK's `to_a2a`, and odd cards."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.agents.remote import RemoteExecutor
from tests.support.listening import free_port, listening

SKILL = AgentSkill(id="say", name="Say", description="Says it.", tags=["words"], examples=["say hello"])


async def anywhere(url: str) -> bool:
    return True


@contextmanager
def sdk_server(
    version: str = "1.0",
    binding: str = "JSONRPC",
    *,
    streaming: bool = True,
    heard: list[Mapping[str, str]] | None = None,
) -> Iterator[str]:
    """Serve the remote agent by the SDK; yield its URL. `heard` gets the headers of the requests to the agent."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    card = AgentCard(
        name="Stranger",
        description="Repeats what you say, as a stranger would.",
        version="1",
        capabilities=AgentCapabilities(streaming=streaming, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[SKILL],
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version=version)],
    )
    configs = InMemoryPushNotificationConfigStore()
    sender = BasePushNotificationSender(httpx.AsyncClient(), configs, push_url_validator=anywhere)
    handler = DefaultRequestHandler(
        RemoteExecutor(), InMemoryTaskStore(), card, push_config_store=configs, push_sender=sender
    )
    routes = (
        create_rest_routes(handler)
        if binding == "HTTP+JSON"
        else create_jsonrpc_routes(handler, "/", enable_v0_3_compat=version == "0.3")
    )
    app = Starlette(routes=[*create_agent_card_routes(card), *routes])

    async def noted(scope: Any, receive: Any, send: Any) -> None:
        if heard is not None and scope["type"] == "http" and scope["method"] == "POST":
            heard.append(dict(Request(scope).headers))
        await app(scope, receive, send)

    with listening(old_card(noted, url) if version == "0.3" else noted, port=port):
        yield url


def old_card(app: Any, url: str) -> Any:
    """Serve a card as a server of A2A 0.3 wrote it, in place of the app's own."""
    card = {
        "name": "Stranger",
        "description": "Repeats what you say, as a stranger would.",
        "url": url,
        "version": "1",
        "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": True, "pushNotifications": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "say", "name": "Say", "description": "Says it.", "tags": ["words"]}],
    }

    async def served(scope: Any, receive: Any, send: Any) -> None:
        is_card = scope["type"] == "http" and scope["path"].endswith(".json")
        await (JSONResponse(card) if is_card else app)(scope, receive, send)

    return served


@contextmanager
def odd_server(card: Any, status: int = 200) -> Iterator[str]:
    """Serve this card, JSON or bytes, and no agent; yield the URL."""
    content = card if isinstance(card, bytes) else json.dumps(card).encode()

    async def answer(request: Request) -> Response:
        return Response(content, status, media_type="application/json")

    with listening(Starlette(routes=[Route("/.well-known/agent-card.json", answer)])) as url:
        yield url


@contextmanager
def adk_server() -> Iterator[str]:
    """Serve an agent by ADK's `to_a2a`; yield its URL."""
    from google.adk.a2a.utils.agent_to_a2a import to_a2a
    from google.adk.agents import LlmAgent

    from aion.adk.scripted import ScriptedLlm

    port = free_port()
    agent = LlmAgent(name="stranger", description="Answers by ADK.", model=ScriptedLlm(answer="ADK heard: {result}"))
    with listening(to_a2a(agent, host="127.0.0.1", port=port), port=port) as url:
        yield url
