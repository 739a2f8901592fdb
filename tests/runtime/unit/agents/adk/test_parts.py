"""Conversion of message parts, tested through HTTP in both protocol versions."""

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

from a2a.types import Message, Part
from google.adk.a2a.converters.part_converter import convert_a2a_part_to_genai_part
from google.adk.a2a.converters.to_adk_event import convert_a2a_message_to_event
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.models.llm_response import LlmResponse
from google.genai import types as genai
from google.protobuf.json_format import ParseDict

from aion.adk import get_aion_context
from aion_core.agents.adk.parts import DATA_END, DATA_START
from tests.support.adk import (
    answer_text,
    ask,
    ask_parts,
    call,
    content,
    llm_agent,
    scripted_model,
    served,
    text_event,
    yielding_agent,
)
from tests.support.histories import json_before_status
from tests.support.rows import each_row
from tests.support.service import http, parts


async def parts_seen(dialect: str, *given: dict[str, Any]) -> list[genai.Part]:
    model = scripted_model(["Received."])
    async with http(parts(served(LlmAgent(name="root", model=model))).app()) as client:
        assert answer_text(await ask_parts(client, dialect, *given)) == "Received."
    return list(model.seen[0][-1].parts or [])


async def test_every_a2a_part_kind_reaches_model(dialect: str) -> None:
    """Send text, data and files: a whole number in the data stays an integer."""
    text, raw, url, data = await parts_seen(
        dialect,
        {"text": "Look:"},
        {"raw": base64.b64encode(b"pixels").decode(), "mediaType": "image/png"},
        {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
        {"data": {"count": 3, "of": ["a", 1.5]}},
    )
    assert text.text == "Look:"
    assert raw.inline_data is not None
    assert (raw.inline_data.mime_type, raw.inline_data.data) == ("image/png", b"pixels")
    assert url.file_data is not None
    assert (url.file_data.mime_type, url.file_data.file_uri) == ("application/pdf", "https://example.org/a.pdf")
    assert json.loads(str(data.text)) == {"count": 3, "of": ["a", 1.5]}
    assert "3.0" not in str(data.text)


@each_row(
    ("named", "mime_type"),
    [
        ({"mediaType": "text/x-own", "filename": "a.png"}, "text/x-own"),
        ({"mediaType": "Audio/L16; rate=16000"}, "audio/l16; rate=16000"),
        ({"mediaType": "file"}, "application/octet-stream"),
        ({"mediaType": "image/jpg"}, "image/jpeg"),
        ({"filename": "a.png"}, "image/png"),
        ({"filename": "a.csv.gz"}, "application/octet-stream"),
        ({"filename": "a.nobodyknows"}, "application/octet-stream"),
        ({}, "application/octet-stream"),
    ],
)
@each_row("kind", ["raw", "url"])
async def test_file_mime_type_is_guessed_by_default(
    dialect: str, kind: str, named: dict[str, str], mime_type: str
) -> None:
    """Use the file's declared type, else the type guessed from its name, else application/octet-stream."""
    held = {"raw": base64.b64encode(b"x").decode()} if kind == "raw" else {"url": "https://example.sh"}
    (part,) = await parts_seen(dialect, {**held, **named})
    file = part.inline_data or part.file_data
    assert file is not None
    assert file.mime_type == mime_type


async def test_empty_file_becomes_text_with_its_name(dialect: str) -> None:
    named, unnamed = await parts_seen(
        dialect, {"raw": "", "filename": "july.pdf"}, {"raw": "", "mediaType": "image/png"}
    )
    assert (named, unnamed) == (genai.Part(text="[empty file: july.pdf]"), genai.Part(text="[empty file: image/png]"))


async def test_empty_message_reaches_adk_as_empty_text(dialect: str) -> None:
    """Send a message without text: ADK needs at least one part, so it gets an empty text."""
    async with http(
        parts(served(yielding_agent(lambda ctx: text_event(repr(ctx.user_content.parts[0].text))))).app()
    ) as client:
        assert answer_text(await ask(client, dialect, "")) == "''"


async def test_message_metadata_contains_usage_citations_and_grounding(dialect: str) -> None:
    """Send the metadata of the model call as ADK's own A2A server does, so that ADK's client reads them."""
    usage = genai.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=2)
    web = genai.GroundingChunkWeb(uri="https://example.org", title="Example")
    grounding = genai.GroundingMetadata(
        grounding_chunks=[genai.GroundingChunk(web=web)], search_entry_point=genai.SearchEntryPoint(sdk_blob=b"\xff")
    )
    citations = genai.CitationMetadata(citations=[genai.Citation(uri="https://example.org", start_index=0)])
    model = LlmResponse(
        content=content(genai.Part(text="Grounded.")),
        usage_metadata=usage,
        grounding_metadata=grounding,
        citation_metadata=citations,
    )
    agent = served(
        SequentialAgent(name="root", sub_agents=[llm_agent([model], name="a"), llm_agent(["End."], name="b")])
    )
    async with http(parts(agent).app()) as client:
        task = await ask(client, dialect)
    grounded = json_before_status(task)[-1]
    assert grounded["metadata"] == {
        "adk_usage_metadata": {"promptTokenCount": 7, "candidatesTokenCount": 2},
        "adk_citation_metadata": {"citations": [{"uri": "https://example.org", "startIndex": 0}]},
        "adk_grounding_metadata": {
            "groundingChunks": [{"web": {"uri": "https://example.org", "title": "Example"}}],
            "searchEntryPoint": {"sdkBlob": "_w=="},
        },
    }
    assert "metadata" not in task["status"]["message"]
    received = convert_a2a_message_to_event(ParseDict(grounded, Message()))
    assert received is not None
    assert (received.usage_metadata, received.grounding_metadata) == (usage, grounding)
    assert received.citation_metadata == citations


