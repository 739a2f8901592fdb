"""An agent: what it is asked, what it may say, and how its turn ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from aion_core.ports.tasks import ContextKey, Numbered, Turn
from aion_core.protocol.types import Artifact, Message, Task, TaskState

History = Callable[[int, str | None], Awaitable[Sequence[Message]]]
"""Returns the last so many messages of a context, oldest first; with a messageId, those before that message."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What an agent is given for one turn."""

    context: ContextKey
    turn: Turn
    fence: int
    task: Task
    """The task as it stands, the message included."""
    message: Message
    """The inbound message, whole."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request's metadata: distribution, network, trace (R51)."""
    recorded: Sequence[Numbered] = ()
    """What an earlier try of this turn has recorded already."""
    drain: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the runner's time is nearly up: end as Paused at the next step boundary, if there is such a thing."""
    history: History | None = None
    """Reads what was said in the context before this turn; None where only the task is at hand."""
    before: Callable[[], Task | None] = lambda: None
    """Tells how the task stood before the message, with what it asked; None where the message has made it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Text as the model speaks it; `message_id` tells one model call from the next (R63)."""

    text: str
    message_id: str
    breaks_off: bool = False
    """Whether nothing more comes of the message, which is not whole: its call has raised. There is no text then."""


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A durable message on the way to the answer (D6)."""

    message: Message
    key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the update carries beside it; merged into the task's, as what is noted."""


@dataclass(frozen=True, slots=True)
class AgentMetadata:
    """Metadata for the task: merged, key by key (R71)."""

    metadata: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class AgentArtifact:
    """An artifact, whole or in chunks (R68, R69)."""

    artifact: Artifact
    append: bool = False
    last_chunk: bool = True
    key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the update carries beside the artifact's own."""


@dataclass(frozen=True, slots=True)
class AgentTyping:
    """The agent is writing; told to whoever listens, and never kept."""


@dataclass(frozen=True, slots=True)
class InputRequired:
    """How a turn ends that needs the client: the question, and what an answer has to name."""

    message: Message
    state: TaskState = TaskState.TASK_STATE_INPUT_REQUIRED
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """How a turn ends: the durable answer, or none."""

    message: Message | None
    state: TaskState = TaskState.TASK_STATE_COMPLETED
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Paused:
    """How a turn ends for now that was asked to drain: at a step boundary, to go on from there in another process."""


@dataclass(frozen=True, slots=True)
class StepCompleted:
    """A step of the turn is finished, and kept: a turn that is cut after it goes on from there."""


Ending = Reply | InputRequired | Paused
Emission = StepCompleted | Chunk | AgentMessage | AgentMetadata | AgentArtifact | AgentTyping | Ending


class ReplyAs(StrEnum):
    """What a client gets for its message: `reply` in aion.yaml (R23)."""

    TASK = "task"
    """Its task, always."""
    MESSAGE = "message"
    """The answer, as a Message without a task; a task only where the turn fails, or asks."""
    AUTO = "auto"
    """The answer as a Message where it comes quickly and is nothing but a message; else the task."""


class AnswerAs(StrEnum):
    """Where a task holds its turn's answer: `answer` in aion.yaml (D22)."""

    MESSAGE = "message"
    """In its status message."""
    ARTIFACT = "artifact"
    """In an artifact."""
    BOTH = "both"


class AfterCrash(StrEnum):
    """What becomes of a turn whose process was lost, where its agent cannot go on from a step: `resume` in aion.yaml."""

    FAIL = "fail"
    """Its task fails, and says that it is not resumable: nothing is done twice."""
    RESTART = "restart"
    """It is run again from its message."""


class Agent(Protocol):
    """Something that answers messages: a LangGraph graph, an ADK agent."""

    def load(self) -> None:
        """Import what the agent needs, now rather than at its first turn; a repeat does nothing.

        Raises ConfigurationError where its code cannot be loaded.
        """
        ...

    def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Answer the message: chunks and emissions as they come, and exactly one Ending, last.

        What comes next is asked for when what came is recorded, the Ending too: what an agent does after that is given
        a little time. What the agent's own code raises passes through.
        """
        ...
