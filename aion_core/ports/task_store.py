"""Where tasks live: an ordered log for each, one running turn for each context, and what is promised of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from aion_core.ports.push import PushConfig
from aion_core.ports.tasks import ContextKey, Cursor, DeltaBatch, Head, Lease, Log, TaskKey, Turn
from aion_core.protocol.types import Event, Message, Task


@dataclass(frozen=True, slots=True)
class NewTask:
    """What `TaskStore.create` keeps: a task, its first events, the message that asked for it, and its turn."""

    key: TaskKey
    context: ContextKey
    context_is_new: bool
    """True where the server made the contextId: nothing can be there yet, and nothing is read."""
    message_id: str
    content_hash: bytes
    """Of what D17 calls the content, to tell a repeat from a reused messageId."""
    events: Sequence[Event]
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request's metadata, kept with the first event."""
    idempotency_key: str = ""
    """What tells a repeat where the client named no context in which its messageId could be looked up (D17)."""
    push: PushConfig | None = None
    """Where the client wants to hear of the task, from its first event on; kept with it, or not at all."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What `TaskStore.follow_up` keeps: a message to a task that there is, and the turn that answers it."""

    head: Head
    """The task's head, as the caller knows it."""
    task: Task
    """The task, as the caller knows it: kept as a snapshot where the older events would expire before the task."""
    message_id: str
    content_hash: bytes
    event: Event
    """What sets an interrupted task to work again."""
    message: Message
    turn: Turn
    request: Mapping[str, Any] = field(default_factory=dict)
    push: PushConfig | None = None
    """Where the client wants to hear of the task from here on; kept with the message, or not at all."""


class WhenBusy(StrEnum):
    """What becomes of a message whose context is at work: `double_texting` in aion.yaml."""

    ENQUEUE = "enqueue"
    """It waits for its turn."""
    REJECT = "reject"
    """It is refused."""
    INTERRUPT = "interrupt"
    """What runs is canceled first."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn whose lease is held: run it."""

    lease: Lease
    head: Head


@dataclass(frozen=True, slots=True)
class TurnQueued:
    """The turn waits in its context."""

    head: Head
    until: datetime | None = None
    """Until when the lease holds that it waits for, as far as is known; None where it waits for nobody."""


@dataclass(frozen=True, slots=True)
class ContextInUse:
    """The context is at work, and nothing new was kept."""

    task_id: str
    """The task whose turn runs, or waits to be run first."""


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """Another holder runs a turn of the context."""

    fence: int
    """That of its lease."""
    until: datetime
    """When that lease runs out unless it is renewed."""


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A turn is over, and what it said last is recorded."""

    head: Head
    next: TurnStarted | None = None
    """The turn that waited, whose lease the same holder has from here on."""
    waiting: bool = False
    """Whether a turn waits that nobody has begun: a bell is due."""


@dataclass(frozen=True, slots=True)
class ExpiredTimer:
    """A context for which something was promised that has not happened, as an index tells it: a hint, no more."""

    context: ContextKey
    at: datetime
    """When it was due."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """This message is known: the task it made, or continued."""

    task_id: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A task of the context waits for an answer: the message is one, and nothing new was made."""

    task_id: str


MAX_WAITING = 20
"""How many turns may wait in one context."""


