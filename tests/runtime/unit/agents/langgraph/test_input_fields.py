"""Input: messages that become the values of a state. Output: AIMessages that become A2A messages."""

import base64
import dataclasses
from typing import Annotated, Any, NotRequired, Optional, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel

from aion.langgraph import AionContext
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.input_contract import input_contract
from aion_core.agents.langgraph.input_fields import InputFields
from aion_core.agents.langgraph.parts import content_of, message_of
from aion_core.protocol.types import Part
from tests.support.rows import each_row
from tests.support.service import http, parts, send

Values = dict[str, Any]
CARD_MODES = ["text/plain", "application/json", "application/octet-stream"]


class Asked(TypedDict):
    question: str


class AnsweredQuestion(Asked):
    answer: str


class AnswerLater(TypedDict):
    question: str
    answer: NotRequired[str]
    steps: RemainingSteps


class Noted(TypedDict):
    note: Annotated[Optional[str], "read by the node"]  # noqa: UP045  # as people write it
    count: int


class ScoreOnly(TypedDict):
    score: int


class TripInput(BaseModel):
    city: str
    days: int = 1
    plan: str = ""


@dataclasses.dataclass
class Topic:
    topic: str
    joke: str = ""


class Conversation(MessagesState):
    question: str


def graph_of(schema: Any, seen: list[Any] | None = None, **options: Any) -> Any:
    """Return a graph with one node that appends the state it receives to a list."""

    def node(state: Any) -> Values:
        if seen is not None:
            seen.append(state)
        return {}

    node.__annotations__["state"] = schema
    return StateGraph(schema, **options).add_node("node", node).add_edge(START, "node")


async def ask(graph: Any, *given: Values) -> Values:
    """Return the task's status for a message with these parts."""
    request = send(parts=list(given))
    async with http(parts(graph).app()) as client:
        status: Values = (await client.post("/", json=request)).json()["result"]["task"]["status"]
    return status


def reason(status: Values) -> str:
    assert status["state"] == "TASK_STATE_FAILED", status
    return str(status["message"]["parts"][0]["text"])


@each_row(
    ("schema", "options", "field"),
    [
        (AnsweredQuestion, {"input_schema": Asked}, "question"),
        (AnswerLater, {}, "question"),
        (Noted, {}, "note"),
        (TripInput, {}, "city"),
        (Topic, {}, "topic"),
        (Conversation, {"input_schema": Asked}, "question"),
        (AnsweredQuestion, {}, "question"),
        (ScoreOnly, {}, None),
    ],
)
def test_message_text_fills_first_text_field_of_schema(schema: Any, options: Values, field: str | None) -> None:
    found = input_contract(graph_of(schema, **options).compile())
    assert isinstance(found, InputFields)
    assert found.text == field


async def test_nan_in_graph_output_becomes_null() -> None:
    class Rated(Asked):
        score: float

    graph = StateGraph(Rated).add_node("rate", lambda state: {"score": float("nan")}).add_edge(START, "rate")
    status = await ask(graph, {"text": "How good?"})
    assert status["state"] == "TASK_STATE_COMPLETED", status
    assert status["message"]["parts"] == [{"data": {"score": None}}]


def json_file(content: bytes) -> Values:
    return {"raw": base64.b64encode(content).decode(), "mediaType": "application/json"}


@each_row(
    ("schema", "given", "part"),
    [
        (ScoreOnly, {"text": "Hi"}, "a text"),
        (ScoreOnly, {"data": {"score": 1, "rank": 2}}, "the key rank"),
        (ScoreOnly, {"data": [1, 2]}, "data that is not an object"),
        (TripInput, {"url": "https://x.test/a.png", "mediaType": "image/png"}, "a file"),
        (TripInput, json_file(b"["), "a file (The file is not JSON: Expecting value at line 1, column 2.)"),
        (TripInput, json_file(b'{"days": NaN}'), "a file (The file is not JSON: NaN is no JSON number.)"),
        (TripInput, json_file(b"[]," * 900_000), "a file (The file has more than 100000 values: send fewer.)"),
    ],
)
async def test_error_for_unreadable_message_part_names_accepted_fields(schema: Any, given: Values, part: str) -> None:
    seen: list[Any] = []
    text = reason(await ask(graph_of(schema, seen), given))
    assert f"The agent cannot read {part} in this message." in text
    assert all(name in text for name in (schema.__annotations__))
    assert seen == []


