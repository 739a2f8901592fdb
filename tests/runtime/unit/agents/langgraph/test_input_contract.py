"""One input contract: the annotation of a graph's input says what texts, data and files become, and what is refused."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator

from aion_core.bootstrap import build_app
from aion_core.protocol.aion.extensions import INPUT
from aion_core.settings import Settings
from tests.support.isolated import isolated_imports
from tests.support.rows import each_row
from tests.support.service import http, send

AGENTS = """
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from pydantic import BaseModel, Field

from aion.shared.types import A2AInbox


class Topic(TypedDict):
    topic: str


class Place(TypedDict):
    street: str


class Trip(TypedDict):
    city: str
    days: int
    place: NotRequired[Place]


class Chat(MessagesState):
    user: str


class Answered(TypedDict):
    seen: str


class Whole(Topic, Answered):
    notes: str


@dataclass
class Two:
    topic: str
    schema_: dict
    seen: str = ""


@dataclass
class One:
    topic: str
    depth: int = 1
    seen: str = ""


class Order(BaseModel):
    number: int = Field(ge=1)
    notes: Optional[str] = None
    seen: str = ""


def shown(value):
    if isinstance(value, BaseMessage):
        return f"{type(value).__name__} {value.content!r}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(each)}" for key, each in value.items()) + "}"
    return value.__class__.__name__ if isinstance(value, A2AInbox) else repr(value)


def state_graph(state, keys, **options):
    def node(given):
        values = given if isinstance(given, dict) else vars(given)
        return {"seen": shown({key: values[key] for key in keys if key in values})}

    node.__annotations__["given"] = options.get("input_schema", state)
    graph = StateGraph(state, output_schema=Answered, **options)
    return graph.add_node("node", node).add_edge(START, "node").compile()


typed_dict = state_graph(Whole, ["topic"])
declared = state_graph(Whole, ["topic"], input_schema=Topic)


class Traveled(Trip, Answered):
    pass


trip = state_graph(Traveled, ["city", "days", "place"], input_schema=Trip)
data_class = state_graph(One, ["topic", "depth"])
two_required = state_graph(Two, ["topic", "schema_"])
model = state_graph(Order, ["number", "notes"])


class Chatted(Chat):
    seen: str


with_messages = state_graph(Chatted, ["messages", "user"], input_schema=Chat)


class Account(BaseModel):
    messages: Annotated[list, add_messages] = Field(default_factory=list)
    customer: str
    seen: str = ""


with_required = state_graph(Account, ["messages", "customer"])


def functional(annotation):
    def agent(given) -> str:
        return shown(given)

    agent.__annotations__["given"] = annotation
    return entrypoint()(agent)


takes_text = functional(str)
takes_optional = functional(Optional[str])
takes_typed = functional(Topic)
takes_trip = functional(Trip)
takes_data_class = functional(One)
takes_model = functional(Order)
takes_number = functional(int)
takes_choice = functional(Literal["red", "blue"])
takes_texts = functional(list[str])
takes_messages = functional(list[AnyMessage])
takes_message = functional(HumanMessage)
takes_list = functional(list)
takes_dict = functional(dict[str, Any])
takes_any = functional(Any)
takes_chat = functional(Chat)
takes_inbox = functional(A2AInbox)


@entrypoint()
def takes_unannotated(given):
    return shown(given)


@entrypoint()
def takes_messages_by_name(messages, previous):
    return shown(messages)
