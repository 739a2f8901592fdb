"""Turns of a LangGraphAgent, run as by TaskRunner: an emission with a recorded key is not recorded again.

A test may stop the process at any request of the savers, or drain the turn at any step. The next turn has a new agent
and the recorded log.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict
from msgspec.structs import replace
from uuid_utils.compat import uuid7

from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.clock import SystemClock
from aion_core.engine.admission.messages import new_task
from aion_core.engine.admission.new_tasks import first_log
from aion_core.engine.agent import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    Batch,
    Chunk,
    Durable,
    Emission,
    InputRequired,
    Paused,
    Reply,
    Suspended,
    TurnRequest,
)
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.records import Numbered, Turn
from aion_core.engine.task import projection, states, timestamps
from aion_core.protocol.types import (
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from tests.support.histories import messages_of
from tests.support.savers import Savers, fence_of

WORKING = TaskState.TASK_STATE_WORKING


async def _nothing() -> None:
    """Do nothing: a log in memory needs no request."""


@dataclass
class DrivenConversation:
    """Task with its recorded log and its lease; a test runs the turns of this task one after another."""

    begun: TurnStarted
    """The lease; the savers write under its fence."""
    log: list[Numbered]
    turn: Turn
    message: Message
    before_recording: Callable[[], Awaitable[None]] = _nothing
    """Request before each record of an event, at which a test may stop the process."""
    chunks: list[Chunk] = field(default_factory=list)
    """Streamed chunks, which are not recorded."""

    @classmethod
    def of(cls, begun: TurnStarted, text: str = "hi") -> "DrivenConversation":
        message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=text)])
        context, clock = begun.lease.context, SystemClock()
        new = new_task(message, context, task_id="t-1", turn_id=str(uuid7()), at=clock.now(), context_is_new=False)
        return cls(begun, list(first_log(new)), replace(new.turn, tries=1), message)

    @property
    def task(self) -> Task:
        return projection.fold(self.log)

    async def run(
        self, graph: Any, savers: Savers, drain: asyncio.Event | None = None, heard: Callable[[Any], None] | None = None
    ) -> Reply | InputRequired | Paused | Suspended:
        """Run the turn with a new agent, as in a new process, until the turn ends or pauses."""

        asked = TurnRequest(
            self.begun.lease.context,
            self.turn,
            fence_of(self.begun).number,
            self.task,
            self.message,
            recorded=self.log[self.turn.message_generation :],
            drain=drain or asyncio.Event(),
        )
        ending: Reply | InputRequired | Paused | Suspended | None = None
        async for emission in LangGraphAgent(graph, savers.saver).run(asked):
            assert ending is None, "an agent says nothing after its end"
            if isinstance(emission, Chunk):
                self.chunks.append(emission)
            elif isinstance(emission, Durable):
                await self.record_emissions(emission)
            elif isinstance(emission, Batch):
                await self.record_emissions(*emission.emissions)
            elif isinstance(emission, Reply | InputRequired | Paused | Suspended):
                ending = emission
            if heard is not None:
                heard(emission)
            await asyncio.sleep(0)
        assert ending is not None
        if not isinstance(ending, Paused | Suspended):
            update = TaskStatusUpdateEvent(status=timestamps.status_at(ending.state, SystemClock().now()))
            if ending.message is not None:
                update.status.message.CopyFrom(ending.message)
                update.status.message.message_id = update.status.message.message_id or str(uuid7())
            await self.record(update)
        return ending

    async def record_emissions(self, *emissions: Durable) -> None:
        """Record the emissions at once, except those that an earlier try has recorded."""
        keys = {entry.key for entry in self.log if entry.key}
        if new := [emission for emission in emissions if emission.key not in keys]:
            await self.before_recording()
            first = len(self.log) + 1
            self.log += [Numbered(n, _event(each), key=each.key) for n, each in enumerate(new, first)]

    async def record(self, event: Event) -> None:
        await self.before_recording()
        self.log.append(Numbered(len(self.log) + 1, event))

    def taken_over(self, begun: TurnStarted) -> None:
        """Give the lease to another process."""
        self.begun, self.turn = begun, replace(self.turn, tries=self.turn.tries + 1)

    async def answer(self, text: str, interrupt_id: str = "") -> None:
        """Record the client's answer to an interrupt; the next turn resumes with this answer."""
        message = Message(message_id=str(uuid7()), role=Role.ROLE_USER, parts=[Part(text=text)])
        if interrupt_id:
            message.metadata.update({"interruptId": interrupt_id})
        working = TaskStatusUpdateEvent(status=timestamps.status_at(WORKING, SystemClock().now()))
        self.log.append(Numbered(len(self.log) + 1, working, message=message))
        self.message = message
        self.turn = Turn(str(uuid7()), self.turn.task_id, len(self.log), tries=1)

    # ── Results that tests compare ────────────────────────────────────────────────────────────────────────────────────

    @property
    def asks(self) -> dict[str, str]:
        """Return the ids of the open interrupts, keyed by the interrupts' texts."""
        message = self.task.status.message
        metadata = MessageToDict(message.metadata)
        ids = [entry["id"] for entry in metadata.get("interrupts", [{"id": metadata.get("interruptId")}])]
        texts = [part.text for part in message.parts if part.WhichOneof("content") == "text"]
        return dict(zip(texts, ids, strict=True))

    @property
    def told(self) -> list[tuple[str, str]]:
        """Return the kind and the text of each event in the log, in order."""
        return [told for entry in self.log[1:] for told in _told(entry)]

    @property
    def keys(self) -> list[str]:
        return [entry.key for entry in self.log if entry.key]

    @property
    def messages(self) -> list[str]:
        """Return the task's messages as a client reads them."""
        return [_text(message) for message in messages_of(self.task)]


def _event(emission: Emission) -> Event:
    match emission:
        case AgentMessage():
            update = TaskStatusUpdateEvent(status=timestamps.status_at(WORKING, SystemClock().now()))
            update.status.message.CopyFrom(emission.message)
            return update
        case AgentMetadata():
            update = TaskStatusUpdateEvent(status=timestamps.status_at(WORKING, SystemClock().now()))
            update.metadata.update(emission.metadata)
            return update
        case AgentArtifact():
            return TaskArtifactUpdateEvent(
                artifact=emission.artifact, append=emission.append, last_chunk=emission.last_chunk
            )
    raise AssertionError(emission)


def _told(entry: Numbered) -> Sequence[tuple[str, str]]:
    event = entry.event
    told = [("client", _text(entry.message))] if entry.message is not None else []
    if isinstance(event, TaskStatusUpdateEvent):
        if event.status.HasField("message"):
            told.append((states.state_name(event.status.state), _text(event.status.message)))
        told += [("noted", f"{key}={value}") for key, value in sorted(MessageToDict(event.metadata).items())]
    elif isinstance(event, TaskArtifactUpdateEvent):
        parts = [MessageToDict(part) for part in event.artifact.parts]
        told.append(("artifact", f"{event.artifact.name}{'+' if event.append else ''} {parts}"))
    return told


def _text(message: Message) -> str:
    return "".join(part.text or json.dumps(MessageToDict(part.data)) for part in message.parts)
