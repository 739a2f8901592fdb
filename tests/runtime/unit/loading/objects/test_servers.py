"""Executors in a server of the a2a-sdk: a request handler or an app stands for its executor, with its card."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.errors import AgentLoadError
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
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentSkill
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

"""
HANDLER = 'DefaultRequestHandler(agent_executor=Shout("!"), task_store=InMemoryTaskStore(), agent_card=card())'
SERVERS = {
    "handler": f"handler = {HANDLER}",
    "executor with its handler": 'executor = Shout("!")\nhandler = DefaultRequestHandler(executor, None, card())',
    "app with HTTP+JSON": "app = Starlette(routes=create_rest_routes(made()))",
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


def test_servers_of_two_executors_are_named_in_error(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(f"{EXECUTOR}{CARD}one = made()\ntwo = made()\n")
    with pytest.raises(AgentLoadError, match=r"two\.py holds several agents: one, two"):
        load_object("two.py", tmp_path)


def test_app_without_executor_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(f"{EXECUTOR}{CARD}app = Starlette()\nexecutor = Shout('?')\n")
    assert load_object("page.py", tmp_path).agent.ending == "?"
    (tmp_path / "empty.py").write_text("from fastapi import FastAPI\napp = FastAPI()\n")
    with pytest.raises(AgentLoadError, match=r"there is no agent in empty\.py"):
        load_object("empty.py", tmp_path)


def test_class_of_an_executor_counts_before_its_base_class(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"{EXECUTOR}\nclass Own(Shout):\n    def __init__(self): super().__init__('?')\n")
    assert load_object("own.py", tmp_path).agent.ending == "?"


async def test_function_that_makes_an_app_is_served_with_its_card(tmp_path: Path) -> None:
    function = "async def build(port=9999):\n    return Starlette(routes=create_jsonrpc_routes(made(), '/'))\n"
    (tmp_path / "server.py").write_text(EXECUTOR + CARD + function)
    app = deployed(tmp_path, "aion: {agents: {shout: {path: 'server.py:build'}}}")
    async with at(app) as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
    assert card["name"] == "Shouter"


LATE_APP = """
from contextlib import asynccontextmanager

@asynccontextmanager
async def lifespan(app):
    app.router.routes.extend(create_jsonrpc_routes(made(), "/"))
    yield

app = Starlette(lifespan=lifespan)
"""
TWO_EXECUTORS = "app = Starlette(routes=[Mount(at, routes=create_jsonrpc_routes(made(), '/')) for at in ('/a', '/b')])"


@pytest.mark.parametrize(
    ("app", "remedy"),
    [(LATE_APP, "Create the handler at the top level"), (TWO_EXECUTORS, "several executors: Shout, Shout")],
)
def test_app_without_one_executor_has_a_remedy(app: str, remedy: str, tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(EXECUTOR)
    (tmp_path / "main.py").write_text(f"from shout import Shout\n{CARD}{app}")
    with pytest.raises(AgentLoadError, match=f"there is no agent in main.*{remedy}"):
        load_object("main.py", tmp_path)
