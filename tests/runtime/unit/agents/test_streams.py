"""Order of message streams that run in parallel, and of the items that follow them."""

from collections.abc import Iterable

from aion_core.agents.streams import StreamSequencer
from aion_core.engine.agent import Chunk


def shown(items: Iterable[Chunk | str]) -> list[str]:
    """Return chunks as `id:text`, an ended stream as `id.`, an aborted one as `id!`, and other items unchanged."""
    found = []
    for item in items:
        if isinstance(item, str):
            found.append(item)
        else:
            end = "." if item.ends else "!" if item.breaks_off else f":{item.text}"
            found.append(f"{item.message_id}{end}")
    return found


def test_streaming_message_is_recorded_after_its_end() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.complete("a", "A")) == ["a.", "A"]


def test_second_message_streams_after_first_message_completes() -> None:
    """B completes while A still streams: first A's chunks, then B's chunks, then the messages in the order B, A."""
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.complete("b", "B")) == []
    assert shown(streams.add(Chunk("2", "a"))) == ["a:2"]
    assert shown(streams.complete("a", "A")) == ["a.", "b:1", "b.", "B", "A"]


def test_message_without_chunks_is_sent_while_another_message_streams() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.complete("", "whole")) == ["whole"]
    assert shown(streams.add(Chunk("2", "a"))) == ["a:2"]


def test_message_without_chunks_is_recorded_in_order_of_completion() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.complete("b", "B")) == []
    assert shown(streams.complete("", "whole")) == []
    assert shown(streams.complete("a", "A")) == ["a.", "b:1", "b.", "B", "whole", "A"]


def test_buffered_chunks_are_streamed_after_first_message_completes() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.complete("a", "A")) == ["a.", "A", "b:1"]
    assert shown(streams.add(Chunk("2", "b"))) == ["b:2"]


def test_next_buffered_message_streams_after_current_message_is_aborted() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.add(Chunk("1", "c"))) == []
    assert shown(streams.abort("b")) == []
    assert shown(streams.abort("a")) == ["a!", "c:1"]


def test_aborting_unknown_message_sends_nothing() -> None:
    assert shown(StreamSequencer[str]().abort("")) == []


def test_buffered_chunks_of_discarded_message_are_not_streamed() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.discard("b")) == []
    assert shown(streams.complete("a", "A")) == ["a.", "A"]


def test_closing_sends_each_buffered_message_once() -> None:
    streams = StreamSequencer[str]()
    assert shown(streams.add(Chunk("1", "a"))) == ["a:1"]
    assert shown(streams.add(Chunk("1", "b"))) == []
    assert shown(streams.add(Chunk("1", "c"))) == []
    assert shown(streams.complete("c", "C")) == []
    assert shown(streams.close_all()) == ["c:1", "c.", "C", "b:1"]
    assert shown(streams.close_all()) == []
