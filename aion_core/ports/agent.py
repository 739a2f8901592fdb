"""Agent port: the input of a turn, its emissions, and its endings."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from aion_core.ports.tasks import ContextKey, Numbered, Turn
from aion_core.protocol.types import Artifact, Message, Task, TaskState

History = Callable[[int, str | None], Awaitable[Sequence[Message]]]
"""Returns the last `limit` messages of a context, oldest first; with a messageId, those before that message."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Input of one turn."""

    context: ContextKey
    turn: Turn
    fence: int
    task: Task
    """The task, including the message."""
    message: Message
    """The client's message."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request's metadata: distribution, network, trace."""
    recorded: Sequence[Numbered] = ()
    """The events recorded by earlier tries of this turn."""
    drain: asyncio.Event = field(default_factory=asyncio.Event)
    """Set near the runner's deadline: the agent should end as Paused at its next step boundary, if it has steps."""
    history: History | None = None
    """Reads the context's messages before this turn; None without a store."""
    before: Callable[[], Task | None] = lambda: None
    """Returns the task before the message, with its interrupts; None if the message created the task."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Text of a model call as it streams."""

    text: str
    message_id: str
    """Identifies the model call."""
    breaks_off: bool = False
    """True if the model call failed: the message stays incomplete. The chunk has no text."""


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A durable message before the final answer."""

    message: Message
    key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the status update, merged into the task's."""


@dataclass(frozen=True, slots=True)
class AgentMetadata:
    """Metadata of the task, merged key by key."""

    metadata: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class AgentArtifact:
    """An artifact, whole or in chunks."""

    artifact: Artifact
    append: bool = False
    last_chunk: bool = True
    key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the update beside the artifact's own."""


@dataclass(frozen=True, slots=True)
class AgentTyping:
    """Typing indicator: streamed, not stored."""


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Ending of a turn that interrupts its task: the message and metadata name its interrupts."""

    message: Message
    state: TaskState = TaskState.TASK_STATE_INPUT_REQUIRED
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """Ending of a turn with the durable answer, or without one."""

    message: Message | None
    state: TaskState = TaskState.TASK_STATE_COMPLETED
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Paused:
    """Ending of a drained turn at a step boundary; another process resumes it from there."""


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """A completed and stored step: an interrupted turn resumes after it."""


Ending = Reply | InputRequired | Paused
Emission = StepCompleted | Chunk | AgentMessage | AgentMetadata | AgentArtifact | AgentTyping | Ending


class ReplyAs(StrEnum):
    """Form of the response to a client's message: `reply` in aion.yaml."""

    TASK = "task"
    """The task."""
    MESSAGE = "message"
    """The answer as a Message without a task; the task if the turn fails or is interrupted."""
    AUTO = "auto"
    """The answer as a Message if it is quick and nothing but a message; otherwise the task."""


class AnswerAs(StrEnum):
    """Place of a turn's answer in its task: `answer` in aion.yaml."""

    MESSAGE = "message"
    """The status message."""
    ARTIFACT = "artifact"
    """An artifact."""
    BOTH = "both"


class AfterCrash(StrEnum):
    """Policy for a turn of a dead process without a stored step: `resume` in aion.yaml."""

    FAIL = "fail"
    """The task fails as not resumable; no step runs twice."""
    RESTART = "restart"
    """The turn restarts from its message."""


class Agent(Protocol):
    """An agent that answers messages: a LangGraph graph, an ADK agent, an AgentExecutor."""

    def load(self) -> None:
        """Import the agent's code before its first turn; a repeat does nothing.

        Raises ConfigurationError if the code cannot be loaded.
        """
        ...

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Answer the message: yield chunks and emissions, and exactly one Ending, last.

        The caller records each emission, the Ending too, before it takes the next one. After the Ending the agent's code
        has a few seconds more. Errors of the agent's own code are raised.
        """
        ...
