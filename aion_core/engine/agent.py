"""Agent port: the input of a turn, the agent's emissions, and the endings of a turn."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from aion_core.engine.agent_profile import AgentProfile
from aion_core.engine.records import AwaitedCall, Numbered, Turn
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallToCancel, RemoteCall
from aion_core.engine.remote_calls.turn_calls import TurnCalls
from aion_core.engine.turn.sleeps import TurnSleeps
from aion_core.protocol.types import Artifact, Message, Task, TaskState
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.trace.recorder import TurnTrace

History = Callable[[int, str | None], Awaitable[Sequence[Message]]]
"""Function that returns the last `limit` messages of a context, or the last before a messageId, oldest first."""


class TurnRequest(Struct, frozen=True):
    """Input of the agent for one turn."""

    context: ContextKey
    turn: Turn
    fence: int
    task: Task
    """The task, including the client's message."""
    message: Message
    """The client's message to answer."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the client's request: distribution, network, trace."""
    recorded: Sequence[Numbered] = ()
    """The events recorded by earlier tries of this turn, without those that say what it waited for."""
    drain: asyncio.Event = field(default_factory=asyncio.Event)
    """Set near the deadline of the process. An agent with steps should then end as Paused at its next step boundary."""
    history: History | None = None
    """Reads the context's messages before this turn; None without a store."""
    before: Callable[[], Task | None] = lambda: None
    """Returns the task before the message, with its interrupts; None if the message created the task."""
    calls: TurnCalls | None = None
    """The turn's calls of remote agents; None without a store."""
    sleeps: TurnSleeps | None = None
    """The turn's sleeps; None without a store."""
    check_lease: Callable[[], None] = lambda: None
    """Raises LeaseLost if another process may have the turn. Call it before each step: it costs a look at the clock."""
    trace: TurnTrace | None = None
    """Records what the agent does, for its developer; None if nobody stores or exports it."""


class Chunk(Struct, frozen=True):
    """A streamed part of a model call's text."""

    text: str
    message_id: str
    """Id of the model call's message, the same in all of its chunks."""
    breaks_off: bool = False
    """True if the model call failed, so that its message stays incomplete. A chunk with this flag has no text."""
    ends: bool = False
    """True on the last chunk of a complete message; its text may be empty. It closes the message's stream delta."""
    speaker: Mapping[str, str] | None = None
    """Metadata of the stream delta: messageId and, if known, node, agent and branch; read from its first chunk."""


class AgentMessage(Struct, frozen=True):
    """A message of the agent before its final answer, stored in the task."""

    message: Message
    key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the status update, merged into the task's metadata."""


class AgentMetadata(Struct, frozen=True):
    """Metadata to merge into the task's metadata, key by key."""

    metadata: Mapping[str, Any]
    key: str = ""


class AgentArtifact(Struct, frozen=True):
    """A whole artifact of the task, or a part to append to one."""

    artifact: Artifact
    append: bool = False
    last_chunk: bool = True
    key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the artifact update event, besides the artifact's own metadata."""


class Batch(Struct, frozen=True):
    """Emissions that waited for the log at the same time. They are recorded in order, in one write."""

    emissions: Sequence[AgentMessage | AgentMetadata | AgentArtifact]
    """At most MOST_TOGETHER."""


class AgentTyping(Struct, frozen=True):
    """Typing indicator. It is streamed but not stored."""


class InputRequired(Struct, frozen=True):
    """Ending of a turn that interrupts its task to require input. Message and metadata name the interrupts."""

    message: Message
    state: TaskState = TaskState.TASK_STATE_INPUT_REQUIRED
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Reply(Struct, frozen=True):
    """Ending of a turn with a final answer, or without an answer."""

    message: Message | None
    state: TaskState = TaskState.TASK_STATE_COMPLETED
    metadata: Mapping[str, Any] = field(default_factory=dict)
    as_message: bool = False
    """True if the agent answered with a Message in place of a task, as an `AgentExecutor` may do."""


class Paused(Struct, frozen=True):
    """Ending of a turn that stopped at a step boundary near the deadline. Another process resumes it there."""


class Suspended(Struct, frozen=True):
    """Ending of a turn that waits for a time, or for the first answer of some remote calls. Nothing runs meanwhile.

    The task stays `working`, and its status says what it waits for. Then the turn resumes, which is not another try.
    """

    key: str
    """Identifies the wait in its task: see `Wait.key`."""
    about: str
    """Sentence for the client: it says what the task waits for."""
    until: datetime | None = None
    """Time at which the turn resumes in any case. None means a day later, or before the task expires."""
    calls: Sequence[AwaitedCall] = ()


class StepCompleted(Struct, frozen=True):
    """Notice that a step is complete and stored. If the turn is interrupted, it resumes after this step."""


class TaskUsed(Struct, frozen=True):
    """Notice that the agent has chosen to answer with its task: the client then gets the task instead of a Message."""


Ending = Reply | InputRequired | Paused | Suspended
Durable = AgentMessage | AgentMetadata | AgentArtifact
"""Emission that is recorded as an event of the task."""

Emission = StepCompleted | TaskUsed | Chunk | Durable | Batch | AgentTyping | Ending


class Agent(Protocol):
    """An agent that answers messages: a LangGraph graph, an ADK agent, an AgentExecutor."""

    def load(self) -> None:
        """Import the agent's code before its first turn. A repeated call has no effect.

        Raises ConfigurationError if the code cannot be loaded.
        """
        ...

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Answer the client's message: yield chunks and other emissions, then exactly one Ending.

        The caller records each emission, including the Ending, before it requests the next one. After the Ending the
        agent's code has a few seconds to finish. Errors of the agent's code are raised.
        """
        ...

    def profile(self) -> AgentProfile:
        """Return what the agent's code says about the agent. Before the code is loaded this is `UNKNOWN`."""
        ...


@runtime_checkable
class CallsRemoteAgents(Protocol):
    """An agent that calls remote agents in a way of its own, and so looks at their tasks and cancels them itself."""

    async def cancel_remote(self, call: CallToCancel) -> Canceled:
        """Ask the call's remote agent to cancel its task. Any exception means that it was not reached."""
        ...

    async def look_at_remote(self, context: ContextKey, task: TaskKey, call: RemoteCall) -> Task:
        """Return the remote task of a call. Raises ConfigurationError if the turn has to find out what is wrong."""
        ...


@runtime_checkable
class NoticesCancellations(Protocol):
    """An agent whose code may hold something for a task that waits for the client, and release it on cancellation."""

    async def canceled(self, task: TaskKey) -> None:
        """Tell the agent's code that the task was canceled. It may be told again. Raises StoreError."""
        ...
