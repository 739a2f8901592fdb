"""Streams whose writes are refused: a reader that resumes gets the rest of the text, or the text from its start."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.records import COMPLETE, Cursor, Delta, DeltaBatch, Head, Lease, Log
from aion_core.engine.stream.broadcast import EventBroadcast, ResumedText, StreamStart
from aion_core.engine.stream.delta_writer import OPEN_CHARACTERS, PAGE_CHARACTERS, DeltaWriter
from aion_core.engine.stream.event_ids import cursor_of
from aion_core.engine.stream.shared_reads import FRESH_SECONDS, SharedReads
from aion_core.engine.stream.subscription import MOST_FAILURES, tail
from aion_core.errors import StoreError, StoreUnavailable
from aion_core.table.keys import TaskKey
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.failing import Failing
from tests.support.rows import each_row
from tests.support.stores import LEASE_SECONDS, MemoryTaskStore
from tests.support.streams import faults_of_text


class Stream:
    """Task with a streaming turn in one process, and with readers in other processes."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        failing: Any = Failing(MemoryTaskStore(clock))
        self.store: Any = failing
        self.chat = StoreConversation(self.store, clock)
        self.streamed: dict[str, Delta] = {}
        self.texts: dict[str, str] = {}
        """Text of the stream delta up to each chunk."""
        self.readers: list[StreamReader] = []
        self._speaking, self._text = False, ""

    async def starts(self) -> None:
        """Begin the turn."""
        self._holds(await self.chat.starts())

    def _holds(self, begun: TurnStarted) -> None:
        self.lease: Lease = begun.lease
        self.head: Head = begun.head
        self.writer = DeltaWriter(self.store, self.head.key, self.clock, fence=self.lease.fence)
        self.writer.follow(self.head.generation)
        self._speaking = False

    @property
    def holder(self) -> str:
        """Return the generation and fence with which the current holder's chunk ids begin."""
        return f"{self.head.generation}.{self.lease.fence}."

    def says(self, *words: str, anew: bool = False) -> str:
        """Stream these chunks; return the id of the last chunk."""
        for word in words:
            delta = Delta(word, append=self._speaking and not anew)
            self._speaking, anew, id_ = True, False, self.writer.add(delta)
            self._text = self._text + word if delta.append else word
            self.streamed[id_], self.texts[id_] = delta, self._text
        return id_

    def showed(self, id_: str, text: str) -> bool:
        """Return True if the streamed text equals `text` after the chunk with this id."""
        return self.texts[id_] == text

    async def records(self) -> None:
        """Record an event; a text may be open, and then continues after the event."""
        await self.writer.flush()
        self.head = await self.store.append(self.lease, self.head, self.chat.says(self.head))
        self.writer.follow(self.head.generation)

    async def dies(self) -> None:
        """Kill the process: chunks not yet stored are lost, and another process begins the turn."""
        await self.writer.stop()
        self.clock.move(LEASE_SECONDS + 1)
        self._holds(await self.chat.begins())

    def reader(self, last: str = "") -> "StreamReader":
        """Return a new reader that has already received every item up to this id."""
        self.readers.append(StreamReader(self, cursor_of(last) or Cursor(self.head.generation)))
        return self.readers[-1]