class TaskStore(Protocol):
    """Where tasks live between invocations: an ordered log for each, and one running turn for each context.

    Every method may raise StoreUnavailable; the same call may then be made again. Whatever is promised (a lease, a
    turn that waits) has a due time, by which `overdue` finds it where nobody has kept the promise. An event that who
    listens by push notifications may want to hear of (`Head.push_epoch`, `Head.push_events`) is due too, from its own
    commit on: `PushConfigs.overdue` finds it. A commit learns by itself of who has begun to listen meanwhile.
    """

    # ── What comes in ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(
        self, new: NewTask, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate | Interrupted:
        """Keep a new task with its first events, once per messageId of its context, all or nothing.

        Where the context is free its lease is taken in the same step (Begun); where it is busy, or `holder` is None,
        the turn waits (Waiting). Its push config is kept in the same step. A messageId (or idempotency key) that is
        known gives the first task's id back and changes nothing (Repeated); with another content it raises
        MessageIdReused. Nothing is made where a task of the context waits for an answer (Interrupted), and, unless
        `when_busy` is ENQUEUE, where the context is busy (Busy). Raises ContextBusy where too many turns wait.
        """
        ...

    async def follow_up(
        self, follow_up: FollowUp, *, holder: str | None, when_busy: WhenBusy = WhenBusy.ENQUEUE
    ) -> TurnStarted | TurnQueued | ContextInUse | Duplicate:
        """Keep a message to a task that has not ended, and its turn, all or nothing.

        An interrupted task is set to work: the event is recorded, and the context's lease taken in the same step, or,
        where `holder` is None, its turn is the first that waits. A task at work keeps the message for later: it is
        recorded when its turn begins (Waiting); by INTERRUPT its turn takes the place of the task's running turn
        (Begun), by REJECT nothing is kept (Busy). Its push config is kept in the same step, in the place of one of its
        id; TooManyPushConfigs is raised where the task has no room for it. Repeats as in `create`. Raises ContextBusy
        where too many turns wait, or where an interrupted task's context runs another turn; LeaseLost where the task is
        no longer as `follow_up.head` has it: read it again.
        """
        ...

    async def known(
        self, context: ContextKey, message_id: str, content_hash: bytes, *, idempotency_key: str = ""
    ) -> Duplicate | None:
        """Return what a repeat of this message gets, None where neither its context nor its idempotency key is known.

        Raises MessageIdReused where it is known with another content.
        """
        ...

    # ── A turn ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, context: ContextKey, *, holder: str) -> TurnStarted | LeaseHeld | None:
        """Take the lease of the turn whose time has come: the one whose holder is gone, else the first that waits.

        Returns Held while a live lease is held; None where nothing waits, and while a task of the context waits for an
        answer. The fence grows by one each time, and `turn.tries` counts it. The message of a follow-up to a task that
        was at work is recorded now, in the same step, and `turn.message_generation` says where.
        """
        ...

    def renew(self, lease: Lease) -> bool:
        """Keep the lease for another term; False when it is no longer the holder's.

        Blocking, to be called from a thread of its own: an agent may block the event loop.
        """
        ...

    def holds(self, lease: Lease) -> bool:
        """Tell whether the lease's fence is still that of its task: nobody has taken the turn over, or canceled it.

        Blocking, as `renew` is.
        """
        ...

    async def append(self, lease: Lease, head: Head, event: Event, *, key: str = "") -> Head:
        """Record the event as number `head.generation + 1` and return the new head; cost does not depend on the task.

        `key` is kept with the event. A repeat after a lost answer finds its own record. Raises LeaseLost where the
        fence has moved on, or the task has been ended by somebody else; nothing is recorded then.
        """
        ...

    async def finish(
        self, lease: Lease, head: Head, event: Event, *, go_on: bool = False, snapshot: Task | None = None
    ) -> TurnFinished:
        """Record the last event of the turn and give its lease back, in one step; with `go_on`, for the next turn's.

        The next turn is begun as by `begin`, by the same holder. Where the event interrupts the task, the context
        remembers it, and no other turn begins before the answer. `snapshot` is the task with this event: a reader may
        begin there. Raises PendingInput where the event would end the task and a message waits for it, LeaseLost as
        `append` does; nothing is recorded then.
        """
        ...

    async def pause(self, lease: Lease, *, made_progress: bool, spent: bool = True) -> None:
        """Leave the turn to the next process that begins it; its timer expires when a wake-up message has had its time.

        With `made_progress` this counts as a handoff, and the tries begin anew. Without `spent`, if the agent never ran, this try
        does not count. Raises LeaseLost.
        """
        ...

    async def append_deltas(self, key: TaskKey, batch: DeltaBatch) -> None:
        """Keep a batch of transient chunks for tailing readers; they expire within the hour."""
        ...

    async def cancel(self, head: Head, event: Event) -> TurnFinished:
        """Record from outside that the task has ended, and end whatever turns it has: one that runs, or wait.

        The fence grows, so that nothing is recorded for the task after this. Raises LeaseLost where the task is no
        longer as `head` has it: read it again.
        """
        ...

    # ── What is read ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def head(self, key: TaskKey) -> Head | None:
        """Return the task's head as it is now, None where there is no such task."""
        ...

    async def log(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the head and every event after that generation, None where there is no such task.

        Consistent: the events reach up to the head's generation, without a gap. From the start, the first entry may be
        a snapshot instead: a Task under the generation of the last event in it. So it may where the events after
        `after` are gone. A log with a gap that no snapshot closes is no task: None.
        """
        ...

    async def every_event(self, key: TaskKey, *, after: int = 0) -> Log | None:
        """Return the log as `log` does, but from the start too without a snapshot: each event, where they are all there."""
        ...

    async def deltas(self, key: TaskKey, *, since: Cursor) -> Sequence[DeltaBatch]:
        """Return the batches whose (generation, fence, first) is the cursor's or greater, in that order."""
        ...

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int) -> Sequence[ExpiredTimer]:
        """Return contexts whose due time has passed, the longest overdue first, at most so many; it may lag behind."""
        ...

    async def claim(self, expired_timers: ExpiredTimer) -> bool:
        """Take it upon oneself to wake the context: True where it is still overdue, and nobody else has.

        It is due again soon, unless somebody begins its turn before.
        """
        ...
