"""Task store port: an event log per task, one running turn per context, and the outcomes of the operations."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field

from aion_core.ports.push import PushConfig
from aion_core.ports.tasks import ContextKey, Cursor, DeltaBatch, Head, Lease, Log, StoppedBy, TaskKey, Turn
from aion_core.protocol.types import Event, Message, Task, TaskStatusUpdateEvent


class NewTask(Struct, frozen=True):
    """Input of `TaskStore.create`: a task with its message, first events and turn."""

    key: TaskKey
    context: ContextKey
    context_is_new: bool
    """True if the server has just generated the contextId: the store then need not read the context's record."""
    message_id: str
    content_hash: bytes
    """Hash of the message's content, to distinguish a repeat from a reused messageId."""
    events: tuple[Task | TaskStatusUpdateEvent, ...]
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request's metadata, stored with the first event."""
    idempotency_key: str = ""
    """The client's Idempotency-Key, to recognise a repeat of a message without contextId."""
    push: PushConfig | None = None
    """The client's push config, stored in the task's transaction. Its webhook receives all events."""


class FollowUp(Struct, frozen=True):
    """Input of `TaskStore.follow_up`: a message to an existing task, and its turn."""

    head: Head
    """The task's head as read by the caller."""
    task: Task
    """The task as read by the caller. It is stored as a snapshot if older events would expire before the task."""
    message_id: str
    content_hash: bytes
    event: Event
    """The status update that sets an interrupted task to TASK_STATE_WORKING."""
    message: Message
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    push: PushConfig | None = None
    """The client's push config, stored in the message's transaction. Its webhook receives later events."""


class WhenBusy(StrEnum):
    """Policy for a message to a busy context: `double_texting` in aion.yaml."""

    ENQUEUE = "enqueue"
    """The message waits in the context's queue."""
    REJECT = "reject"
    """The message is refused with an error."""
    INTERRUPT = "interrupt"
    """The running task is canceled first."""


class TurnStarted(Struct, frozen=True):
    """Outcome: the caller now holds the lease of a turn (the right to run it) and must run the turn."""

    lease: Lease
    head: Head


class TurnQueued(Struct, frozen=True):
    """Outcome: the turn is in the queue of its context."""

    head: Head
    until: datetime | None = None
    """End of the running turn's lease, if a turn runs and its lease is known; None otherwise."""


class ContextInUse(Struct, frozen=True):
    """Outcome: the message was not stored, because the context is busy."""

    task_id: str
    """Task of the running turn, or of the first waiting turn."""


class LeaseHeld(Struct, frozen=True):
    """Outcome: another process has the lease of the context (the right to run its turns)."""

    fence: int
    """Fence of the other holder's lease."""
    until: datetime
    """End of the other holder's lease, unless it is renewed."""


class TurnFinished(Struct, frozen=True):
    """Outcome: the end of a turn is recorded."""

    head: Head
    next: TurnStarted | None = None
    """The next turn, leased by the same holder."""
    waiting: bool = False
    """True if a turn is queued without a holder: the caller must enqueue a wake-up message."""


class ExpiredTimer(Struct, frozen=True):
    """Expired timer (time of a wake-up) of a context, read from an index that may be outdated."""

    context: ContextKey
    at: datetime
    """Time at which the timer expired."""


class Duplicate(Struct, frozen=True):
    """Outcome: the message was already stored, with the task `task_id`."""

    task_id: str


class Interrupted(Struct, frozen=True):
    """Outcome: the message was not stored, because a task of the context requires input: the message must answer it."""

    task_id: str


MAX_WAITING = 20
"""Maximum number of turns in the queue of one context."""


