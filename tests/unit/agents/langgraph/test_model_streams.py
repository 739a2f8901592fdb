"""Sequence of concurrent model calls and replies: each is streamed as a whole, or marked as aborted."""

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from aion_core.agents.langgraph.model_streams import ModelStreams
from aion_core.ports import Chunk


def chunk(text: str, call: str, *, last: bool = False, tool: bool = False) -> AIMessageChunk:
    calls = [tool_call_chunk(name="look", args="{}", id="1", index=0)] if tool else []
    return AIMessageChunk(content=text, id=call, chunk_position="last" if last else None, tool_call_chunks=calls)


END = "end of the message"


def texts(*spoken: list[Chunk]) -> list[tuple[str, str, bool]]:
    return [(said.message_id, END if said.ends else said.text, said.breaks_off) for chunks in spoken for said in chunks]


def test_reply_is_buffered_while_model_streams() -> None:
    streams = ModelStreams({()})
    streamed = texts(
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add_reply("r1 ", "reply", namespace="")),
        list(streams.add(chunk("m2", "model", last=True))),
        list(streams.add_reply("r2", "reply", namespace="")),
        list(streams.discard_reply("reply")),
    )
    assert streamed == [
        ("model", "m1 ", False),
        ("model", "m2", False),
        ("model", END, False),
        ("reply", "r1 ", False),
        ("reply", "r2", False),
        ("reply", END, False),
    ]
    streams = ModelStreams({()})
    streamed = texts(
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add_reply("r1 ", "reply", namespace="")),
        list(streams.discard_reply("reply")),
        list(streams.add(chunk("m2", "model", last=True))),
    )
    assert streamed == [("model", "m1 ", False), ("model", "m2", False), ("model", END, False)]


def test_aborted_reply_releases_stream_and_drops_buffer() -> None:
    streams = ModelStreams({()})
    streamed = texts(
        list(streams.add_reply("r1 ", "reply", namespace="")),
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add(chunk("x1 ", "other"))),
        list(streams.abort("other")),
        list(streams.abort("reply")),
        list(streams.close_all()),
    )
    assert streamed == [("reply", "r1 ", False), ("reply", "", True), ("model", "m1 ", False)]


def test_replies_and_aborted_text_are_no_fallback() -> None:
    """A reply is the answer by itself."""
    streams = ModelStreams({()})
    list(streams.add(chunk("kept", "one", last=True)))
    list(streams.add(chunk("cut", "two")))
    list(streams.abort("two"))
    list(streams.add_reply("a reply", "three", namespace=""))
    assert streams.last_text()[1] == "kept"


def test_tool_call_text_is_fallback_only_if_last() -> None:
    streams = ModelStreams({()})
    list(streams.add(chunk("Opening it.", "one", last=True, tool=True)))
    assert streams.last_text()[1] == "Opening it."
    list(streams.add(chunk("", "two", last=True)))
    assert streams.last_text() == ("", "")
