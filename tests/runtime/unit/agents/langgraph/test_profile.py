"""What a graph says about its agent's card: the media types of its answers, and its name."""

from pathlib import Path
from typing import Any

from aion_core.agents.langgraph.agent import LangGraphAgent
from tests.runtime.unit.loading.card_sources.sources import card_of
from tests.support.isolated import isolated_imports
from tests.support.rows import each_row
from tests.support.service import http, parts, send

TEXT, JSON = "text/plain", "application/json"
DEFINITIONS = """
from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from aion.langgraph import AionContext


class In(TypedDict):
    topic: str


class Report(TypedDict):
    report: str


class Score(TypedDict):
    report: str
    score: int


class Whole(In, Score):
    notes: str


class Structured(MessagesState):
    structured_response: Any


class Model(BaseModel):
    score: int


@dataclass
class Data:
    score: int


def graph(state, update, **options):
    return StateGraph(state, **options).add_node("node", lambda given: update).add_edge(START, "node").compile()


def returns(annotation, value):
    def agent(given):
        return value

    agent.__annotations__["return"] = annotation
    return entrypoint()(agent)


says = {"messages": [AIMessage("Hello.")]}
scored = {"report": "Fine.", "score": 1}
"""
OUTPUTS: dict[str, tuple[str, list[str]]] = {
    "messages": ("graph(MessagesState, says)", [TEXT]),
    "structured response": ("graph(Structured, {**says, 'structured_response': {'a': 1}})", [TEXT, JSON]),
    "declared data": ("graph(Whole, scored, input_schema=In, output_schema=Score)", [JSON]),
    "state without messages": ("graph(Whole, scored, input_schema=In)", [TEXT, JSON]),
    "returned text": ("returns(str, 'Hello.')", [TEXT]),
    "returned message": ("returns(AIMessage, AIMessage('Hello.'))", [TEXT]),
    "returned messages": ("returns(list[BaseMessage], [AIMessage('Hello.')])", [TEXT]),
    "returned dict": ("returns(dict, {'a': 1})", [TEXT, JSON]),
    "returned dict with messages": ("returns(dict, says)", [TEXT, JSON]),
    "returned state with messages": ("returns(MessagesState, says)", [TEXT, JSON]),
    "returned TypedDict": ("returns(Score, scored)", [JSON]),
    "returned model": ("returns(Model, Model(score=1))", [JSON]),
    "returned dataclass": ("returns(Data, Data(1))", [JSON]),
    "returned list": ("returns(list[int], [1])", [JSON]),
    "returned text or data": ("returns(str | Model, Model(score=1))", [TEXT, JSON]),
    "saved another": ("returns(entrypoint.final[str, int], entrypoint.final(value='Hello.', save=1))", [TEXT]),
    "not annotated": ("returns(Any, 'Hello.')", [TEXT, JSON]),
    "not annotated data": ("returns(Any, {'a': 1})", [TEXT, JSON]),
    "replies by the context": ("graph(MessagesState, says, context_schema=AionContext)", []),
}


def made(expression: str) -> Any:
    names: dict[str, Any] = {}
    exec(DEFINITIONS, names)  # noqa: S102  # the test's own code
    return eval(expression, names)  # noqa: S307


@each_row("kind", OUTPUTS)
async def test_output_modes_are_those_of_answer(kind: str) -> None:
    expression, modes = OUTPUTS[kind]
    graph = made(expression)
    assert list(LangGraphAgent(graph).profile().card.default_output_modes) == modes
    async with http(parts(graph).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
    given = {TEXT if "text" in part else JSON for part in task["status"]["message"]["parts"]}
    assert given <= set(modes or [TEXT])


def test_output_mode_of_one_declared_text_is_text() -> None:
    graph = made("graph(Whole, scored, input_schema=In, output_schema=Report)")
    assert list(LangGraphAgent(graph).profile().card.default_output_modes) == [TEXT]


async def test_graph_of_langgraph_json_has_its_own_name_and_description(tmp_path: Path) -> None:
    """Serve graphs with the usual id `agent`, as public projects do: their cards tell them apart."""
    source = f"{DEFINITIONS}\npost = graph(Whole, scored, input_schema=In).copy(update={{'name': 'Report writer'}})\n"
    (tmp_path / "own.py").write_text(source)
    described = '{"path": "./own.py:post", "description": "Writes reports."}'
    (tmp_path / "langgraph.json").write_text(f'{{"graphs": {{"agent": {described}}}}}')
    with isolated_imports(tmp_path):
        card = await card_of(tmp_path)
    assert (card["name"], card["description"]) == ("Report writer", "Writes reports.")
    assert card["skills"][0]["name"] == "Report writer"
