"""Trips planned with the scripted model: questions, tables, lists, the map and the file, and a real model's client."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from a2a.types import Part
from google.protobuf.json_format import ParseDict

from aion_tools.testing import AgentClient, AgentReply, serve
from tests.support.openai_server import OpenAIServer
from tests.support.server import TIMEOUT, aion_dev, serving
from tests.support.service import send

HERE = Path(__file__).parent
CONFIG = HERE / "aion.yaml"
STAY = {"arrival": "2027-05-07", "nights": 2, "travellers": 3}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scripted model speak without pauses."""
    monkeypatch.setenv("TRIP_SECONDS_PER_WORD", "0")


async def answer(client: AgentClient, question: AgentReply, stay: dict[str, Any]) -> AgentReply:
    assert question.task is not None
    data = ParseDict({"data": stay}, Part())
    return await client.ask(parts=[data], task_id=question.task.id, context_id=question.context_id)


def files(reply: AgentReply) -> dict[str, tuple[str, bytes]]:
    assert reply.task is not None
    return {each.name: (each.parts[0].media_type, each.parts[0].raw) for each in reply.task.artifacts}


async def test_missing_dates_are_asked_with_form() -> None:
    async with serve(CONFIG) as client:
        question = await client.ask("Plan a trip to Lisbon")
        assert (question.state, question.text) == ("input-required", "When are you going to Lisbon?")
        [asked] = question.questions
        assert [*asked.schema["propertyOrdering"]] == ["arrival", "nights", "travellers", "pace"]
        assert asked.schema["required"] == ["arrival", "nights"]
        again = await answer(client, question, {"arrival": "soon", "nights": 2})
        assert again.state == "input-required"
        plan = await answer(client, again, STAY)
    assert plan.state == "completed"
    assert plan.text.startswith("### Lisbon, 7 May to 9 May 2027\n")
    assert "| Sat 8 May | **Alfama** |" in plan.text
    assert len(plan.chunks) > 50


async def test_plan_comes_with_map_as_picture() -> None:
    async with serve(CONFIG) as client:
        plan = await client.ask("A weekend in Copenhagen in June for two")
    assert plan.state == "completed"
    [(name, (media_type, content))] = files(plan).items()
    assert (name, media_type) == ("copenhagen-map.png", "image/png")
    assert pixels(content) == 480 * 300 * 3


def pixels(content: bytes) -> int:
    """Return the number of bytes of the pixels of a PNG picture. Fail if a checksum is wrong."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks = dict(chunks_of(content[8:]))
    width, height, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    unpacked = zlib.decompress(chunks[b"IDAT"])
    assert len(unpacked) == height * (1 + 3 * width)
    return len(unpacked) - height


def chunks_of(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    while content:
        size = struct.unpack(">I", content[:4])[0]
        kind, body, checksum = content[4:8], content[8 : 8 + size], content[8 + size : 12 + size]
        assert checksum == struct.pack(">I", zlib.crc32(kind + body))
        yield kind, body
        content = content[12 + size :]


async def test_conversation_keeps_city_and_dates() -> None:
    async with serve(CONFIG) as client:
        plan = await answer(client, await client.ask("Plan a trip to Lisbon"), STAY)
        costs = await client.ask("What does it cost?", context_id=plan.context_id)
        packing = await client.ask("What should I pack?", context_id=plan.context_id)
        itinerary = await client.ask("Give me the itinerary as a file", context_id=plan.context_id)
        longer = await client.ask("Make it 3 nights", context_id=plan.context_id)
        other = await client.ask("And what does Kyoto cost?", context_id=plan.context_id)
    assert "for 3 travellers" in costs.text
    assert "| Hotel | 480 |" in costs.text
    assert "- [ ] Rain jacket" in packing.text.splitlines()
    [(name, (media_type, content))] = files(itinerary).items()
    assert (name, media_type) == ("lisbon-itinerary.md", "text/markdown")
    assert content.decode().startswith("# Lisbon\n\n| Day |")
    assert longer.text.startswith("### Lisbon, 7 May to 10 May 2027\n")
    # Another city is another trip.
    assert other.text == "When are you going to Kyoto?"


@pytest.mark.parametrize(
    ("message", "state", "beginning"),
    [
        ("Hello", "completed", "I plan trips to Lisbon, Copenhagen, Kyoto and Marrakesh."),
        ("Plan a trip to Atlantis", "completed", "Which city?"),
        ("Plan a trip to Lisbon on 31 June for 0 days", "input-required", "When are you going to Lisbon?"),
        ("What should I pack for Kyoto in April?", "input-required", "When are you going to Kyoto?"),
        ("Is Kyoto cold from 2027-01-04 for 2 nights?", "completed", "January in Kyoto usually has 9 °C"),
        ("Draw a map of Marrakesh", "completed", "Here is Marrakesh as one walk:\n\n1. **Jemaa el-Fnaa**"),
        ("Costs of 2 nights in Kyoto from 3 April, alone", "completed", "Kyoto, 3 April to 5 April "),
    ],
)
async def test_each_kind_of_request_is_answered(message: str, state: str, beginning: str) -> None:
    async with serve(CONFIG) as client:
        reply = await client.ask(message)
    assert (reply.state, reply.text[: len(beginning)]) == (state, beginning)


async def test_request_without_city_is_completed_by_it() -> None:
    async with serve(CONFIG) as client:
        asked = await client.ask("What should I pack for 3 nights from 2027-07-01?")
        packing = await client.ask("Marrakesh", context_id=asked.context_id)
    assert asked.text.startswith("Which city?")
    assert "- [ ] Light clothes for hot afternoons" in packing.text.splitlines()


def test_environment_variable_selects_real_model() -> None:
    """Let OpenAI's client talk to a local server that imitates OpenAI's API: a mistake of the model is explained to it."""
    command = aion_dev(str(HERE), "--no-reload", "--store", "memory")
    with (
        OpenAIServer("weather", {"city": "Paris", "month": 5}, ["No ", "idea."]) as provider,
        serving(command, **provider.environment) as server,
    ):
        answer = httpx.post(server.url, json=send("How warm is Paris in May?"), timeout=TIMEOUT).json()
    assert answer["result"]["task"]["status"]["message"]["parts"] == [{"text": "No idea."}]
    first, second = provider.requests
    names = ["ask_dates", "weather", "sights", "prices", "draw_map", "write_itinerary"]
    assert [each["function"]["name"] for each in first["tools"]] == names
    assert "Ask with ask_dates" in first["messages"][0]["content"]
    [result] = [each["content"] for each in second["messages"] if each["role"] == "tool"]
    assert result == "There is no data for Paris, only for Lisbon, Copenhagen, Kyoto, Marrakesh."


def test_agent_at_root_is_this_example() -> None:
    root = yaml.safe_load((HERE.parents[1] / "aion.yaml").read_text())["aion"]["agents"]
    own = yaml.safe_load(CONFIG.read_text())["aion"]["agents"]
    assert next(iter(root)) == "trip"
    assert {**root["trip"], "path": "agent.py:graph"} == own["trip"]
