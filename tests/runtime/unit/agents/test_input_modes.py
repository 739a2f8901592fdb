"""Input modes of a card without `input_modes` in aion.yaml: the media types that reach the agent's code."""

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.support.adk import as_v03
from tests.support.service import http, send

ALL = ["text/plain", "application/json", "application/octet-stream"]
AGENTS = """
from typing import Any, TypedDict

from a2a.server.agent_execution import AgentExecutor
from google.adk.agents import LlmAgent, SequentialAgent
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from aion.langgraph import AionContext
from aion.shared.types import A2AInbox


class Question(TypedDict):
    question: str


class AnsweredQuestion(Question):
    answer: str


class Order(BaseModel):
    number: int


class Inbox(Question):
    a2a_inbox: A2AInbox


def graph(schema, **options):
    return StateGraph(schema, **options).add_node("node", lambda state: {}).add_edge(START, "node")


messages = graph(MessagesState)
question = graph(AnsweredQuestion, input_schema=Question)
two_texts = graph(AnsweredQuestion)
order = graph(Order).compile()
inbox = graph(Inbox)
context = graph(AnsweredQuestion, context_schema=AionContext)


@entrypoint()
def function(given: Any) -> str:
    return "Done."


def per_turn(config):
    return question


llm = LlmAgent(name="llm", model="gemini-2.5-flash")
sequence = SequentialAgent(name="sequence", sub_agents=[LlmAgent(name="inner", model="gemini-2.5-flash")])


class Executor(AgentExecutor):
    async def execute(self, context, event_queue):
        pass

    async def cancel(self, context, event_queue):
        pass


executor = Executor()
"""


async def app_of(folder: Path, agent: str, more: str = "", *, load: bool = True) -> FastAPI:
    (folder / "kinds.py").write_text(AGENTS, encoding="utf-8")
    declared = f"aion:\n  agents:\n    a:\n      path: kinds.py:{agent}\n{more}"
    (folder / "aion.yaml").write_text(declared, encoding="utf-8")
    app = build_app(Settings.from_environ({"AION_CONFIG": str(folder / "aion.yaml"), "AION_STORE": "memory"}))
    if load:
        app.state.agents["a"].load()
    return app


async def modes_of(app: FastAPI) -> Any:
    async with http(app) as client:
        return (await client.get("/.well-known/agent-card.json")).json()["defaultInputModes"]


@pytest.mark.parametrize(
    ("agent", "modes"),
    [
        ("messages", ALL),
        ("question", ["text/plain", "application/json"]),
        ("two_texts", ["text/plain", "application/json"]),
        ("order", ["application/json"]),
        ("inbox", ALL),
        ("context", ALL),
        ("function", ALL),
        ("per_turn", ALL),
        ("llm", ALL),
        ("sequence", ALL),
        ("executor", ALL),
    ],
)
async def test_agent_card_lists_media_types_that_agent_accepts(tmp_path: Path, agent: str, modes: list[str]) -> None:
    assert await modes_of(await app_of(tmp_path, agent)) == modes


async def test_card_lists_declared_input_modes(tmp_path: Path) -> None:
    assert await modes_of(await app_of(tmp_path, "order", "      input_modes: [text/plain]\n")) == ["text/plain"]


async def test_card_waits_for_load_of_agent(tmp_path: Path) -> None:
    """So the first card of a process is the card that all processes serve."""
    assert await modes_of(await app_of(tmp_path, "order", load=False)) == ["application/json"]


async def test_extended_card_lists_same_modes_as_public_card(tmp_path: Path) -> None:
    more = "      capabilities: {extended_agent_card: true}\n      extended_card: {name: More}\n"
    async with http(await app_of(tmp_path, "order", more)) as client:
        card = (await client.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"})).json()[
            "result"
        ]
    assert card["defaultInputModes"] == ["application/json"]


@pytest.mark.parametrize("method", ["SendMessage", "message/send"])
@pytest.mark.parametrize(
    ("agent", "part"),
    [
        ("question", {"raw": "aGk=", "mediaType": "image/png"}),
        ("order", {"text": "Hi"}),
        ("order", {"url": "https://example.com/a.pdf", "mediaType": "application/pdf"}),
    ],
)
async def test_message_part_of_unsupported_media_type_is_refused(
    tmp_path: Path, agent: str, part: dict[str, Any], method: str
) -> None:
    given = send(method=method)
    given["params"]["message"]["parts"] = [as_v03(part) if "/" in method else part]
    async with http(await app_of(tmp_path, agent)) as client:
        answer = (await client.post("/", json=given)).json()
    assert answer["error"]["code"] == -32005
    assert "application/json" in answer["error"]["message"]
