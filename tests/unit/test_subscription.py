"""Reader of a log: each event once, no repeated text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aion_core.ports import Cursor, Delta, DeltaBatch, Numbered
from aion_core.protocol.types import Message
from aion_core.tasks.broadcast import StreamItem
from aion_core.tasks.subscription import merge


def event(generation: int) -> Numbered:
    return Numbered(generation, Message(message_id=str(generation)))


def batch(generation: int, fence: int, first: int, *texts: str) -> DeltaBatch:
    chunks = tuple(Delta(text, append=first + n > 0) for n, text in enumerate(texts))
    return DeltaBatch(generation, fence, first, chunks)


def ids(heard: list[StreamItem]) -> list[str]:
    return [spoken.id for spoken in heard]


def test_chunks_follow_their_event() -> None:
    heard, after = merge([event(1), event(2), event(3)], [batch(2, 1, 0, "a", "b"), batch(3, 1, 0, "c")], Cursor())
    assert ids(heard) == ["1", "2", "2.1.0", "2.1.1", "3", "3.1.0"]
    assert after == Cursor(3, 1, 1)


def test_chunks_wait_for_their_unread_event() -> None:
    heard, after = merge([event(1)], [batch(1, 1, 0, "a"), batch(2, 1, 0, "b")], Cursor())
    assert ids(heard) == ["1", "1.1.0"]
    heard, after = merge([event(2)], [batch(2, 1, 0, "b")], after)
    assert ids(heard) == ["2", "2.1.0"]


def test_reader_receives_rest_of_started_batch() -> None:
    heard, after = merge([], [batch(2, 1, 0, "a", "b", "c")], Cursor(2, 1, 2))
    assert [spoken.payload for spoken in heard] == [Delta("c", append=True)]
    assert after == Cursor(2, 1, 3)


def test_new_fence_replaces_chunks_of_old_fence() -> None:
    batches = [batch(2, 1, 0, "old"), batch(2, 1, 1, "older still"), batch(2, 2, 0, "new"), batch(2, 2, 1, "er")]
    heard, after = merge([], batches, Cursor(2, 1, 1))
    assert ids(heard) == ["2.2.0", "2.2.1"]
    assert isinstance(heard[0].payload, Delta)
    assert not heard[0].payload.append
    heard, after = merge([], [batch(2, 1, 2, "too late")], after)
    assert heard == []
    assert after == Cursor(2, 2, 2)


LOG = st.lists(st.lists(st.text(max_size=3), max_size=6), min_size=1, max_size=5)


@given(log=LOG, cuts=st.lists(st.integers(0, 30), max_size=8), data=st.data())
def test_reader_receives_each_item_once_in_order(log: list[list[str]], cuts: list[int], data: Any) -> None:
    """A growing log, read at any times, with batches split anywhere."""
    whole: list[tuple[Numbered | None, DeltaBatch | None]] = []
    expected: list[str] = []
    for generation, texts in enumerate(log, start=1):
        whole.append((event(generation), None))
        expected.append(str(generation))
        n = 0
        while n < len(texts):
            size = data.draw(st.integers(1, len(texts) - n))
            whole.append((None, batch(generation, 1, n, *texts[n : n + size])))
            expected.extend(f"{generation}.1.{k}" for k in range(n, n + size))
            n += size

    heard: list[str] = []
    after = Cursor()
    for upto in [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]:
        written = whole[:upto]
        events = [entry for entry, _ in written if entry and entry.generation > after.generation]
        batches = [found for _, found in written if found]
        spoken, after = merge(events, batches, after)
        heard.extend(ids(spoken))
    assert heard == expected


@pytest.mark.parametrize("cursor", [Cursor(9), Cursor(9, 9, 9)])
def test_a_cursor_beyond_the_log_hears_nothing(cursor: Cursor) -> None:
    assert merge([], [batch(2, 1, 0, "a")], cursor) == ([], cursor)
