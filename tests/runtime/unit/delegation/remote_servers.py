"""Servers of the remote agent on a real socket: this one, and the official SDK's with its store in memory."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from starlette.applications import Starlette

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from aion_tools.testing import ENVIRONMENT
from tests.support.agents.remote import RemoteExecutor
from tests.support.listening import free_port, listening
from tests.support.server import ROOT

AGENTS = ROOT / "tests" / "support" / "agents"


@contextmanager
def served_here(**environ: str) -> Iterator[str]:
    """Serve the remote agent by this server, with these settings; yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environ = {**ENVIRONMENT, "AION_CONFIG": str(AGENTS / "remote.yaml"), "AION_BASE_URL": url, **environ}
    with listening(build_app(Settings.from_environ(environ)), port=port):
        yield url


def sdk_app(url: str, *, streaming: bool = True) -> Starlette:
    """Return the official SDK's server of the remote agent."""
    card = AgentCard(
        name="remote",
        capabilities=AgentCapabilities(streaming=streaming),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    )
    handler = DefaultRequestHandler(RemoteExecutor(), InMemoryTaskStore(), card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])


@contextmanager
def served_by_sdk(*, streaming: bool = True) -> Iterator[str]:
    """Serve the remote agent by the official SDK's server; yield its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with listening(sdk_app(url, streaming=streaming), port=port):
        yield url


SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "this server": served_here,
    "the SDK's server": served_by_sdk,
    "the SDK's server without streams": partial(served_by_sdk, streaming=False),
}
