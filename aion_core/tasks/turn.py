"""One turn under way: its words, numbered, recorded and spoken in that order; and its metrics."""

import asyncio
import logging
from functools import partial

from google.protobuf.json_format import MessageToDict
from uuid_utils.compat import uuid7

from aion_core.errors import PendingInput, StoreCorrupt
from aion_core.ports import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    AnswerAs,
    Chunk,
    Clock,
    Delta,
    InputRequired,
    Metric,
    Metrics,
    Numbered,
    Reply,
    ReplyAs,
    TaskStore,
    Turn,
    TurnFinished,
    TurnRequest,
    TurnStarted,
)
from aion_core.protocol.aion.extensions import traceparent_of
from aion_core.protocol.types import (
    Event,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    typing_event,
)
from aion_core.tasks import answer_artifacts, lifecycle, projection, replies
from aion_core.tasks.broadcast import EventBroadcast
from aion_core.tasks.deltas import PAGE_CHARACTERS, DeltaWriter
from aion_core.tasks.history import ContextHistory

COMPLETE, CUT = "complete_message", "interrupted"
"""Why a stream delta is closed, in the words of Aion's clients: its model call ended, or it, or the turn, broke off."""

SNAPSHOT_EVERY = 100
"""After how many events the end of a turn keeps the whole task beside them, for readers to begin at."""