async def test_error_names_input_field_that_has_wrong_type() -> None:
    text = reason(await ask(graph_of(TripInput), {"data": {"city": "Rome", "days": "many"}}))
    assert text.startswith("The message does not fit the agent's input: days: ")
    assert "many" not in text


async def test_graph_with_aion_context_accepts_any_message() -> None:
    status = await ask(graph_of(ScoreOnly, context_schema=AionContext), {"text": "Hi"})
    assert status["state"] == "TASK_STATE_COMPLETED"


def test_advice_names_input_modes_and_fields_for_texts() -> None:
    agent = LangGraphAgent(graph_of(ScoreOnly))
    assert "Set `input_modes: [application/json]`" in agent.input_advice(CARD_MODES)
    assert agent.input_advice(["application/json"]) == ""
    agent = LangGraphAgent(graph_of(TripInput))
    assert "Set `input_modes: [text/plain, application/json]`" in agent.input_advice(CARD_MODES)
    assert agent.input_advice(["text/plain", "application/json"]) == ""
    assert LangGraphAgent(graph_of(MessagesState)).input_advice(CARD_MODES) == ""
    several = LangGraphAgent(graph_of(AnsweredQuestion))
    assert "A text fills question, the first" in several.input_advice(None)
    assert several.input_advice(["application/json"]) == ""
    assert "A text needs an input_schema with one str field." in LangGraphAgent(graph_of(ScoreOnly)).input_advice(None)


def test_advice_on_entrypoint_does_not_speak_of_state() -> None:
    @entrypoint()
    def double(number: int) -> int:
        return 2 * number

    advice = "The input of the @entrypoint takes a data part with a value, such as 1."
    assert LangGraphAgent(double).input_advice(None) == advice


async def test_json_file_becomes_graph_state() -> None:
    seen: list[Any] = []
    await ask(graph_of(TripInput, seen), json_file(b'{"city": "Oslo"}'))
    assert seen == [TripInput(city="Oslo")]


@each_row(
    ("content", "media_type", "text"),
    [
        ("Grüße".encode("cp1252"), 'Text/CSV; header=present;charset="windows-1252"', "Grüße"),
        ("Grüße".encode("utf-16"), "text/plain", "Grüße"),
        ("Grüße".encode("utf-16"), "text/plain; charset=utf-16le", "Grüße"),
        ("Grüße".encode("utf-8-sig"), "text/csv; charset=utf-8", "Grüße"),
        ("Grüße".encode(), "text/plain; charset=iso-nobodyknows", "Grüße"),
        ("Grüße".encode("latin-1"), "text/plain", "Gr\ufffd\ufffde"),
    ],
)
def test_text_file_is_decoded_by_its_charset(content: bytes, media_type: str, text: str) -> None:
    part = Part(raw=content, media_type=media_type)
    assert content_of([part], files=True) == text
    fields = input_contract(graph_of(TripInput).compile())
    assert fields is not None
    assert fields.given([part]) == ({"city": text}, [])


def test_content_block_has_registered_media_type() -> None:
    content = content_of([Part(raw=b"x", media_type="Audio/x-wav; codecs=1")], files=True)
    assert content == [{"type": "audio", "base64": "eA==", "mime_type": "audio/wav"}]


def test_empty_text_beside_file_is_no_content_block() -> None:
    """Send an empty text beside an image: models refuse empty texts."""
    image = Part(raw=b"x", media_type="image/png")
    assert content_of([Part(text=""), image], files=True) == content_of([image], files=True)