class TaskStore(Protocol):
    """Store of tasks: an event log per task, and at most one running turn per context.

    Every method may raise StoreUnavailable; the caller may repeat the call. A lease (right to run a turn) and a queued
    turn have a timer (time of a wake-up), and `expired_timers` finds the timer after this time. An event for push
    subscribers (`Head.push_epoch`, `Head.push_events`) has a timer too: `PushConfigs.expired_timers` finds it. If the
    subscribers have changed, a commit reads them again.
    """

    # ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate | Interrupted:
        """Store a new task with its first events and push config atomically, once per messageId of its context.

        In a free context the turn gets the lease (TurnStarted). In a busy context, or without `holder`, the turn is
        queued (TurnQueued). A known messageId or idempotency key returns the first task (Duplicate), or raises
        MessageIdReused for other content. Nothing is stored if a task of the context requires input (Interrupted), or
        if the context is busy and `when_busy` is not ENQUEUE (ContextInUse). Raises ContextBusy if the queue is full,
        and InputNotRequired for an answer to an interrupt if no task of the context requires input.
        """
        ...

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        """Store a message to a task that has not ended, with its turn and push config, atomically.

        An interrupted task resumes: the event is recorded, and the turn gets the lease or, without `holder`, the first
        place in the queue. For a running task the message is queued, and is recorded when its turn begins (TurnQueued).
        With INTERRUPT its turn replaces the task's running turn (TurnStarted); with REJECT nothing is stored
        (ContextInUse). A push config with the same id is replaced; raises TooManyPushConfigs at the limit. For repeats,
        see `create`. Raises ContextBusy if the queue is full. Raises LeaseLost if the task has changed since
        `follow_up.head` was read: read it again.
        """
        ...

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Duplicate | None:
        """Return the task of a stored message; None for a new message. Raises MessageIdReused for other content."""
        ...

    # ── Turns ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, context: ContextKey, *, holder: str) -> TurnStarted | LeaseHeld | None:
        """Lease the context's running turn if its lease has expired, else the first queued turn.

        Return LeaseHeld while another lease is in force. Return None if the queue is empty, or while a task of the
        context requires input. The fence and `turn.tries` grow by one. If the previous holder died after it had stored
        a step, `turn.tries` is 2, because that holder tried the next step once. A message that was queued for its
        running task is recorded in the same transaction, as event `turn.message_generation`.
        """
        ...

    def renew(self, lease: Lease) -> bool:
        """Extend the lease for another term. Return False if another holder has the context's lease.

        The call blocks, for use in a separate thread: an agent may block the event loop.
        """
        ...

    def holds(self, lease: Lease) -> bool:
        """Return True while the lease is valid: no other holder has taken it, and the task is not canceled. Blocks."""
        ...

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        """Record a turn's event as number `head.generation + 1` of its task and return the task's new head.

        The cost does not depend on the log's length. `key` is stored with the event. A repeat after a lost response
        finds the recorded event. If the fence has changed or another process has ended the task, nothing is recorded
        and LeaseLost is raised.
        """
        ...

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, run_next: bool = False, snapshot: Task | None = None
    ) -> TurnFinished:
        """Record the turn's last event and release the lease atomically. With `run_next`, lease the next turn.

        The next turn begins as by `begin`, with the same holder. If the event interrupts the task, no turn begins
        before the client's answer. `snapshot` is the task after this event; readers of the log begin with it. If a
        message is queued for the task that the event would end, nothing is recorded and PendingInput is raised. Raises
        LeaseLost as `append` does.
        """
        ...

    async def pause(
        self, lease: Lease, *, made_progress: bool, stopped_by: StoppedBy | None = StoppedBy.DEADLINE
    ) -> None:
        """Suspend the turn so that another process can lease it. Its timer expires after one lease term.

        With `made_progress` the suspension counts as a handoff and resets the tries. Otherwise, if `stopped_by` is
        None, the agent never ran, and the try does not count. Raises LeaseLost.
        """
        ...

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """Store a batch of text chunks for readers in other processes. It expires within the hour."""
        ...

    async def cancel(self, head: Head, event: Event) -> TurnFinished:
        """Record the cancellation of the task, and remove its running and queued turns.

        The fence grows, so that later events of these turns are refused. Raises LeaseLost if the task has changed since
        `head` was read: read it again.
        """
        ...

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def head(self, key: TaskKey) -> Head | None:
        """Return the task's head (state and event number); None if the task does not exist. The read is consistent."""
        ...

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the task's head and its events after number `after`; None if the task does not exist.

        The read is consistent: the events reach the head's event number without a gap. The first entry may be a
        snapshot, a Task with the number of its last event: at the start of the log, or in place of expired events.
        Return None also for a log with a gap and no snapshot.
        """
        ...

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the task's log as `log` does, but with events instead of a snapshot if all events are stored."""
        ...

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """Return the task's chunk batches from the cursor on, sorted by generation, fence and first number."""
        ...

    # ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int, complete: bool = False) -> Sequence[ExpiredTimer]:
        """Return up to `limit` contexts with expired timers, longest overdue first. The index may be outdated.

        If parts of the index cannot be read, they are logged and left out; with `complete`, raises StoreError.
        """
        ...

    async def claim(self, timer: ExpiredTimer) -> bool:
        """Claim the timer to wake its context. Return False if it is no longer expired or another process claimed it.

        The claim sets the timer again, in case the wake-up message is lost.
        """
        ...