"""

TEXT, JSON = "text/plain", "application/json"
ALL = [TEXT, JSON, "application/octet-stream"]
WRONG, NOT_READ = -32602, -32005
"""Codes of a message that does not fit, and of a part whose media type reaches nothing."""

Part = dict[str, Any]
ROME: Part = {"text": "Rome"}
NOTES: Part = {"raw": "Um9tZQ==", "mediaType": "text/markdown", "filename": "a.md"}
IMAGE: Part = {"raw": "iVBORw==", "mediaType": "image/png"}
HUMAN, HUMAN_FILE = "HumanMessage 'Rome'", "image"

# Each row: the card's input modes, then a text, data that fits, data that does not, a text file, and an image, each with
# what the graph gets or the code of the refusal.
TABLE: dict[str, tuple[list[str], dict[str, tuple[list[Part], Any]]]] = {
    "typed_dict": (
        [TEXT, JSON],
        {
            "text": ([ROME], "{topic: 'Rome'}"),
            "data": ([{"data": {"topic": "Oslo"}}], "{topic: 'Oslo'}"),
            "wrong": ([{"data": {"topic": 1}}], WRONG),
        },
    ),
    "declared": (
        [TEXT, JSON],
        {
            "text": ([ROME], "{topic: 'Rome'}"),
            "data": ([{"data": {"topic": "Oslo"}}], "{topic: 'Oslo'}"),
            "unknown key": ([{"data": {"notes": "x"}}], WRONG),
        },
    ),
    "trip": (
        [JSON],
        {
            "text": ([ROME], WRONG),
            "text and data": ([ROME, {"data": {"days": 2}}], "{city: 'Rome', days: 2}"),
            "data": (
                [{"data": {"city": "Oslo", "days": 2, "place": {"street": "A"}}}],
                "{city: 'Oslo', days: 2, place: {street: 'A'}}",
            ),
            "missing": ([{"data": {"city": "Oslo"}}], WRONG),
            "nested": ([{"data": {"city": "Oslo", "days": 2, "place": {}}}], WRONG),
            "file": ([NOTES], WRONG),
        },
    ),
    "data_class": (
        [TEXT, JSON],
        {
            "text": ([ROME], "{topic: 'Rome', depth: 1}"),
            "data": ([{"data": {"topic": "Oslo", "depth": 2}}], "{topic: 'Oslo', depth: 2}"),
            "missing": ([{"data": {"depth": 2}}], WRONG),
            "wrong": ([{"data": {"topic": "Oslo", "depth": "deep"}}], WRONG),
        },
    ),
    "two_required": (
        [JSON],
        {
            "text": ([ROME], WRONG),
            "data": ([{"data": {"topic": "Oslo", "schema_": {}}}], "{topic: 'Oslo', schema_: {}}"),
            "text and data": ([ROME, {"data": {"schema_": {}}}], "{topic: 'Rome', schema_: {}}"),
            "file": ([NOTES], WRONG),
        },
    ),
    "model": (
        [JSON],
        {
            "text": ([ROME], WRONG),
            "data": ([{"data": {"number": 7}}], "{number: 7, notes: None}"),
            "wrong": ([{"data": {"number": 0}}], WRONG),
            "list": ([{"data": [7]}], WRONG),
        },
    ),
    "with_messages": (
        ALL,
        {
            "text": ([ROME], f"{{messages: [{HUMAN}]}}"),
            "data": ([ROME, {"data": {"user": "Ada"}}], f"{{messages: [{HUMAN}], user: 'Ada'}}"),
            "other data": ([{"data": {"n": 1}}], "{messages: [HumanMessage '{\"n\": 1}']}"),
            "wrong": ([{"data": {"user": 1}}], WRONG),
            "image": ([IMAGE], HUMAN_FILE),
        },
    ),
    "with_required": (
        ALL,
        {
            "data": ([ROME, {"data": {"customer": "c7"}}], f"{{messages: [{HUMAN}], customer: 'c7'}}"),
            "wrong": ([{"data": {"customer": 1}}], WRONG),
            "other key": ([{"data": {"customer": "c7", "seen": "x"}}], WRONG),
            "text": ([ROME], WRONG),
        },
    ),
    "takes_text": (
        [TEXT],
        {"text": ([ROME], "'Rome'"), "data": ([{"data": "Oslo"}], "'Oslo'"), "wrong": ([{"data": {"a": 1}}], WRONG)},
    ),
    "takes_optional": ([TEXT], {"text": ([ROME], "'Rome'")}),
    "takes_typed": (
        [TEXT, JSON],
        {
            "text": ([ROME], "{topic: 'Rome'}"),
            "data": ([{"data": {"topic": "x"}}], "{topic: 'x'}"),
            "unknown key": ([{"data": {"topic": "x", "y": 1}}], WRONG),
            "wrong": ([{"data": {"topic": []}}], WRONG),
        },
    ),
    "takes_trip": (
        [JSON],
        {"text": ([ROME], WRONG), "data": ([{"data": {"city": "A", "days": 1}}], "{city: 'A', days: 1}")},
    ),
    "takes_data_class": (
        [TEXT, JSON],
        {
            "text": ([ROME], "One(topic='Rome', depth=1, seen='')"),
            "data": ([{"data": {"topic": "x", "depth": 2}}], "One(topic='x', depth=2, seen='')"),
        },
    ),
    "takes_model": (
        [JSON],
        {
            "text": ([ROME], WRONG),
            "data": ([{"data": {"number": 7}}], "Order(number=7, notes=None, seen='')"),
            "wrong": ([{"data": {"number": "many"}}], WRONG),
        },
    ),
    "takes_number": (
        [JSON],
        {"data": ([{"data": 7}], "7"), "text": ([ROME], WRONG), "number as text": ([{"text": "7"}], "7")},
    ),
    "takes_choice": (
        [TEXT],
        {"text": ([{"text": "red"}], "'red'"), "wrong": ([ROME], WRONG), "two": ([{"text": "red"}, IMAGE], NOT_READ)},
    ),
    "takes_texts": (
        [JSON],
        {"data": ([{"data": ["a", "b"]}], "['a', 'b']"), "text": ([ROME], WRONG), "wrong": ([{"data": [1]}], WRONG)},
    ),
    "takes_messages": (ALL, {"text": ([ROME], f"[{HUMAN}]"), "image": ([IMAGE], HUMAN_FILE)}),
    "takes_message": (ALL, {"text": ([ROME], HUMAN), "image": ([IMAGE], HUMAN_FILE)}),
    "takes_list": (ALL, {"text": ([ROME], f"[{HUMAN}]")}),
    "takes_dict": (
        ALL,
        {
            "text": ([ROME], f"{{messages: [{HUMAN}], a2a_inbox: A2AInbox}}"),
            "data": (
                [{"data": {"topic": "x"}}],
                "{topic: 'x', messages: [HumanMessage '{\"topic\": \"x\"}'], a2a_inbox: A2AInbox}",
            ),
            "image": ([IMAGE], HUMAN_FILE),
        },
    ),
    "takes_any": (ALL, {"text": ([ROME], f"{{messages: [{HUMAN}], a2a_inbox: A2AInbox}}")}),
    "takes_messages_by_name": (ALL, {"text": ([ROME], f"[{HUMAN}]")}),
    "takes_unannotated": (ALL, {"text": ([ROME], f"{{messages: [{HUMAN}], a2a_inbox: A2AInbox}}")}),
    "takes_chat": (
        ALL,
        {
            "text": ([ROME], f"{{messages: [{HUMAN}], a2a_inbox: A2AInbox}}"),
            "data": (
                [ROME, {"data": {"user": "Ada"}}],
                f"{{user: 'Ada', messages: [{HUMAN}], a2a_inbox: A2AInbox}}",
            ),
        },
    ),
    "takes_inbox": (ALL, {"text": ([ROME], "A2AInbox")}),
}
"""Input annotations by the name of their agent."""

ONLY_SOME = [name for name, (modes, _) in TABLE.items() if modes != ALL]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    folder = tmp_path_factory.mktemp("contract")
    (folder / "inputs.py").write_text(AGENTS, encoding="utf-8")
    declared = {"aion": {"agents": {name: {"path": f"inputs.py:{name}"} for name in TABLE}}}
    (folder / "aion.yaml").write_text(json.dumps(declared), encoding="utf-8")
    with isolated_imports(folder):
        app = build_app(Settings.from_environ({"AION_CONFIG": str(folder / "aion.yaml"), "AION_STORE": "memory"}))
        for agent in app.state.agents.values():
            agent.load()
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with http(app) as client:
        yield client


async def answered(client: httpx.AsyncClient, agent: str, parts: list[Part], **message: Any) -> Any:
    """Return what the agent has seen, or the code of the refusal."""
    name = f"m-{hash((agent, json.dumps(parts), json.dumps(message)))}"
    answer = await client.post(f"/agents/{agent}/", json=send(parts=parts, message_id=name, **message))
    body = answer.json()
    if "error" in body:
        return body["error"]
    status = body["result"]["task"]["status"]
    assert status["state"] == "TASK_STATE_COMPLETED", status
    [part] = status["message"]["parts"]
    return part.get("text") or part["data"]["seen"]


@pytest.fixture
async def card(client: httpx.AsyncClient, request: pytest.FixtureRequest) -> Any:
    return (await client.get(f"/agents/{request.param}/.well-known/agent-card.json")).json()


@each_row(("agent", "kind"), [(agent, kind) for agent, (_, row) in TABLE.items() for kind in row])
async def test_annotation_decides_what_parts_become(client: httpx.AsyncClient, agent: str, kind: str) -> None:
    parts, expected = TABLE[agent][1][kind]
    found = await answered(client, agent, parts)
    if expected == HUMAN_FILE:
        assert "'type': 'image'" in found
    elif isinstance(expected, str):
        assert found == expected
    else:
        assert found["code"] == expected, found
        assert expected == NOT_READ or "It takes a" in found["message"]


@each_row("agent", ["typed_dict", "model", "takes_number"])
async def test_image_cannot_fill_typed_input(client: httpx.AsyncClient, agent: str) -> None:
    assert (await answered(client, agent, [IMAGE]))["code"] == NOT_READ


@each_row("agent", ["typed_dict", "takes_text", "takes_choice"])
async def test_text_file_becomes_same_input_as_text(client: httpx.AsyncClient, agent: str) -> None:
    text = "red" if agent == "takes_choice" else "Rome"
    file = {**NOTES, "raw": "cmVk"} if agent == "takes_choice" else NOTES
    assert await answered(client, agent, [file]) == await answered(client, agent, [{"text": text}])


@pytest.mark.parametrize(("card", "modes"), [(name, row[0]) for name, row in TABLE.items()], indirect=["card"])
async def test_card_offers_only_what_can_start_graph(card: Any, modes: list[str]) -> None:
    assert card["defaultInputModes"] == modes


@pytest.mark.parametrize(("card", "agent"), [(name, name) for name in ONLY_SOME], indirect=["card"])
async def test_example_of_card_starts_graph(client: httpx.AsyncClient, card: Any, agent: str) -> None:
    """Send each example as the card shows it: JSON as data, another text as a text. It fits the card's schema."""
    [extension] = card["capabilities"]["extensions"]
    assert extension["uri"] == INPUT
    schema = extension["params"]["schema"]
    Draft202012Validator.check_schema(schema)
    for example in card["skills"][0].get("examples", []):
        value = json.loads(example) if example[0] in '{[0123456789"' else example
        Draft202012Validator(schema).validate(value)
        part = {"text": value} if isinstance(value, str) else {"data": value}
        assert isinstance(await answered(client, agent, [part]), str)