class StreamReader:
    """Client that follows the task's stream in another process."""

    def __init__(self, stream: Stream, after: Cursor) -> None:
        self.received: list[tuple[str, Any]] = []
        reads = SharedReads(stream.store, stream.clock)
        self._task = asyncio.create_task(self._follow(tail(reads, stream.head.key, stream.clock, after=after)))

    async def _follow(self, batches: Any) -> None:
        async for batch in batches:
            self.received += [(item.id, item.payload) for item in batch]

    @property
    def words(self) -> list[str]:
        """Return the texts of the received chunks."""
        return [what.text for _, what in self.received if isinstance(what, Delta)]

    @property
    def events(self) -> list[int]:
        """Return the numbers of the received events."""
        return [int(id_) for id_, what in self.received if not isinstance(what, Delta)]

    async def leaves(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def outcome(self) -> BaseException | None:
        """Return the error of the stream, None while it runs."""
        return self._task.exception() if self._task.done() else None


@asynccontextmanager
async def streaming() -> AsyncIterator[Stream]:
    stream = Stream(ManualClock())
    await stream.starts()
    try:
        yield stream
    finally:
        await stream.writer.stop()
        for reader in stream.readers:
            await reader.leaves()


def words(count: int, first: int = 0) -> list[str]:
    return [f"w{number}" for number in range(first, first + count)]


async def test_reader_ahead_of_stored_chunks_receives_only_later_chunks() -> None:
    """The turn's own process streamed w0 to w3, but stored only w0: another process continues after w3."""
    async with streaming() as stream:
        stream.says("w0")
        await stream.clock.passes(0.05)
        reader = stream.reader(stream.says(*words(3, 1)))
        await stream.clock.passes(0.05)
        stream.says(*words(4, 4))
        await stream.clock.passes(0.5)
        stream.says(*words(2, 8))
        await stream.clock.passes(1)
        assert reader.words == words(6, 4)


async def test_reader_resumes_in_middle_of_stored_batch_of_chunks() -> None:
    async with streaming() as stream:
        stream.says(*words(4))
        await stream.clock.passes(1)
        reader = stream.reader("2.1.1")
        await stream.clock.passes(1)
        stream.says(*words(2, 4))
        await stream.clock.passes(1)
        assert reader.words == words(4, 2)


async def test_reader_reads_stored_chunks_only_once() -> None:
    """A reader asks the store only for chunks after those it has, not for all of the event."""
    async with streaming() as stream:
        since = list[Cursor]()
        reads = stream.store.deltas
        stream.store.deltas = lambda key, *, since_=since, **at: since_.append(at["since"]) or reads(key, **at)
        stream.reader()
        for number in range(20):
            stream.says(f"w{number}")
            await stream.clock.passes(0.5)
        assert since[-1] == Cursor(2, 1, 20)
        assert since.count(Cursor(2)) <= 2


async def test_failed_batch_of_chunks_is_retried_before_next_batch() -> None:
    async with streaming() as stream:
        reader = stream.reader()
        stream.says("w0")
        await stream.clock.passes(0.3)
        stream.store.refuse(append_deltas=2)
        for number in range(1, 20):
            stream.says(f"w{number}")
            await stream.clock.passes(0.1)
        await stream.clock.passes(1)
        assert reader.words == words(20)


async def test_batch_of_chunks_is_retried_unchanged_after_lost_response() -> None:
    """Write the same batch after a lost response: a reader that has read it would miss chunks added to it."""
    async with streaming() as stream:
        reader = stream.reader()
        stream.store.lose_answers(append_deltas=3)
        for number in range(20):
            stream.says(f"w{number}")
            await stream.clock.passes(0.1)
        await stream.clock.passes(1)
        assert reader.words == words(20)
        late = stream.reader()
        await stream.clock.passes(1)
        assert late.words == words(20)


async def test_reader_receives_whole_text_after_store_outage() -> None:
    async with streaming() as stream:
        reader = stream.reader()
        stream.says(*words(2))
        await stream.clock.passes(0.5)
        stream.store.refuse(append_deltas=1000)
        stream.says(*words(5, 2))
        await stream.clock.passes(0.5)
        await stream.records()
        stream.store.heal()
        stream.says("next", " text")
        await stream.clock.passes(1)
        assert reader.words[0] == "w0"
        assert reader.words[-2:] == ["".join(words(7)) + "next", " text"]
        assert list(faults_of_text(reader.received, stream.showed)) == []


async def test_streaming_resumes_with_next_text_after_unwritable_chunks() -> None:
    async with streaming() as stream:
        reader = stream.reader()
        stream.says("w0")
        await stream.clock.passes(0.3)
        stream.store.refuse(StoreError("ValidationException"), append_deltas=1)
        for number in range(1, 9):
            stream.says(f"w{number}")
            await stream.clock.passes(0.3)
        assert reader.words == ["w0"], "w2 follows a missing chunk"
        stream.says("new", anew=True)
        stream.says(" text")
        await stream.clock.passes(1)
        await stream.records()
        await stream.clock.passes(1)
        assert reader.words == ["w0", "new", " text"]
        assert reader.events == [3]


async def test_reader_receives_long_batch_of_chunks_page_by_page() -> None:
    async with streaming() as stream:
        reader = stream.reader()
        texts = [str(number) * PAGE_CHARACTERS for number in range(7)]
        stream.says(*texts)
        await stream.clock.passes(1)
        assert reader.words == texts
        late = stream.reader("2.1.3")
        await stream.clock.passes(1)
        assert late.words == texts[4:]


async def test_next_lease_holder_streams_text_from_beginning() -> None:
    async with streaming() as stream:
        reader = stream.reader()
        stream.says(*words(5))
        await stream.clock.passes(0.5)
        await stream.dies()
        stream.says(*words(7))
        await stream.clock.passes(1.5)
        assert reader.words[-7:] == words(7)
        assert list(faults_of_text(reader.received, stream.showed)) == []


@pytest.mark.parametrize("last", ["2", "2.1.1"], ids=["no chunk", "a chunk of the holder before"])
async def test_reader_skips_text_whose_first_chunk_is_missing(last: str) -> None:
    """The first batch of a fence has expired or was lost: a new reader waits for the start of the next text."""
    async with streaming() as stream:
        key, more = stream.head.key, tuple(Delta(word, append=True) for word in words(2, 1))
        await stream.store.append_deltas(key, DeltaBatch(2, 1, 0, (Delta("old", append=False), *more)))
        await stream.store.append_deltas(key, DeltaBatch(2, 2, 1, more))
        reader = stream.reader(last)
        await stream.clock.passes(1)
        assert reader.words == []
        await stream.store.append_deltas(key, DeltaBatch(2, 2, 3, (*more, Delta("new", append=False))))
        await stream.store.append_deltas(key, DeltaBatch(2, 2, 6, (Delta(" text", append=True),)))
        await stream.clock.passes(1.5)
        assert reader.words == ["new", " text"]


async def test_reader_survives_repeated_store_failures_between_successes() -> None:
    async with streaming() as stream:
        reader = stream.reader()
        for number in range(4):
            stream.store.refuse(log=MOST_FAILURES - 1)
            await stream.clock.passes(20)
            stream.says(f"w{number}")
            await stream.clock.passes(2)
        assert await reader.outcome() is None
        assert reader.words == words(4)
        stream.store.refuse(log=MOST_FAILURES)
        await stream.clock.passes(30)
        assert isinstance(await reader.outcome(), StoreUnavailable)


async def test_outdated_read_is_not_reused_after_clock_is_set_back() -> None:
    async with streaming() as stream:
        reads, key = SharedReads(stream.store, stream.clock), stream.head.key
        assert await reads.after(key, 2, Cursor(2))
        stream.clock.move(-100)
        await stream.records()
        read = await reads.after(key, 2, Cursor(2))
        assert read.log is not None
        assert [entry.generation for entry in read.log.events] == [3]
        await stream.records()
        stream.clock.move(FRESH_SECONDS / 2)
        assert await reads.after(key, 2, Cursor(2)) is read, "a fresh read is shared"


async def test_store_read_without_readers_is_cancelled() -> None:
    async with streaming() as stream:
        stuck, cancelled = asyncio.Event(), asyncio.Event()

        class StuckStore(MemoryTaskStore):
            async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
                stuck.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
                return None

        reads, key = SharedReads(StuckStore(stream.clock), stream.clock), stream.head.key
        one, other = (asyncio.ensure_future(reads.after(key, 2, Cursor(2))) for _ in range(2))
        await stuck.wait()
        one.cancel()
        await asyncio.wait([one])
        assert not cancelled.is_set(), "the other reader still waits"
        other.cancel()
        await asyncio.wait([other])
        await cancelled.wait()


STEPS = st.lists(
    st.one_of(
        *[st.tuples(st.just("says"), st.integers(1, 4))] * 4,
        *[st.tuples(st.just("passes"), st.sampled_from([1, 2, 5]))] * 4,
        *[st.tuples(st.just("leaves"), st.integers(1, 3))] * 2,
        st.tuples(st.sampled_from(["says anew", "records", "dies", "comes back", "has it all"]), st.just(0)),
        st.tuples(st.sampled_from(["refuses", "loses answers"]), st.integers(1, 4)),
    ),
    min_size=20,
    max_size=40,
)


@given(STEPS)
@settings(max_examples=200 if os.environ.get("SIMULATION_DEEP") else 25, deadline=None)
def test_reader_resumed_in_another_process_has_prefix_of_text(steps: Sequence[tuple[str, int]]) -> None:
    """Leave the turn's own process after any chunk, and resume in another process."""
    asyncio.run(_plays(steps))


async def _plays(steps: Sequence[tuple[str, int]]) -> None:
    async with streaming() as stream:
        received: list[tuple[str, Any]] = []
        reader: StreamReader | None = stream.reader()

        async def leaves() -> str:
            nonlocal reader
            if reader is not None:
                await reader.leaves()
                received.extend(reader.received)
                reader = None
            return next((id_ for id_, _ in reversed(received)), "2")

        async def has_it_all() -> None:
            nonlocal reader
            stream.store.heal()
            await stream.clock.passes(2)
            now = [id_ for id_ in stream.streamed if id_.startswith(stream.holder)]
            assert not now or await leaves() == now[-1], "it has the whole text so far"
            reader = reader or stream.reader(await leaves())

        for step, amount in steps:
            match step:
                case "says":
                    stream.says(*words(amount))
                case "says anew":
                    stream.says("anew", anew=True)
                case "records":
                    await stream.records()
                case "dies":
                    await stream.dies()
                case "refuses":
                    stream.store.refuse(append_deltas=amount)
                case "loses answers":
                    stream.store.lose_answers(append_deltas=amount)
                case "passes":
                    await stream.clock.passes(amount * 0.05)
                case "has it all":
                    await has_it_all()
                case "comes back":
                    reader = stream.reader(await leaves())
                case "leaves":
                    # Let the reader have some chunks that are not stored yet: the turn's own process streams chunks
                    # before it stores them.
                    last, holder = cursor_of(await leaves()) or Cursor(), stream.holder
                    first = last.n if holder == f"{last.generation}.{last.fence}." else 0
                    live = [id_ for n in range(amount) if (id_ := f"{holder}{first + n}") in stream.streamed]
                    # A reader without the text before the event has received no chunks from the turn's own process.
                    in_step = first > 0 or (live and not stream.streamed[live[0]].append)
                    if last.generation == stream.head.generation and in_step:
                        received.extend((id_, stream.streamed[id_]) for id_ in live)
                    reader = stream.reader(await leaves())
        await has_it_all()
        await stream.records()
        await stream.clock.passes(3)
        await leaves()
        assert list(faults_of_text(received, stream.showed)) == []
        events = [int(id_) for id_, what in received if not isinstance(what, Delta)]
        assert events == list(range(3, stream.head.generation + 1))


async def test_streamed_text_continues_after_recorded_event() -> None:
    """A reader of the earlier chunks gets only the new ones; a later reader gets the whole text so far."""
    async with streaming() as stream:
        reader = stream.reader()
        stream.says(*words(2))
        await stream.clock.passes(0.5)
        await stream.records()
        await stream.records()
        stream.says("w2", "w3")
        await stream.clock.passes(1)
        assert reader.words == words(4)
        assert [what.append for _, what in reader.received if isinstance(what, Delta)] == [False, True, True, True]
        late = stream.reader("4")
        await stream.clock.passes(1)
        assert late.words == ["w0w1w2", "w3"]
        assert list(faults_of_text(late.received, stream.showed)) == []


async def test_late_reader_receives_unfinished_text_with_its_speaker() -> None:
    async with streaming() as stream:
        speaker = {"messageId": "m", "node": "plan"}
        stream.writer.add(Delta("w0", append=False, speaker=speaker))
        await stream.records()
        stream.writer.add(Delta("w1", append=True))
        late = stream.reader(str(stream.head.generation))
        await stream.clock.passes(1)
        assert [what for _, what in late.received] == [Delta("w0w1", append=False, speaker=speaker)]


@each_row("rest", [Delta("w1", append=True), Delta("", append=True, last=True, reason=COMPLETE)])
@each_row("waits", [True, False])
async def test_reader_resumed_within_text_is_told_its_speaker(rest: Delta, waits: bool) -> None:
    async with streaming() as stream:
        speaker = {"messageId": "m", "node": "plan"}
        stream.writer.add(Delta("w0", append=False, speaker=speaker))
        await stream.clock.passes(1)
        leaving = stream.reader()
        await stream.clock.passes(1)
        last_id = leaving.received[-1][0]
        resumed = stream.reader(last_id)
        await stream.clock.passes(1 if waits else 0)
        stream.writer.add(rest)
        await stream.clock.passes(1)
        assert [what for _, what in resumed.received] == [ResumedText(speaker), rest]
        assert resumed.received[0][0] == last_id


async def test_reader_who_joins_during_long_text_waits_for_next_text() -> None:
    """Record an event after a text longer than OPEN_CHARACTERS: a new reader waits for the next text."""
    async with streaming() as stream:
        stream.says("w" * (OPEN_CHARACTERS + 1))
        await stream.records()
        late = stream.reader()
        stream.says("w1", "w2")
        await stream.clock.passes(1)
        assert late.words == []
        stream.says("new", anew=True)
        await stream.clock.passes(1)
        assert late.words == ["new"]


async def test_broadcast_keeps_nothing_for_client_that_left() -> None:
    """The turn goes on: its further chunks would fill the memory."""
    broadcast = EventBroadcast((), start=StreamStart.FIRST_EVENT)
    broadcast.publish("1.1.1", Delta("w0", append=False))
    batches = broadcast.batches()
    assert [item.payload for item in await anext(batches)] == [Delta("w0", append=False)]
    await batches.aclose()
    broadcast.publish("1.1.2", Delta("w1", append=True))
    broadcast.end()
    assert [batch async for batch in broadcast.batches()] == []
    assert broadcast.cursor() == cursor_of("1.1.2")
