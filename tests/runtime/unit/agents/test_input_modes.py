"""Input modes of a card without `input_modes` in aion.yaml: the media types that reach the agent's code."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.engine.call import CallContext
from aion_core.errors import ContentTypeNotSupported
from aion_core.settings import Settings
from tests.support.adk import as_v03, task_of
from tests.support.agents.scripted import GatedAgent
from tests.support.requests import request
from tests.support.rows import each_row
from tests.support.service import http, parts, send, send_task

ALL = ["text/plain", "application/json", "application/octet-stream"]
AGENTS = """
from typing import Any, TypedDict

from a2a.server.agent_execution import AgentExecutor
from google.adk.agents import LlmAgent, SequentialAgent
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
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


class Reply(Order):
    answer: Any = None


def ask(state):
    return {"answer": interrupt("Ship it? yes or no")}


asking = StateGraph(Reply, input_schema=Order).add_node("ask", ask).add_edge(START, "ask").compile()
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


@each_row(
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


@each_row("method", ["SendMessage", "message/send"])
@each_row(
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


METHODS = pytest.mark.parametrize("method", ["SendMessage", "message/send"])
PARTS: dict[str, dict[str, Any]] = {
    "text": {"text": "yes"},
    "data": {"data": {"ship": True}},
    "file": {"raw": "aGk=", "mediaType": "image/png"},
}


def message(method: str, part: dict[str, Any], **given: Any) -> dict[str, Any]:
    made = send(method=method, **given)
    made["params"]["message"]["parts"] = [as_v03(part) if "/" in method else part]
    return made


async def asked(client: httpx.AsyncClient, method: str) -> dict[str, Any]:
    """Return the task with the question of an agent whose input is only data."""
    return task_of((await client.post("/", json=message(method, {"data": {"number": 7}}, message_id="m-1"))).json())


@METHODS
@pytest.mark.parametrize("names_task", [True, False])
@pytest.mark.parametrize("part", PARTS)
async def test_part_of_any_kind_answers_question_of_data_agent(
    tmp_path: Path, part: str, names_task: bool, method: str
) -> None:
    """Answer by the task's id, or with the next message of the context, twice: the repeat returns the same task."""
    async with http(await app_of(tmp_path, "asking")) as client:
        question = await asked(client, method)
        place = {"taskId": question["id"]} if names_task else {"contextId": question["contextId"]}
        answers = [
            task_of((await client.post("/", json=message(method, PARTS[part], message_id="m-2", **place))).json())
            for _ in range(2)
        ]
    assert [(each["id"], each["status"]["state"]) for each in answers] == [(question["id"], "TASK_STATE_COMPLETED")] * 2


@METHODS
@pytest.mark.parametrize("place", ["a new context", "the context of an answered question", "an answered task"])
async def test_text_without_open_question_is_refused_by_data_agent(tmp_path: Path, place: str, method: str) -> None:
    async with http(await app_of(tmp_path, "asking")) as client:
        question = await asked(client, method)
        await client.post("/", json=message(method, {"text": "yes"}, message_id="m-2", taskId=question["id"]))
        given = {
            "a new context": {},
            "the context of an answered question": {"contextId": question["contextId"]},
            "an answered task": {"taskId": question["id"]},
        }[place]
        answer = (await client.post("/", json=message(method, {"text": "Hi"}, message_id="m-3", **given))).json()
    assert answer["error"]["code"] == (-32004 if place == "an answered task" else -32005)


@METHODS
async def test_declared_input_modes_apply_to_answers_too(tmp_path: Path, method: str) -> None:
    async with http(await app_of(tmp_path, "asking", "      input_modes: [application/json]\n")) as client:
        question = await asked(client, method)
        refused = await client.post("/", json=message(method, PARTS["text"], message_id="m-2", taskId=question["id"]))
        assert refused.json()["error"]["code"] == -32005
        given = message(method, PARTS["data"], message_id="m-3", taskId=question["id"])
        assert task_of((await client.post("/", json=given)).json())["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_text_to_running_task_of_data_agent_is_refused() -> None:
    """A message to a running task starts a further turn: the media types of the agent's input apply to it."""
    agent = GatedAgent()
    made = parts(agent)
    refusal = ContentTypeNotSupported("message.parts[0] is text/plain; this agent accepts application/json.")
    call, refused = CallContext("owner", "test"), CallContext("owner", "test", start_refusal=refusal)
    sending = asyncio.create_task(send_task(made.service, call, request("one")))
    await agent.spoke.wait()
    (key,) = made.store.task_keys()  # type: ignore[attr-defined]
    with pytest.raises(ContentTypeNotSupported):
        await send_task(made.service, refused, request("two", message_id="m-2", task_id=key.task_id))
    agent.go.set()
    await sending
    assert agent.asked == ["one"]