@pytest.mark.parametrize("card", [name for name in ONLY_SOME if JSON in TABLE[name][0]], indirect=True)
async def test_card_of_agent_that_takes_data_has_example(card: Any) -> None:
    [example] = card["skills"][0]["examples"]
    assert example != "{}"


@pytest.mark.parametrize(
    ("card", "field"), [("declared", "topic"), ("trip", "city"), ("model", "notes")], indirect=["card"]
)
async def test_extension_names_field_for_texts(card: Any, field: str) -> None:
    assert card["capabilities"]["extensions"][0]["params"]["text"] == field


@pytest.mark.parametrize(
    "card", [name for name, row in TABLE.items() if row[0] == ALL and not name.startswith("with_")], indirect=True
)
async def test_card_of_agent_that_reads_messages_has_no_schema(card: Any) -> None:
    uris = [each["uri"] for each in card["capabilities"].get("extensions", [])]
    assert INPUT not in uris or card["name"] == "takes_chat"


async def test_refusal_shows_example_and_stores_nothing(client: httpx.AsyncClient) -> None:
    refused = await answered(client, "two_required", [ROME], contextId="refused")
    assert 'such as {"topic": "topic", "schema_": {}}' in refused["message"]
    assert "message.parts" in json.dumps(refused["data"])
    listed = await client.get("/agents/two_required/tasks", params={"contextId": "refused"})
    assert listed.json()["tasks"] == []


async def test_repeat_of_refused_message_is_refused_again(client: httpx.AsyncClient) -> None:
    for _ in range(2):
        refused = await answered(client, "takes_model", [ROME], contextId="again")
        assert refused["code"] == WRONG


async def test_entrypoint_has_no_state_that_supplies_fields(client: httpx.AsyncClient) -> None:
    """An @entrypoint gets only the message, in the first turn of a context and in a later one."""
    await answered(client, "takes_trip", [{"data": {"city": "Oslo", "days": 2}}], contextId="function")
    refused = await answered(client, "takes_trip", [{"data": {"days": 2}}], contextId="function")
    assert refused["code"] == WRONG


async def test_state_may_supply_what_message_lacks(client: httpx.AsyncClient) -> None:
    """In a context with a state, a message need not repeat the required fields."""
    first = [{"data": {"topic": "Oslo", "schema_": {"a": 1}}}]
    await answered(client, "two_required", first, contextId="kept")
    again = await answered(client, "two_required", [ROME], contextId="kept")
    assert again == "{topic: 'Rome', schema_: {a: 1}}"
    wrong = await answered(client, "two_required", [{"data": {"topic": 1}}], contextId="kept")
    assert wrong["code"] == WRONG
