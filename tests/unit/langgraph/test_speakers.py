"""Who has the word: model calls and replies speak one after another, whole, or known to be cut."""

from langchain_core.messages import AIMessageChunk

from aion_core.agents.langgraph.outbound import Speakers
from aion_core.ports import Chunk


def chunk(text: str, call: str, *, last: bool = False, tool: bool = False) -> AIMessageChunk:
    calls = [{"type": "tool_call_chunk", "name": "look", "args": "{}", "id": "1", "index": 0}] if tool else []
    return AIMessageChunk(content=text, id=call, chunk_position="last" if last else None, tool_call_chunks=calls)


def texts(*spoken: list[Chunk]) -> list[tuple[str, str, bool]]:
    return [(said.message_id, said.text, said.breaks_off) for chunks in spoken for said in chunks]


def test_a_reply_waits_for_the_model_that_has_the_word_and_is_not_spoken_if_it_is_said_by_then() -> None:
    speakers = Speakers()
    heard = texts(
        list(speakers.hear(chunk("m1 ", "model"))),
        list(speakers.reply("r1 ", "reply")),
        list(speakers.hear(chunk("m2", "model", last=True))),
        list(speakers.reply("r2", "reply")),
        list(speakers.replied("reply")),
    )
    assert heard == [("model", "m1 ", False), ("model", "m2", False), ("reply", "r1 ", False), ("reply", "r2", False)]
    speakers = Speakers()
    heard = texts(
        list(speakers.hear(chunk("m1 ", "model"))),
        list(speakers.reply("r1 ", "reply")),
        list(speakers.replied("reply")),
        list(speakers.hear(chunk("m2", "model", last=True))),
    )
    assert heard == [("model", "m1 ", False), ("model", "m2", False)]


def test_what_breaks_off_frees_the_line_and_what_broke_off_while_it_waited_is_never_heard() -> None:
    speakers = Speakers()
    heard = texts(
        list(speakers.reply("r1 ", "reply")),
        list(speakers.hear(chunk("m1 ", "model"))),
        list(speakers.hear(chunk("x1 ", "other"))),
        list(speakers.broke_off("other")),
        list(speakers.broke_off("reply")),
        list(speakers.end_all()),
    )
    assert heard == [("reply", "r1 ", False), ("reply", "", True), ("model", "m1 ", False)]


def test_no_reply_and_nothing_that_broke_off_is_the_text_that_a_turn_falls_back_on() -> None:
    """R81, D5: a reply is the answer by itself."""
    speakers = Speakers()
    list(speakers.hear(chunk("kept", "one", last=True)))
    list(speakers.hear(chunk("cut", "two")))
    list(speakers.broke_off("two"))
    list(speakers.reply("a reply", "three"))
    assert speakers.last_text() == "kept"


def test_what_is_said_along_with_a_tool_call_is_fallen_back_on_only_where_it_is_the_last() -> None:
    speakers = Speakers()
    list(speakers.hear(chunk("Opening it.", "one", last=True, tool=True)))
    assert speakers.last_text() == "Opening it."
    list(speakers.hear(chunk("", "two", last=True)))
    assert speakers.last_text() == ""