async def test_answer_contains_files_and_code_without_thoughts(dialect: str) -> None:
    """The model also returns thoughts and tool results: the answer has only its text, files and code."""
    answer = text_event(
        "Here.",
        parts=[
            genai.Part(text="hm, maybe", thought=True),
            genai.Part(inline_data=genai.Blob(mime_type="image/png", data=b"pixels", display_name="a.png")),
            genai.Part(file_data=genai.FileData(mime_type="application/pdf", file_uri="https://example.org/a.pdf")),
            genai.Part(inline_data=genai.Blob(data=b"a,b", display_name="a\udce9.csv")),
            genai.Part(file_data=genai.FileData(file_uri="gs://bucket/a.mp4")),
            genai.Part(executable_code=genai.ExecutableCode(code="1+1", language=genai.Language.PYTHON)),
            genai.Part(code_execution_result=genai.CodeExecutionResult(outcome=genai.Outcome.OUTCOME_OK, output="2")),
            genai.Part(function_response=genai.FunctionResponse(id="c", name="look", response={"secret": 1})),
        ],
    )
    async with http(parts(served(yielding_agent(answer))).app()) as client:
        task = await ask(client, dialect)
    got = task["status"]["message"]["parts"]
    assert [{key: part[key] for key in part if key != "metadata"} for part in got] == [
        {"text": "Here."},
        {"raw": base64.b64encode(b"pixels").decode(), "mediaType": "image/png", "filename": "a.png"},
        {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
        {"raw": base64.b64encode(b"a,b").decode(), "mediaType": "text/csv", "filename": "a?.csv"},
        {"url": "gs://bucket/a.mp4", "mediaType": "video/mp4"},
        {"data": {"executableCode": {"code": "1+1", "language": "PYTHON"}}},
        {"data": {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}},
    ]


@each_row(
    "event",
    [
        text_event("half \ud83d"),
        text_event("half \ud83d", partial=True),
        Event(author="root", output="half \ud83d"),
        Event(
            author="root",
            content=content(call("ask", "call-1", question="half \ud83d")),
            long_running_tool_ids={"call-1"},
        ),
    ],
)
async def test_half_of_a_surrogate_pair_becomes_question_mark(event: Event) -> None:
    async with http(parts(served(yielding_agent(event))).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == "half ?"


async def test_reply_with_half_surrogate_pair_is_sent() -> None:
    class Replies(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            await get_aion_context().thread.reply("half \ud83d")
            return
            yield

    async with http(parts(served(Replies(name="root"))).app()) as client:
        assert answer_text(await ask(client, "SendMessage")) == "half ?"


async def test_data_part_of_remote_agent_reaches_client_as_data(dialect: str) -> None:
    """Receive data from a RemoteA2aAgent: ADK's converter wraps the data in a text file."""
    received = convert_a2a_part_to_genai_part(ParseDict({"data": {"price": 3, "of": ["a"]}}, Part()))
    assert isinstance(received, genai.Part)
    async with http(parts(served(yielding_agent(text_event(parts=[received])))).app()) as client:
        task = await ask(client, dialect)
    assert [part.get("data") for part in task["status"]["message"]["parts"]] == [{"price": 3, "of": ["a"]}]


async def test_file_with_invalid_json_between_data_tags_stays_file() -> None:
    file = genai.Part(inline_data=genai.Blob(mime_type="text/plain", data=DATA_START + b"{" + DATA_END))
    async with http(parts(served(yielding_agent(text_event(parts=[file])))).app()) as client:
        task = await ask(client, "SendMessage")
    assert [part["mediaType"] for part in task["status"]["message"]["parts"]] == ["text/plain"]
