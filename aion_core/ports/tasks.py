"""What there is of a task: its keys, its head, its turns and who runs them, and the entries of its log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from aion_core.protocol.types import Event, Message, TaskState

ANONYMOUS = "anonymous"
"""The owner where nobody is asked who they are: the agent declares no scheme, which no deployed one may."""


@dataclass(frozen=True, slots=True)
class ContextKey:
    """A conversation: the same contextId of another owner, or with another agent, is another conversation."""

    owner: str
    agent: str
    context_id: str


@dataclass(frozen=True, slots=True)
class TaskKey:
    """A task; the owner is part of the key, so a foreign task cannot even be asked for."""

    owner: str
    task_id: str


class PushEvents(StrEnum):
    """Of which of a task's events those are told who have asked for push notifications: `push.events` in aion.yaml."""

    STATUS = "status"
    """Its status updates."""
    STATUS_AND_ARTIFACT = "status+artifact"
    """Its artifacts too."""
    ALL = "all"
    """Every durable event: the task as it was made, and messages too."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a task without reading its log."""

    key: TaskKey
    context: ContextKey
    state: TaskState
    """The state after the newest event."""
    timestamp: datetime
    """When that state was entered."""
    generation: int
    """How many durable events the log holds: they are numbered 1..generation without a gap."""
    fence: int
    """The fence of the lease that may append; 0 before the first turn has begun."""
    push_epoch: int = 0
    """How often somebody has begun to listen by push notifications, or the last one has ceased to: a commit is made
    only by who knows them all."""
    push_events: PushEvents | None = None
    """Which events they may want to hear of, all of them together; None where nobody listens."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message to be answered: it waits in its context, then it runs."""

    id: str
    task_id: str
    message_generation: int
    """Generation of the event that holds the message; 0 while it waits for a task that is still at work."""
    tries: int = 0
    """How often a runner has begun it, and not come to its end nor handed it on."""
    handoffs: int = 0
    """How often it was handed on because its runner's time was up, and had got on until then."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one turn of a context, and to append to its task, until somebody raises the fence."""

    context: ContextKey
    turn: Turn
    holder: str
    fence: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """A durable event with its number in the task's log."""

    generation: int
    event: Event
    message: Message | None = None
    """The client's message that the event took in; it precedes the event in the task's history."""
    key: str = ""
    """What tells an emission from its repeat, where a node runs again; "" where none can come."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What came with the client's message beside it: the request's own metadata (R51)."""


@dataclass(frozen=True, slots=True)
class Log:
    """A task's head and its durable events from some generation on, in order and without a gap."""

    head: Head
    events: tuple[Numbered, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """A transient chunk of text, spoken as the model speaks it; never part of the task (R62)."""

    text: str
    append: bool
    """False on the first chunk of a stream delta (D9)."""
    last: bool = False
    """True on its closing chunk, once (D10)."""
    reason: str = ""
    """Why it was closed: `complete_message`, or `interrupted`; on the closing chunk only."""


@dataclass(frozen=True, slots=True)
class DeltaBatch:
    """Consecutive chunks that follow event `generation`; `first` is the number of the first, from 0."""

    generation: int
    fence: int
    first: int
    chunks: tuple[Delta, ...]


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """What a reader has heard: event `generation`, and of the chunks that follow it, under `fence`, the first `n`."""

    generation: int = 0
    fence: int = 0
    n: int = 0
