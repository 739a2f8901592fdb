"""Who has the word: model calls and replies speak one after another, whole, or known to be cut."""

from langchain_core.messages import AIMessageChunk

from aion_core.agents.langgraph.outbound import ModelStreams
from aion_core.ports import Chunk


def chunk(text: str, call: str, *, last: bool = False, tool: bool = False) -> AIMessageChunk:
    calls = [{"type": "tool_call_chunk", "name": "look", "args": "{}", "id": "1", "index": 0}] if tool else []
    return AIMessageChunk(content=text, id=call, chunk_position="last" if last else None, tool_call_chunks=calls)


def texts(*spoken: list[Chunk]) -> list[tuple[str, str, bool]]:
    return [(said.message_id, said.text, said.breaks_off) for chunks in spoken for said in chunks]


def test_a_reply_waits_for_the_model_that_has_the_word_and_is_not_spoken_if_it_is_said_by_then() -> None:
    streams = ModelStreams()
    streamed = texts(
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add_reply("r1 ", "reply")),
        list(streams.add(chunk("m2", "model", last=True))),
        list(streams.add_reply("r2", "reply")),
        list(streams.discard_reply("reply")),
    )
    assert streamed == [
        ("model", "m1 ", False),
        ("model", "m2", False),
        ("reply", "r1 ", False),
        ("reply", "r2", False),
    ]
    streams = ModelStreams()
    streamed = texts(
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add_reply("r1 ", "reply")),
        list(streams.discard_reply("reply")),
        list(streams.add(chunk("m2", "model", last=True))),
    )
    assert streamed == [("model", "m1 ", False), ("model", "m2", False)]


def test_what_breaks_off_frees_the_line_and_what_broke_off_while_it_waited_is_never_heard() -> None:
    streams = ModelStreams()
    streamed = texts(
        list(streams.add_reply("r1 ", "reply")),
        list(streams.add(chunk("m1 ", "model"))),
        list(streams.add(chunk("x1 ", "other"))),
        list(streams.abort("other")),
        list(streams.abort("reply")),
        list(streams.close_all()),
    )
    assert streamed == [("reply", "r1 ", False), ("reply", "", True), ("model", "m1 ", False)]


def test_no_reply_and_nothing_that_broke_off_is_the_text_that_a_turn_falls_back_on() -> None:
    """R81, D5: a reply is the answer by itself."""
    streams = ModelStreams()
    list(streams.add(chunk("kept", "one", last=True)))
    list(streams.add(chunk("cut", "two")))
    list(streams.abort("two"))
    list(streams.add_reply("a reply", "three"))
    assert streams.last_text() == "kept"


def test_what_is_said_along_with_a_tool_call_is_fallen_back_on_only_where_it_is_the_last() -> None:
    streams = ModelStreams()
    list(streams.add(chunk("Opening it.", "one", last=True, tool=True)))
    assert streams.last_text() == "Opening it."
    list(streams.add(chunk("", "two", last=True)))
    assert streams.last_text() == ""
