"""Record of a schedule: events, responses, streams, leases, actions of agents, and faults."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Delta, Numbered
from aion_core.protocol.types import Message, Task, TaskState, stream_response
from aion_core.push.client import PostOutcome
from aion_core.table.keys import ContextKey, TaskKey


@dataclass(frozen=True)
class Entry:
    """Recorded event, with the time of its commit."""

    at: float
    process: str
    how: str
    numbered: Numbered
    state: TaskState
    """State of the head after the event."""
    bytes: bytes
    visible: float
    """Time from which every query returns it; until then a half-made transaction may hide it."""


@dataclass
class Hold:
    """Lease of a turn, with the time of its acquisition, of its expiry and of its end."""

    at: float
    process: str
    context: ContextKey
    turn: str
    task_id: str
    fence: int
    tries: int
    until: float
    over: float | None = None
    """Time of the lease's release, or of its removal by a cancel; None while it is held."""


class Write(Struct, frozen=True):
    """Commit that a lease holder made, with the fence of its lease."""

    at: float
    process: str
    how: str
    context: ContextKey
    fence: int
    newest: int
    """Newest fence of the context at the commit."""


@dataclass
class Asking:
    """Request that a client sent, and its result."""

    client: str
    owner: str
    what: str
    at: float
    message_id: str = ""
    task_id: str = ""
    context: str = ""
    key: str = ""
    """Idempotency key of the request."""
    process: str = ""
    answered: float | None = None
    answer: Any = None
    """A Task, a tuple of ids, or the exception."""
    before: int = 0
    """Number of the task's events at the time of the request."""


@dataclass
class Hearing:
    """Everything that a client received on one connection."""

    client: str
    owner: str
    at: float
    cursor: str = ""
    """Last-Event-ID of the request."""
    after: "Hearing | None" = None
    """Connection continued by this one."""
    heard: list[tuple[float, str, Any]] = field(default_factory=list)
    how: str = ""
    """End of the connection: "clean", "left" (by the client), "broken" or "refused"."""
    ended: float = 0.0
    seconds_left: float = 0.0
    """Seconds between a clean end and the deadline of the server's process."""
    subscribes: bool = False
    """True for a subscription, False for the stream of a message."""
    process: str = ""
    task_id: str = ""


class Did(Struct, frozen=True):
    """Action of an agent in a turn, with the fence of the turn's lease."""

    at: float
    process: str
    context: ContextKey
    turn: str
    task_id: str
    fence: int
    what: str
    step: int
    message_id: str = ""
    current: bool = True
    """True if the agent's fence was still the newest of the context."""


@dataclass(frozen=True)
class Listening:
    """Push config, with the time of its registration and the number of events that the task then had."""

    at: float
    task: TaskKey
    config: PushConfig
    after: int
    """Number of the task's events at the registration."""


@dataclass(frozen=True)
class Post:
    """Push notification that the webhook received, with its time of arrival."""

    at: float
    process: str
    task: TaskKey
    config_id: str
    generation: int
    id: str
    outcome: PostOutcome
    claimed: float
    """Time of the posting process's last claim of the config."""


class History:
    """Everything recorded of one schedule, in order of time."""

    def __init__(self) -> None:
        self.log: dict[TaskKey, list[Entry]] = {}
        self.context_of: dict[TaskKey, ContextKey] = {}
        self.holds: list[Hold] = []
        self.writes: list[Write] = []
        self.askings: list[Asking] = []
        self.hearings: list[Hearing] = []
        self.agent: list[Did] = []
        self.short_invocations = 0
        """Number of invocations of one minute, which is too short for a long step."""
        self.faults: list[tuple[float, str, str, str]] = []
        """(time, fault, kind of side effect, process)"""
        self.resting: dict[TaskKey, float] = {}
        self.troubled: set[str] = set()
        """Processes with a fault."""
        self.deaths: dict[str, float] = {}
        """Time of each process's death."""
        self.blocked: list[tuple[str, float, float]] = []
        """(process, begin, end) of each block of the event loop by an agent's code."""
        self.unheard = False
        """True if an invocation ended before the result of an operation that may begin a turn, as in a death."""
        self.claimed: list[ContextKey] = []
        """Contexts claimed by sweeps, without a wake-up message yet."""
        self.spoken: dict[tuple[str, int], dict[str, str]] = {}
        """Texts streamed by the agent: for each task id and fence, the text of each message."""
        self.streamed: dict[tuple[TaskKey, str], Delta] = {}
        """Stored chunks, by their task and SSE id."""
        self.unreadable: set[str] = set()
        """Ids of tasks with a lost blob."""
        self.recalled: list[tuple[ContextKey, str, tuple[str, ...]]] = []
        """Histories read by agents: (context, message answered, ids of the messages)."""
        self.listenings: list[Listening] = []
        self.posts: list[Post] = []
        self.registered: dict[tuple[TaskKey, str], float] = {}
        """Time of each push config's last registration."""
        self.deleted: dict[tuple[TaskKey, str], float] = {}
        """Time of each push config's deletion."""
        self.claims: dict[tuple[str, TaskKey, str], float] = {}
        """Time of each process's last claim of a config."""
        self.spared: Counter[tuple[TaskKey, str]] = Counter()
        """Number of attempts skipped for a push config by the circuit breaker of its host."""
        self.claimed_pushes: list[TaskKey] = []
        """Tasks with notifications claimed by sweeps, without a wake-up message yet."""
        self.work_queue = 0
        self.surprises: list[str] = []
        """Unexpected exceptions."""

    def fence(self, context: ContextKey) -> int:
        """Return the newest fence of the context."""
        return max((hold.fence for hold in self.holds if hold.context == context), default=0)

    def forget(self, context: ContextKey) -> None:
        """Note that an expired context was deleted: the fences of its successor begin at 1 again.

        The leases, commits and actions of the expired context get another context id, apart from those of its
        successor.
        """
        expired = replace(context, context_id=f"{context.context_id} (expired, {len(self.holds)})")
        for hold in self.holds:
            if hold.context == context:
                hold.context = expired
        self.writes = [replace(each, context=expired) if each.context == context else each for each in self.writes]
        self.agent = [replace(each, context=expired) if each.context == context else each for each in self.agent]

    def holds_still(self, context: ContextKey, fence: int) -> bool:
        """Return True if this is the newest lease of the context, and it was neither released nor transferred."""
        newest = max(
            (hold for hold in self.holds if hold.context == context), key=lambda hold: hold.fence, default=None
        )
        return newest is not None and newest.fence == fence and newest.over is None


def plain(event: Any) -> bytes:
    """Return the event as a value that can be compared with other events."""
    return stream_response(event).SerializeToString(deterministic=True)


def state_of(events: Sequence[Entry]) -> TaskState | None:
    """Return the state after these events."""
    return events[-1].state if events else None


def users_messages(task: Task) -> list[Message]:
    """Return the client's messages in a task."""
    from aion_core.protocol.types import Role

    return [message for message in task.history if message.role == Role.ROLE_USER]
