"""Retries of the task store after a lost response: the first write may take effect during the retry."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from aion_core.engine.admission import messages
from aion_core.engine.admission.messages import NewTask
from aion_core.engine.outcomes import (
    ContextInUse,
    Duplicate,
    LeaseHeld,
    TurnFinished,
    TurnQueued,
    TurnStarted,
    TurnSuspended,
)
from aion_core.engine.records import Head
from aion_core.engine.task import projection, timestamps
from aion_core.engine.task_store import TaskStore
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.memory.table import MemoryTable
from aion_core.protocol.types import Message, Part, Role, TaskState, TaskStatusUpdateEvent
from aion_core.table.item import Item, Key
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.refusals import WriteRefused
from aion_core.table.writes import SingleWrite, Write
from tests.runtime.unit.table.test_retries import run
from tests.support.clock import ManualClock
from tests.support.rows import each_row

T = TypeVar("T")
CONTEXT = ContextKey("owner", "agent", "c")
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
ARRIVALS = range(8)
"""Numbers of reads between the loss of a response and the effect of its write."""


class LateTable(MemoryTable):
    """Table that loses the response to a write, and executes the write only after some later reads."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self._loses, self._reads_left, self._writes_left = False, 0, 0
        self._late: Callable[[], Awaitable[Any]] | None = None

    def lose_write(self, reads: int, *, after: int = 0) -> None:
        """Lose the response to the next write, or to a later one, and delay this write."""
        self._loses, self._reads_left, self._writes_left = True, reads, after

    async def get(self, key: Key) -> Item | None:
        if self._late is not None:
            await self._arrive_or_wait(self._late)
        return await super().get(key)

    async def write(self, write: SingleWrite, *, returning: bool = False) -> Item | None:
        make = super().write
        self._lose(lambda: make(write))
        return await make(write, returning=returning)

    async def transact(self, writes: Sequence[Write], *, token: str = "") -> None:
        make = super().transact
        self._lose(lambda: make(writes, token=token))
        await make(writes, token=token)

    def _lose(self, make: Callable[[], Awaitable[Any]]) -> None:
        if not self._loses or self._late is not None:
            return
        if self._writes_left == 0:
            self._late = make
            raise StoreUnavailable("lost")
        self._writes_left -= 1

    async def _arrive_or_wait(self, make: Callable[[], Awaitable[Any]]) -> None:
        self._reads_left -= 1
        if self._reads_left < 0:
            self._late, self._loses = None, False
            with suppress(WriteRefused):  # a retry may have made the write already
                await make()


def message(number: int) -> Message:
    return Message(message_id=f"m-{number}", role=Role.ROLE_USER, parts=[Part(text="Hello")])


def new_task(number: int) -> NewTask:
    return messages.new_task(
        message(number), CONTEXT, task_id=f"t-{number}", turn_id=f"turn-{number}", at=AT, context_is_new=False
    )


def status(state: str) -> TaskStatusUpdateEvent:
    at = timestamps.status_at(cast("TaskState", TaskState.Value(f"TASK_STATE_{state}")), AT)
    return TaskStatusUpdateEvent(task_id="t-1", context_id="c", status=at)


class Story:
    """Task store whose table is a LateTable, and the steps of a test on it."""

    def __init__(self) -> None:
        self.table = LateTable()
        self.store = TaskStore(self.table, MemoryBlobs(), ManualClock())

    async def begin(self) -> TurnStarted:
        begun = await self.store.create(new_task(1), holder="me")
        assert isinstance(begun, TurnStarted)
        return begun

    async def follow_up(self) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        log = await self.store.log(TaskKey("owner", "t-1"))
        assert log is not None
        sent = messages.follow_up(message(2), log.head, projection.fold(log.events), turn_id="turn-2", at=AT)
        return await self.store.follow_up(sent, holder="me")


@each_row("reads", ARRIVALS)
def test_create_returns_started_turn_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> TurnStarted:
        story.table.lose_write(reads)
        return await story.begin()

    assert isinstance(told(story), TurnStarted)


