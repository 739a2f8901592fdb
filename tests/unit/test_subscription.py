"""What a reader at a cursor hears of a log: every event once, and text never doubled."""

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


def test_chunks_are_heard_after_the_event_that_they_follow() -> None:
    heard, after = merge([event(1), event(2), event(3)], [batch(2, 1, 0, "a", "b"), batch(3, 1, 0, "c")], Cursor())
    assert ids(heard) == ["1", "2", "2.1.0", "2.1.1", "3", "3.1.0"]
    assert after == Cursor(3, 1, 1)


def test_chunks_of_an_event_not_yet_read_are_left_for_the_next_time() -> None:
    heard, after = merge([event(1)], [batch(1, 1, 0, "a"), batch(2, 1, 0, "b")], Cursor())
    assert ids(heard) == ["1", "1.1.0"]
    heard, after = merge([event(2)], [batch(2, 1, 0, "b")], after)
    assert ids(heard) == ["2", "2.1.0"]


def test_the_rest_of_a_batch_is_heard_by_who_has_heard_its_beginning() -> None:
    heard, after = merge([], [batch(2, 1, 0, "a", "b", "c")], Cursor(2, 1, 2))
    assert [spoken.payload for spoken in heard] == [Delta("c", append=True)]
    assert after == Cursor(2, 1, 3)


def test_a_new_fence_is_heard_from_its_first_chunk_and_the_old_one_no_more() -> None:
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
def test_however_a_log_is_read_everything_is_heard_once_and_in_order(
    log: list[list[str]], cuts: list[int], data: Any
) -> None:
    """A growing log, read at any moments, with batches cut anywhere."""
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
