"""Executors in a server of the a2a-sdk: a request handler or an app stands for its executor, with its card."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.errors import AgentLoadError
from aion_core.loading.discovery.discover import discover
from aion_core.loading.objects.load import load_object
from tests.support.deployment import at, deployed
from tests.support.isolated import isolated_imports
from tests.support.service import send

EXECUTOR = """
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor


class Shout(AgentExecutor):
    def __init__(self, ending: str) -> None:
        self.ending = ending

    async def execute(self, context, event_queue):
        await event_queue.enqueue_event(new_text_message(context.get_user_input().upper() + self.ending))

    async def cancel(self, context, event_queue):
        pass
"""
CARD = """
from a2a.server.request_handlers import DefaultRequestHandler, LegacyRequestHandler
from a2a.server.routes import (
    add_a2a_routes_to_fastapi, create_agent_card_routes, create_jsonrpc_routes, create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentSkill
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount


def card(name="Shouter"):
    skill = AgentSkill(id="shout", name="Shout", description="Shouts.", tags=["text"])
    return AgentCard(
        name=name, description="Shouts what you say.", version="3.0.0", capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"], default_output_modes=["text/plain"], skills=[skill],
    )


def made(kind=DefaultRequestHandler):
    return kind(agent_executor=Shout("!"), task_store=InMemoryTaskStore(), agent_card=card())


def with_routes(handler):
    app = FastAPI()
    add_a2a_routes_to_fastapi(
        app,
        agent_card_routes=create_agent_card_routes(card()),
        jsonrpc_routes=create_jsonrpc_routes(handler, "/"),
        rest_routes=create_rest_routes(handler),
    )
    return app
"""
HANDLER = 'DefaultRequestHandler(agent_executor=Shout("!"), task_store=InMemoryTaskStore(), agent_card=card())'
SERVERS = {
    "handler": f"handler = {HANDLER}",
    "handler of the first kind": "handler = made(LegacyRequestHandler)",
    "executor with its handler": 'executor = Shout("!")\nhandler = DefaultRequestHandler(executor, None, card())',
    "app with JSON-RPC": "app = Starlette(routes=create_jsonrpc_routes(made(), '/'))",
    "app with HTTP+JSON": "app = Starlette(routes=create_rest_routes(made()))",
    "app of FastAPI": "app = with_routes(made())",
    "app within an app": "app = Starlette(routes=[Mount('/a', Starlette(routes=create_jsonrpc_routes(made(), '/')))])",
    "handler and app": f"handler = {HANDLER}\napp = Starlette(routes=create_jsonrpc_routes(handler, '/'))",
}


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path) -> Iterator[None]:
    with isolated_imports(tmp_path):
        yield


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
async def test_executor_of_server_is_served_with_its_card(tmp_path: Path, server: str) -> None:
    (tmp_path / "agent_executor.py").write_text(EXECUTOR + CARD + server)
    app = deployed(tmp_path, "aion: {agents: {shout: {path: agent_executor.py}}}")
    async with at(app) as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
        answer = (await client.post("/", json=send("hello"))).json()["result"]
    assert answer["message"]["parts"] == [{"text": "HELLO!"}]
    assert (card["name"], card["description"], card["version"]) == ("Shouter", "Shouts what you say.", "3.0.0")
    assert [skill["id"] for skill in card["skills"]] == ["shout"]


@pytest.mark.parametrize("name", ["handler", "app"])
def test_path_may_name_server(tmp_path: Path, name: str) -> None:
    (tmp_path / "agent_executor.py").write_text(EXECUTOR + CARD + SERVERS["handler and app"])
    found = load_object(f"agent_executor.py:{name}", tmp_path)
    assert type(found.agent).__name__ == "Shout"
    assert found.card is not None
    assert found.card.name == "Shouter"


def test_servers_of_two_executors_are_named_in_error(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(f"{EXECUTOR}{CARD}one = made()\ntwo = made()\n")
    with pytest.raises(AgentLoadError, match=r"two\.py holds several agents: one, two"):
        load_object("two.py", tmp_path)


def test_app_without_executor_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(f"{EXECUTOR}{CARD}app = FastAPI()\nexecutor = Shout('?')\n")
    assert load_object("page.py", tmp_path).agent.ending == "?"
    (tmp_path / "empty.py").write_text("from fastapi import FastAPI\napp = FastAPI()\n")
    with pytest.raises(AgentLoadError, match=r"there is no agent in empty\.py"):
        load_object("empty.py", tmp_path)


@pytest.mark.parametrize("server", ["handler", "app with JSON-RPC"])
@pytest.mark.parametrize("name", ["__main__", "server", "main"])
def test_discovery_finds_server_beside_its_executor(tmp_path: Path, server: str, name: str) -> None:
    """The executor's class needs an argument, so only the server's file has an agent."""
    folder = tmp_path / "shouting"
    folder.mkdir()
    (folder / "agent_executor.py").write_text(EXECUTOR)
    imports = "from agent_executor import Shout\n"
    text = SERVERS[server].replace("made()", HANDLER)
    (folder / f"{name}.py").write_text(f"{imports}{CARD}{text}")
    found = discover(folder)
    assert {agent_id: agent.path for agent_id, agent in found.agents.items()} == {"shouting": f"{name}.py"}
    assert load_object(f"{name}.py", folder).agent.ending == "!"


@pytest.mark.parametrize("name", ["agent_executor", "executor", "server", "main"])
def test_project_with_usual_file_name_is_named_by_its_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "shouting"
    folder.mkdir()
    (folder / f"{name}.py").write_text(EXECUTOR.replace("ending: str", 'ending: str = "!"'))
    assert list(discover(folder).agents) == ["shouting"]