@each_row("reads", ARRIVALS)
def test_begin_starts_turn_once_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> TurnStarted | LeaseHeld | TurnSuspended | None:
        await story.store.create(new_task(1), holder=None)
        story.table.lose_write(reads)
        return await story.store.begin(CONTEXT, holder="me")

    begun = told(story)
    assert isinstance(begun, TurnStarted)
    assert begun.lease.turn.tries == 1


@each_row("reads", ARRIVALS)
def test_append_returns_updated_task_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> Head:
        begun = await story.begin()
        story.table.lose_write(reads)
        return await story.store.append(begun.lease, begun.head, status("WORKING"))

    assert told(story).generation == 3


@each_row("reads", ARRIVALS)
@each_row("run_next", [True, False])
def test_finish_returns_next_turn_although_response_was_lost(reads: int, run_next: bool) -> None:
    async def story(story: Story) -> TurnFinished:
        begun = await story.begin()
        await story.store.create(new_task(2), holder=None)
        # Lose the response of the second attempt: the first one fails, because it does not expect the queued turn.
        story.table.lose_write(reads, after=1)
        return await story.store.finish(begun.lease, begun.head, status("COMPLETED"), has_time=lambda: run_next)

    ended = told(story)
    assert (ended.next is not None, ended.waiting) == (run_next, not run_next)


@each_row("reads", ARRIVALS)
@each_row("state", ["COMPLETED", "INPUT_REQUIRED"])
def test_finish_ends_turn_although_response_was_lost(reads: int, state: str) -> None:
    async def story(story: Story) -> TurnFinished:
        begun = await story.begin()
        story.table.lose_write(reads)
        return await story.store.finish(begun.lease, begun.head, status(state))

    ended = told(story)
    assert TaskState.Name(ended.head.state) == f"TASK_STATE_{state}"
    assert (ended.next, ended.waiting) == (None, False)


@each_row("reads", ARRIVALS)
def test_cancel_reports_queued_turn_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> TurnFinished:
        begun = await story.begin()
        await story.store.create(new_task(2), holder=None)
        story.table.lose_write(reads)
        return await story.store.cancel(begun.head, status("CANCELED"))

    ended = told(story)
    assert ended.head.state == TaskState.TASK_STATE_CANCELED
    assert ended.waiting


@each_row("reads", ARRIVALS)
def test_pause_suspends_turn_once_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> TurnStarted | LeaseHeld | TurnSuspended | None:
        begun = await story.begin()
        story.table.lose_write(reads)
        await story.store.pause(begun.lease, made_progress=True)
        return await story.store.begin(CONTEXT, holder="other")

    begun = told(story)
    assert isinstance(begun, TurnStarted)
    assert begun.lease.turn.handoffs == 1


@each_row("reads", ARRIVALS)
def test_turn_waits_once_although_response_was_lost(reads: int) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)

    async def story(story: Story) -> tuple[Head, TurnSuspended, object, Head | None]:
        begun = await story.begin()
        story.table.lose_write(reads)
        head, suspended = await story.store.suspend(begun.lease, begun.head, status("WORKING"), key="w", until=until)
        key = begun.head.key
        return head, suspended, await story.store.begin(CONTEXT, holder="other"), await story.store.head(key)

    head, suspended, found, stored = told(story)
    assert found == suspended
    assert stored == head
    assert (head.generation, head.fence) == (3, 2)


@each_row("reads", ARRIVALS)
def test_follow_up_returns_started_turn_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        begun = await story.begin()
        await story.store.finish(begun.lease, begun.head, status("INPUT_REQUIRED"))
        story.table.lose_write(reads)
        return await story.follow_up()

    assert isinstance(told(story), TurnStarted)


@each_row("reads", ARRIVALS)
def test_follow_up_is_queued_although_response_was_lost(reads: int) -> None:
    async def story(story: Story) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        await story.begin()
        story.table.lose_write(reads)
        return await story.follow_up()

    assert isinstance(told(story), TurnQueued)


def told(story: Callable[[Story], Coroutine[Any, Any, T]]) -> T:
    return run(story(Story()))[0]
