"""Order of the messages of agents that run in parallel."""

from collections.abc import Iterable

from aion_core.agents.adk.streams import CompleteMessage, MessageStreams
from aion_core.ports import Chunk
from aion_core.protocol.types import Message, Part


def complete(stream: str, text: str = "") -> CompleteMessage:
    return CompleteMessage(stream, Message(parts=[Part(text=text or stream.upper())]), text or stream)


def shown(items: Iterable[Chunk | CompleteMessage]) -> list[str]:
    """Return chunks as `id:text`, an ended stream as `id.`, an aborted one as `id!`, and messages by their text."""
    found = []
    for item in items:
        if isinstance(item, CompleteMessage):
            found.append(item.message.parts[0].text if item.message else "-")
        else:
            end = "." if item.ends else "!" if item.breaks_off else f":{item.text}"
            found.append(f"{item.message_id}{end}")
    return found


def test_streaming_message_is_recorded_after_its_end() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.complete(complete("a"))) == ["a.", "A"]


def test_message_completed_during_another_stream_waits_for_it() -> None:
    """The message follows its chunks; messages keep the order of their completion."""
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.complete(complete("b"))) == []
    assert shown(streams.add(Chunk("2", "a"))) == ["a:2"]
    assert shown(streams.complete(complete("a"))) == ["a.", "b:1", "b.", "B", "A"]


def test_unstreamed_message_does_not_wait_for_a_stream() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.complete(complete("", "whole"))) == ["whole"]
    assert shown(streams.add(Chunk("2", "a"))) == ["a:2"]


def test_unstreamed_message_keeps_order_of_completion() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.complete(complete("b"))) == []
    assert shown(streams.complete(complete("", "whole"))) == []
    assert shown(streams.complete(complete("a"))) == ["a.", "b:1", "b.", "B", "whole", "A"]


def test_waiting_messages_chunks_stream_after_open_message_ends() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.complete(complete("a"))) == ["a.", "A", "b:1"]
    assert shown(streams.add(Chunk("2", "b"))) == ["b:2"]


def test_aborted_message_lets_next_message_stream() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.add(Chunk("1", "c"))) == []
    assert shown(streams.abort("b")) == []
    assert shown(streams.abort("a")) == ["a!", "c:1"]


def test_abort_without_open_stream_changes_nothing() -> None:
    assert shown(MessageStreams().abort("")) == []


def test_discarded_message_is_not_streamed() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.discard("b")) == []
    assert shown(streams.complete(complete("a"))) == ["a.", "A"]


def test_close_all_releases_each_waiting_message_once() -> None:
    streams = MessageStreams()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.add(Chunk("1", "c"))) == []
    assert shown(streams.complete(complete("c"))) == []
    assert shown(streams.close_all()) == ["c:1", "c.", "C", "b:1"]
    assert shown(streams.close_all()) == []