@pytest.mark.parametrize("media_type", ["application/pdf", "text/csv", "image/png"])
def test_empty_file_becomes_text_with_its_name(media_type: str) -> None:
    file = Part(raw=b"", media_type=media_type, filename="july.x")
    assert content_of([file], files=True) == "[empty file: july.x]"
    assert content_of([Part(raw=b"", media_type=media_type)], files=True) == f"[empty file: {media_type}]"
    assert content_of([file], files=False) == ""


@each_row(
    ("audio", "media_type"),
    [
        (b"RIFF\x24\x00\x00\x00WAVE", "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"\x00\x01\x02\x03", "audio/pcm"),
    ],
)
def test_media_type_of_audio_is_detected_from_its_bytes(audio: bytes, media_type: str) -> None:
    encoded = {"id": "audio-1", "data": base64.b64encode(audio).decode(), "transcript": "Hi."}
    for given, text in ((encoded, "Hi."), (audio, "")):
        message = message_of(AIMessage("", additional_kwargs={"audio": given}))
        assert [part.text for part in message.parts if part.text] == [text][: bool(text)]
        assert (message.parts[-1].raw, message.parts[-1].media_type) == (audio, media_type)


def test_audio_without_data_adds_no_message_part() -> None:
    message = message_of(AIMessage("Hi.", additional_kwargs={"audio": {"id": "audio-1"}}))
    assert [part.text for part in message.parts] == ["Hi."]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I cannot help."}),
        AIMessage([{"type": "refusal", "refusal": "I cannot help."}]),
    ],
)
def test_refusal_of_model_becomes_message_text(message: AIMessage) -> None:
    assert [part.text for part in message_of(message).parts] == ["I cannot help."]


@each_row(
    ("block", "raw", "media_type"),
    [
        ({"type": "file", "url": "data:text/csv;charset=utf-8,a%2Cb"}, b"a,b", "text/csv"),
        ({"type": "image", "url": "data:image/svg+xml;utf8,<svg/>"}, b"<svg/>", "image/svg+xml"),
        ({"type": "image", "url": "DATA:image/png;Base64,aGVsbG8%3D"}, b"hello", "image/png"),
        ({"type": "image", "base64": "-_-_", "mime_type": "image/png"}, b"\xfb\xff\xbf", "image/png"),
        ({"type": "image", "base64": "iVBORw=="}, b"\x89PNG", "image/png"),
        ({"type": "image", "base64": "iVBORw==", "filename": "a.webp"}, b"\x89PNG", "image/webp"),
        ({"type": "image", "base64": "AAEC"}, b"\x00\x01\x02", "application/octet-stream"),
        ({"type": "file", "base64": "iVBORw=="}, b"\x89PNG", "application/octet-stream"),
        ({"type": "text-plain", "text": "A report", "mime_type": "text/plain"}, b"A report", "text/plain"),
    ],
)
def test_langchain_content_block_becomes_file_part(block: Values, raw: bytes, media_type: str) -> None:
    [part] = message_of(AIMessage([block])).parts
    assert (part.raw, part.media_type) == (raw, media_type)


PNG = base64.b64encode(b"\x89PNG").decode()