class TurnExecution:
    """What a turn that is run here says: recorded, then told to its run."""

    def __init__(
        self,
        begun: TurnStarted,
        run: EventBroadcast,
        store: TaskStore,
        clock: Clock,
        history: ContextHistory | None,
        *,
        reply: ReplyAs = ReplyAs.TASK,
        answer: AnswerAs = AnswerAs.MESSAGE,
    ) -> None:
        self._reply_as, self._answer_as = reply, answer
        self.lease, self.key = begun.lease, begun.head.key
        self._head, self._run, self._store, self._clock = begun.head, run, store, clock
        self._deltas = DeltaWriter(store, self.key, clock, fence=begun.lease.fence)
        self._deltas.follow(begun.head.generation)
        self._speaking: str | None = None
        """The model call whose stream delta is open."""
        self.releasing = False
        """Whether the turn is recording its end, and giving its lease back with it."""
        self.stopped = False
        """Whether the agent was told to stop: what it raises then is no failure of its own."""
        self.over = False
        """Whether the turn is somebody else's now, or was handed on."""
        self.made_progress = False
        """Whether this try has brought the turn further: what is recorded, or kept, the next one need not do again."""
        self.agent_ran = False
        """Whether the agent has emitted anything in this try."""
        self.spent = True
        """Whether this try counts: not if the store was out of reach before the agent emitted anything."""
        self.ended: TurnFinished | None = None
        """How the turn ended, once that is recorded."""
        self.drain = asyncio.Event()
        self._history = partial(history.read, self.key, self.lease.context) if history else None
        self._keys = {entry.key for entry in run.log if entry.key}

    @property
    def labels(self) -> dict[str, str]:
        """By what the turn's lines in the log are found: its task, its context and, where the request names one, its trace."""
        entry = self._run.entry(self.lease.turn.message_generation)
        traceparent = traceparent_of(entry.request) if entry is not None else ""
        context = self.lease.context
        found_by = {"task_id": self.key.task_id, "context_id": context.context_id, "agent": context.agent}
        return found_by | ({"traceparent": traceparent} if traceparent else {})

    @property
    def attributes(self) -> dict[str, str | int]:
        """What the turn's span says of it."""
        turn, context = self.lease.turn, self.lease.context
        return {
            "aion.task_id": self.key.task_id,
            "aion.context_id": context.context_id,
            "aion.agent": context.agent,
            "aion.turn_id": turn.id,
            "aion.tries": turn.tries,
            "aion.hops": turn.handoffs,
        }

    def request(self) -> TurnRequest:
        """Return what the agent is to answer."""
        turn = self.lease.turn
        entry = self._run.entry(turn.message_generation)
        message = message_asked(entry, turn)
        return TurnRequest(
            self.lease.context,
            turn,
            self.lease.fence,
            self._run.task(),
            message,
            entry.request if entry is not None else {},
            [entry for entry in self._run.log if entry.generation > turn.message_generation],
            self.drain,
            self._history,
            self._before,
        )

    def _before(self) -> Task | None:
        earlier = [entry for entry in self._run.log if entry.generation < self.lease.turn.message_generation]
        return projection.fold(earlier) if earlier else None

    def speak(self, chunk: Chunk) -> None:
        """Speak a chunk at once; each model call is a stream delta of its own (R61, R63, D9)."""
        if chunk.breaks_off and self._speaking == chunk.message_id:
            self._close_delta(CUT)
        if self._speaking not in (None, chunk.message_id) and chunk.text:
            self._close_delta(COMPLETE)
        # Most chunks are a word; one that is a book is kept in pages, since an item of the table holds no book.
        for start in range(0, len(chunk.text), PAGE_CHARACTERS):
            self._say(Delta(chunk.text[start : start + PAGE_CHARACTERS], append=self._speaking is not None))
            self._speaking = chunk.message_id

    def type(self) -> None:
        """Let whoever listens here see that an answer is being written."""
        self._run.say("", typing_event(task_id=self.key.task_id, context_id=self.lease.context.context_id))

    async def emit(self, emission: AgentMessage | AgentMetadata | AgentArtifact) -> None:
        """Record what the agent wants the client to have; what a node says again when it runs again is not said."""
        if emission.key and emission.key in self._keys:
            return
        match emission:
            case AgentMessage():
                status = self._status(TaskState.TASK_STATE_WORKING)
                status.message.CopyFrom(emission.message)
                self._own(status.message)
                event: Event = self._update(status)
                event.metadata.update(emission.metadata)
            case AgentMetadata():
                event = self._update(self._status(TaskState.TASK_STATE_WORKING))
                event.metadata.update(emission.metadata)
            case AgentArtifact():
                event = TaskArtifactUpdateEvent(
                    task_id=self.key.task_id,
                    context_id=self.lease.context.context_id,
                    artifact=emission.artifact,
                    append=emission.append,
                    last_chunk=emission.last_chunk,
                )
                event.metadata.update(emission.metadata)
        await self._record(event, key=emission.key)

    async def end(self, ending: Reply | InputRequired, *, go_on: bool) -> None:
        """Record the answer, or the question, and give the lease back, or, to `go_on`, for the next turn's.

        Where a message waits for the task, it does not end: the answer is a word on the way.
        """
        message = await self._answer(ending)
        status = self._status(ending.state)
        if message is not None:
            status.message.CopyFrom(message)
        event = self._update(status)
        if ending.metadata:
            event.metadata.update(ending.metadata)
        self._close_delta(
            COMPLETE if isinstance(ending, Reply) and ending.state == TaskState.TASK_STATE_COMPLETED else CUT
        )
        if self._ends_as_message(ending, event):
            # Noted before it is recorded: from here on no reader is told of the task.
            self._run.ends_as_message = True
            event.metadata.update({replies.REPLY: ReplyAs.MESSAGE})
        try:
            await self._finish(event, go_on=go_on)
        except PendingInput:
            event.status.state = TaskState.TASK_STATE_WORKING
            if self._run.ends_as_message:
                self._run.ends_as_message = False
                del event.metadata[replies.REPLY]
                if not event.metadata:
                    event.ClearField("metadata")
            await self._finish(event, go_on=go_on)
        # Whoever waits for the answer does not wait for what the agent does after it.
        self._run.end()

    async def _answer(self, ending: Reply | InputRequired) -> Message | None:
        """Return the message that the turn's last status holds, once its artifact, where it has one, is recorded (D22)."""
        if ending.message is None:
            return None
        message = Message()
        message.CopyFrom(ending.message)
        self._own(message)
        answered = isinstance(ending, Reply) and ending.state == TaskState.TASK_STATE_COMPLETED
        if self._answer_as is AnswerAs.MESSAGE or not answered or not message.parts:
            return message
        key = f"{answer_artifacts.NAME}:{self.lease.turn.id}"
        held = next((entry.event for entry in self._run.log if entry.key == key), None)
        if isinstance(held, TaskArtifactUpdateEvent):
            # A turn that was cut before its end has answered all the same; what it would answer now may differ.
            message = answer_artifacts.as_message(held.artifact, self._run.task())
        else:
            turn = self.lease.turn
            asked = message_asked(self._run.entry(turn.message_generation), turn)
            await self.emit(AgentArtifact(answer_artifacts.as_artifact(message, asked), key=key))
        return message if self._answer_as is AnswerAs.BOTH else None

    def _ends_as_message(self, ending: Reply | InputRequired, event: TaskStatusUpdateEvent) -> bool:
        told = self._reply_as is ReplyAs.AUTO and self._run.told_of_task()
        if self._reply_as is ReplyAs.TASK or told:
            return False
        return replies.is_message(self._reply_as, self.lease.turn, ending, event, self._run.log)

    async def fail(self, reason: str, *, go_on: bool) -> None:
        """Record that the turn failed, and why (R36, D14), and give the lease back."""
        said = Message(role=Role.ROLE_AGENT, parts=[Part(text=reason)])
        await self.end(Reply(said, TaskState.TASK_STATE_FAILED, {"error": reason}), go_on=go_on)

    async def pause(self) -> None:
        """Leave the turn to whoever begins it next."""
        self._close_delta(CUT)
        await self._deltas.flush()
        await self._store.pause(self.lease, made_progress=self.made_progress, spent=self.spent)

    async def rest(self) -> None:
        """Leave nothing running behind; a turn that has recorded its end has nothing left to write."""
        await self._deltas.rest()

    def _close_delta(self, reason: str) -> None:
        if self._speaking is not None:
            self._say(Delta("", append=True, last=True, reason=reason))
            self._speaking = None

    def _say(self, delta: Delta) -> None:
        self._run.say(self._deltas.add(delta), delta)

    async def _record(self, event: Event, *, key: str = "") -> None:
        # What no client can be told (a NaN, say) must not be in the log, where every reader would meet it.
        MessageToDict(event)
        self._close_delta(COMPLETE)
        await self._deltas.flush()
        self._head = await self._store.append(self.lease, self._head, event, key=key)
        self.made_progress = True
        self._tell(event, key)
        # Let the readers write before the agent goes on: the first event leaves in half the time.
        await asyncio.sleep(0)

    async def _finish(self, event: Event, *, go_on: bool) -> None:
        MessageToDict(event)
        await self._deltas.flush()
        self.releasing = True
        try:
            self.ended = await self._store.finish(
                self.lease, self._head, event, go_on=go_on, snapshot=self._snapshot(event)
            )
        except BaseException:
            self.releasing = False
            raise
        self._head = self.ended.head
        self._tell(event)

    def _tell(self, event: Event, key: str = "") -> None:
        self._deltas.follow(self._head.generation)
        if key:
            self._keys.add(key)
        self._run.record(Numbered(self._head.generation, event, key=key))

    def _snapshot(self, event: Event) -> Task | None:
        """Return the task with its turn's last event, where a reader would have many others to read."""
        if len(self._run.log) < SNAPSHOT_EVERY:
            return None
        return projection.fold([*self._run.log, Numbered(self._head.generation + 1, event)])

    def _own(self, message: Message) -> None:
        """Set what is the server's to set, whatever the author put there (R75)."""
        message.message_id = message.message_id or str(uuid7())
        message.role = Role.ROLE_AGENT
        message.task_id, message.context_id = self.key.task_id, self.lease.context.context_id

    def _update(self, status: TaskStatus) -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(task_id=self.key.task_id, context_id=self.lease.context.context_id, status=status)

    def _status(self, state: TaskState) -> TaskStatus:
        return lifecycle.status_at(state, self._clock.now())


