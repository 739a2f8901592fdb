"""Records of the engine: the head of a task, turns and leases, log entries and streamed text."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from aion_core.engine.agent_options import PushEvents
from aion_core.protocol.types import Event, Message, TaskState
from aion_core.table.keys import ContextKey, TaskKey


class Head(Struct, frozen=True):
    """Current state of a task without its log: state, newest event number, fence (fencing token), push subscribers."""

    key: TaskKey
    context: ContextKey
    state: TaskState
    """State of the task after its newest event."""
    timestamp: datetime
    """Timestamp of the status update to `state`."""
    generation: int
    """Number of durable events in the log, numbered 1..generation without a gap."""
    fence: int
    """Fence of the only lease that may append events; 0 before the first turn."""
    push_epoch: int = 0
    """Number of changes of the push subscribers. A commit with an old number is refused: it could omit a subscriber."""
    push_events: PushEvents | None = None
    """Kinds of events wanted by any push subscriber; None without subscribers."""
    calls: int = 0
    """Number of remote calls that the task has begun. A cancellation with an old number is refused."""


class StoppedBy(StrEnum):
    """Cause that stopped an attempt to run a turn before the turn's end."""

    DEADLINE = "deadline"
    """The process that ran the turn reached its deadline."""
    STORE = "store"
    """A read or write of the task store failed."""
    WORKER = "worker"
    """The process that ran the turn died or froze, so that its lease expired."""


class AwaitedCall(Struct, frozen=True, omit_defaults=True):
    """Call of a remote agent whose answer a suspended turn awaits."""

    key: str
    """Key of the call in its task: see `RemoteCall.key`."""
    remote: str
    remote_task: str
    agent: str = ""
    """Name of the ADK agent that makes the call: see `RemoteCall.agent`."""
    calls_back: bool = False
    """True while the remote agent has a one-use token to report the end of its task."""


class Wait(Struct, frozen=True):
    """Wait of a suspended turn for a time, or for the first answer of some remote calls. Times are milliseconds."""

    key: str
    """Identifies the wait in its task. A turn that suspends twice under one key has made no progress in between."""
    since: int
    until: int
    """Time at which the turn resumes in any case."""
    calls: tuple[AwaitedCall, ...] = ()
    """Empty if the turn waits for a time only."""

    @property
    def expects_callbacks(self) -> bool:
        """True if the turn waits for remote agents, and each of them has promised to report the end of its task."""
        return bool(self.calls) and all(call.calls_back for call in self.calls)


class Turn(Struct, frozen=True):
    """Execution of one client message. A turn may first wait in the queue of its context."""

    id: str
    task_id: str
    message_generation: int
    """Number of the event with the client's message; 0 while the message waits for its running task."""
    tries: int = 0
    """Number of times the turn has begun since its last progress."""
    handoffs: int = 0
    """Number of suspensions after progress. If a holder dies after progress, its predecessors' tries are added."""
    stopped_by: StoppedBy | None = None
    """Cause of the stop of the last counted try; None during the first try."""
    wait: Wait | None = None
    """Last wait of the turn. It may be over: see `ContextRecord.wait`."""


class Lease(Struct, frozen=True):
    """Right to run one turn of a context and to append to its task. A higher fence (fencing token) revokes it."""

    context: ContextKey
    turn: Turn
    holder: str
    fence: int


class Numbered(Struct, frozen=True):
    """A stored event with its number in the task's log."""

    generation: int
    event: Event
    message: Message | None = None
    """The client's message recorded by the event; it precedes the event in the task's history."""
    key: str = ""
    """Key of the agent's emission or "". If a node runs again, its emission with a recorded key is skipped."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the request with the client's message."""


class Log(Struct, frozen=True):
    """A task's head (current state) and its stored events after some number, in order and without a gap."""

    head: Head
    events: tuple[Numbered, ...]


COMPLETE, CUT = "complete_message", "interrupted"
"""Reasons for closing a stream delta, as Aion's clients know them: the model call ended, or it was interrupted."""


class Delta(Struct, frozen=True):
    """A chunk of the agent's text. It is streamed, but never becomes part of the task."""

    text: str
    append: bool
    """False on the first chunk of a stream delta."""
    last: bool = False
    """True on the closing chunk of a stream delta."""
    reason: str = ""
    """COMPLETE or CUT; on the closing chunk only."""
    speaker: Mapping[str, Any] | None = None
    """Metadata of the stream delta: messageId and, if known, node, agent and branch; on the first chunk only."""
    artifact_id: str = ""
    """Id of the artifact that the text is streamed to, with `answer: artifact`; "" for the stream delta. Never stored."""


class Cursor(Struct, frozen=True, order=True):
    """Position in a stream: after event number `generation` and the first `n` chunks of text that follow this event.

    `fence` is the fencing token of the turn that wrote these chunks.
    """

    generation: int = 0
    fence: int = 0
    n: int = 0


class OpenText(Struct, frozen=True):
    """Streamed text (stream delta) that began before an event and continues after it."""

    until: Cursor
    """Cursor of a reader that has received exactly this text: such a reader does not need the text again."""
    text: str | None
    """The text; None if it is too long to be stored again."""
    speaker: Mapping[str, str] | None = None
    """Metadata of the stream delta, from its first chunk."""


class DeltaBatch(Struct, frozen=True):
    """Consecutive chunks of text after event number `generation`. `first` is the number of the first chunk, from 0."""

    generation: int
    fence: int
    first: int
    chunks: tuple[Delta, ...]
    continues: OpenText | None = None
    """Text before chunk 0, if chunk 0 continues the stream delta from before the event."""