@each_row("provider", [{}, {"model_provider": "openai"}, {"model_provider": "google_genai"}])
@each_row(
    ("block", "part"),
    [
        ({"type": "file", "source_type": "text", "text": "Notes"}, Part(raw=b"Notes", media_type="text/plain")),
        (
            {"type": "file", "source_type": "text", "url": "a,b", "mime_type": "text/csv", "id": "f-1"},
            Part(raw=b"a,b", media_type="text/csv"),
        ),
        (
            {"type": "file", "source_type": "base64", "data": PNG, "mime_type": "image/png", "filename": "a.png"},
            Part(raw=b"\x89PNG", media_type="image/png", filename="a.png"),
        ),
        ({"type": "media", "data": b"\x89PNG", "mime_type": "image/png"}, Part(raw=b"\x89PNG", media_type="image/png")),
        (
            {"type": "media", "file_uri": "gs://a/b.mp4", "mime_type": "video/mp4"},
            Part(url="gs://a/b.mp4", media_type="video/mp4"),
        ),
        (
            {"type": "input_image", "image_url": "https://a.b/c.png"},
            Part(url="https://a.b/c.png", media_type="image/png"),
        ),
        ({"type": "input_image", "image_url": f"data:;base64,{PNG}"}, Part(raw=b"\x89PNG", media_type="image/png")),
        (
            {"type": "input_file", "file_url": "https://a.b/c.pdf"},
            Part(url="https://a.b/c.pdf", media_type="application/pdf"),
        ),
        (
            {"type": "input_file", "file_data": f"data:application/pdf;base64,{PNG}", "filename": "c.pdf"},
            Part(raw=b"\x89PNG", media_type="application/pdf", filename="c.pdf"),
        ),
        (
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "c.pdf"}},
            Part(raw=b"\x89PNG", media_type="application/pdf", filename="c.pdf"),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
            Part(raw=b"\x89PNG", media_type="audio/wav"),
        ),
    ],
)
def test_file_block_of_model_provider_becomes_file_part(block: Values, part: Part, provider: Values) -> None:
    message = AIMessage([{"type": "text", "text": "Here."}, block], response_metadata=provider)
    assert list(message_of(message).parts) == [Part(text="Here."), part]


@pytest.mark.parametrize("kind", ["input_image", "input_file", "image"])
def test_file_that_only_the_provider_stores_is_omitted(kind: str) -> None:
    assert list(message_of(AIMessage([{"type": kind, "file_id": "file-1"}])).parts) == [Part(text="")]


def test_file_block_without_content_does_not_fail_turn() -> None:
    message = AIMessage([{"type": "text", "text": "Here."}, {"type": "image", "source_type": "base64"}])
    assert list(message_of(message).parts) == [Part(text="Here.")]


def test_name_of_content_block_may_be_no_unicode_text() -> None:
    block = {"type": "file", "base64": "AAEC", "mime_type": "text/plain", "filename": "caf\udce9.txt"}
    assert [part.filename for part in message_of(AIMessage([block])).parts] == ["caf?.txt"]


@pytest.mark.parametrize("encoded", ["data:image/png;base64,AAEC", "AAE", b"\x89PNG"])
def test_file_with_invalid_base64_is_logged(encoded: object, caplog: pytest.LogCaptureFixture) -> None:
    message = message_of(AIMessage([{"type": "text", "text": "Here."}, {"type": "image", "base64": encoded}]))
    assert [part.text for part in message.parts] == ["Here."]
    assert "The base64 of a content block of type image is" in caplog.text


def append_count(state: Any) -> Any:
    """Return the messages of a state without keys with their number as an answer, except for the text "silence"."""
    messages = state["messages"] if isinstance(state, dict) else state
    answer = [] if messages[-1].text == "silence" else [AIMessage(str(len(messages)))]
    return {"messages": [*messages, *answer]} if isinstance(state, dict) else answer


@pytest.mark.parametrize(
    ("schema", "answers"), [(dict, ["1", "", "1"]), (Annotated[list, add_messages], ["1", "", "4"])]
)
async def test_graph_whose_state_is_dict_or_list_receives_messages(schema: Any, answers: list[str]) -> None:
    graph = StateGraph(schema).add_node("node", append_count).add_edge(START, "node")
    received = []
    async with http(parts(graph).app()) as client:
        for number, text in enumerate(["hi", "silence", "hi"]):
            answer = await client.post("/", json=send(text, message_id=f"m-{number}", contextId="c"))
            status = answer.json()["result"]["task"]["status"]
            received.append(status["message"]["parts"][0]["text"] if "message" in status else "")
    assert received == answers


async def test_values_in_dict_state_except_messages_are_the_answer() -> None:
    schema: Any = dict
    graph = StateGraph(schema).add_node("node", lambda state: {**state, "score": 1}).add_edge(START, "node")
    async with http(parts(graph).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
    assert task["status"]["message"]["parts"] == [{"data": {"score": 1}}]