def message_asked(entry: Numbered | None, turn: Turn) -> Message:
    """Return the message that the turn is to answer, from the entry of the log that holds it.

    Raises StoreCorrupt where that holds none.
    """
    if entry is not None and entry.message is not None:
        return entry.message
    if entry is not None and isinstance(entry.event, Task) and entry.event.history:
        return entry.event.history[-1]
    raise StoreCorrupt(f"Event {turn.message_generation} of the task holds no message to answer.")


logger = logging.getLogger(__name__)


class TurnMetrics:
    """Counts as the turn goes on, and the most of it when the turn's run in this process is over."""

    def __init__(self, metrics: Metrics, clock: Clock, turn: Turn, asked: Numbered | None, *, agent: str) -> None:
        """`asked` is the event that holds the message; None where it is not known."""
        self._metrics, self._clock, self._turn, self._agent = metrics, clock, turn, agent
        self._arrived = lifecycle.time_of(asked.event) if asked is not None else None
        self._began = clock.now()
        self._deltas = 0
        self._first_token: float | None = None

    @property
    def _is_first(self) -> bool:
        return self._turn.tries <= 1 and not self._turn.handoffs

    def begins(self) -> None:
        """Count that it begins."""
        if self._turn.tries > 1:
            self._count(Metric.TURN_RETRIES)
        if self._is_first and self._arrived is not None:
            self._count(Metric.TURN_LAG, lifecycle.milliseconds(self._arrived, self._began))

    def speaks(self) -> None:
        """Count a chunk."""
        self._deltas += 1
        if self._first_token is None:
            self._first_token = lifecycle.milliseconds(self._began, self._clock.now())

    def rests(self, ended: TurnFinished | None) -> None:
        """Count what there is to count at the end of its run here; None where that was not the turn's end."""
        if self._deltas:
            self._count(Metric.STREAM_DELTAS, self._deltas)
        if self._first_token is not None and self._is_first:
            self._count(Metric.FIRST_TOKEN_TIME, self._first_token)
        if ended is None:
            return
        since = self._began if self._is_first or self._arrived is None else self._arrived
        duration, state = lifecycle.milliseconds(since, self._clock.now()), ended.head.state
        self._count(Metric.TURNS)
        self._count(Metric.TURN_DURATION, duration)
        if state == TaskState.TASK_STATE_FAILED:
            self._count(Metric.TURNS_FAILED)
        words = TaskState.Name(state).removeprefix("TASK_STATE_").lower()
        logger.info("A turn has ended.", extra={"state": words, "duration_ms": round(duration), "chunks": self._deltas})

    def _count(self, metric: Metric, value: float = 1.0) -> None:
        self._metrics.count(metric, value, agent=self._agent)
