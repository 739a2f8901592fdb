"""Execution of one turn: what the agent emits is numbered, recorded, and then published."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from uuid_utils import uuid7

from aion_core.clock import Clock
from aion_core.engine.agent import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    Durable,
    InputRequired,
    Reply,
    Suspended,
    TurnRequest,
)
from aion_core.engine.agent_options import AnswerAs, ReplyAs
from aion_core.engine.answer import REPLY, AnswerForm, form_of, inbound_message, is_message
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.outcomes import TurnFinished, TurnStarted, TurnSuspended
from aion_core.engine.records import COMPLETE, CUT, Numbered, StoppedBy
from aion_core.engine.remote_calls.turn_calls import TurnCalls
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.runner.turn_text import TurnText
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.stream.delta_writer import DeltaWriter
from aion_core.engine.task import projection, timestamps
from aion_core.engine.turn.sleeps import TurnSleeps
from aion_core.engine.turn.store import TurnStore
from aion_core.errors import PendingInput
from aion_core.protocol.message_json import prepare_event
from aion_core.protocol.reserved_keys import WAITS_FOR
from aion_core.protocol.stream_artifacts import typing_event
from aion_core.protocol.text import utf8
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
)
from aion_core.trace.recorder import TurnTrace

WAIT = "aion:wait"
"""Beginning of the keys of events that say what a turn waits for."""

SNAPSHOT_EVERY = 100
"""At the end of a turn, a task's log with this many events gets a snapshot, and later reads begin there."""


class TurnExecution:
    """A turn running in this process. It records the agent's emissions, then publishes them."""

    def __init__(
        self,
        begun: TurnStarted,
        term: LeaseTerm,
        broadcast: EventBroadcast,
        store: TurnStore,
        clock: Clock,
        conversations: Conversations | None,
        *,
        reply: ReplyAs = ReplyAs.TASK,
        answer: AnswerAs = AnswerAs.MESSAGE,
        trace: TurnTrace | None = None,
    ) -> None:
        self.trace = trace
        self._reply_as, self._answer_as = reply, answer
        self.lease, self.term, self.key = begun.lease, term, begun.head.key
        self._head, self._broadcast, self._store, self._clock = begun.head, broadcast, store, clock
        self._deltas = DeltaWriter(store, self.key, clock, fence=begun.lease.fence)
        self._deltas.follow(begun.head.generation)
        self.text = TurnText(self._deltas, broadcast)
        self.releasing = False
        """True while the turn records its last event and releases its lease."""
        self.stopped = False
        """True after the cancellation of the agent: later errors of the agent are not failures of the turn."""
        self.over = False
        """True if the turn is suspended or waits, or belongs to another lease holder."""
        self.made_progress = False
        """True if this try of the turn has recorded an event or a checkpoint. The next try continues after it."""
        self.agent_ran = False
        """True if the agent has emitted anything in this try of the turn."""
        self.stopped_by: StoppedBy | None = StoppedBy.DEADLINE
        """Cause of a suspension. None if the store failed before any emission, so that the try does not count."""
        self.ended: TurnFinished | None = None
        """Outcome of the turn's end in the store; None until the end is recorded."""
        self.drain = asyncio.Event()
        self._history = partial(conversations.history, self.key, self.lease.context) if conversations else None
        self._keys = {entry.key for entry in broadcast.log if entry.key}

    @property
    def has_failed(self) -> bool:
        """True if the turn has ended with a failed task."""
        return self.ended is not None and self.ended.head.state == TaskState.TASK_STATE_FAILED

    @property
    def request_metadata(self) -> Mapping[str, Any]:
        """Metadata of the request with the client's message."""
        entry = self._broadcast.entry(self.lease.turn.message_generation)
        return entry.request if entry is not None else {}

    def request(self) -> TurnRequest:
        """Return the input of the agent for this turn, with the client's message and the events of earlier tries."""
        turn = self.lease.turn
        message = inbound_message(self._broadcast.log, turn)
        return TurnRequest(
            self.lease.context,
            turn,
            self.lease.fence,
            self._broadcast.task(),
            message,
            self.request_metadata,
            [
                entry
                for entry in self._broadcast.log
                if entry.generation > turn.message_generation and not entry.key.startswith(f"{WAIT}/")
            ],
            self.drain,
            self._history,
            self._before,
            TurnCalls(self._store.remote_calls, self.lease, self._remote_agent_works),
            TurnSleeps(self._store, self.lease, self._clock, self._broadcast.is_held, self.drain),
            self.term.check,
            self.trace,
        )

    def _remote_agent_works(self) -> None:
        """Count the work of a remote agent as progress, so that the turn may wait for it for longer than its tries."""
        self.made_progress = True

    def _before(self) -> Task | None:
        earlier = [entry for entry in self._broadcast.log if entry.generation < self.lease.turn.message_generation]
        return projection.fold(earlier) if earlier else None

    def type(self) -> None:
        """Stream a typing indicator to the client. It is not stored."""
        self._broadcast.publish("", typing_event(task_id=self.key.task_id, context_id=self.lease.context.context_id))

    def use_task(self) -> None:
        """With `reply: agent`, decide now that the client receives the task."""
        if self._reply_as is ReplyAs.AGENT:
            self._broadcast.reply_with_task()

    async def emit(self, *emissions: Durable) -> None:
        """Record an agent's emissions as events of the task. Skip those whose key was recorded by an earlier try.

        Emissions that come together, at most MOST_TOGETHER, share a transaction. They are published after it.
        """
        events: list[Event] = []
        keys: list[str] = []
        try:
            for emission in emissions:
                if not emission.key or (emission.key not in self._keys and emission.key not in keys):
                    events.append(self._event_of(emission))
                    keys.append(emission.key)
        finally:
            # Record the emissions before one that cannot be stored, and then fail.
            if events:
                await self._record(events, keys)

    def _event_of(self, emission: Durable) -> Event:
        """Return the event of an emission. Raises an error for a value without a JSON form, which no client could read."""
        match emission:
            case AgentMessage():
                self.text.close_with(emission.message.message_id)
                status = self._status(TaskState.TASK_STATE_WORKING)
                status.message.CopyFrom(emission.message)
                self._set_server_fields(status.message)
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
        prepare_event(event)
        return event

    async def end(self, ending: Reply | InputRequired, *, has_time: Callable[[], bool]) -> None:
        """Record the answer or the interrupt as the turn's last event, and release the lease.

        If the process `has_time`, the same holder gets the lease of the next turn. If a further message to this task is queued,
        the task does not end: the answer becomes a message of the working task.
        """
        self.text.close(
            COMPLETE if isinstance(ending, Reply) and ending.state == TaskState.TASK_STATE_COMPLETED else CUT
        )
        form = self._form_of(ending)
        if form.artifact is not None:
            await self.emit(form.artifact)
        status = self._status(ending.state)
        if form.message is not None:
            status.message.CopyFrom(form.message)
        event = self._update(status)
        if ending.metadata:
            event.metadata.update(ending.metadata)
        log, with_task = self._broadcast.log, self._broadcast.replies_with_task
        if is_message(self._reply_as, self.lease.turn, ending, event, log, replies_with_task=with_task):
            # Set `replies_with_message` before recording the event, so that the stream does not deliver the completed
            # task in place of the Message.
            self._broadcast.replies_with_message = True
            event.metadata.update({REPLY: ReplyAs.MESSAGE})
        try:
            await self._finish(event, has_time=has_time)
        except PendingInput:
            event.status.state = TaskState.TASK_STATE_WORKING
            if self._broadcast.replies_with_message:
                self._broadcast.replies_with_message = False
                del event.metadata[REPLY]
                if not event.metadata:
                    event.ClearField("metadata")
            await self._finish(event, has_time=has_time)
        # End the broadcast now: the agent's code may run on after its answer, and clients should not wait for it.
        self._broadcast.end()

    def _form_of(self, ending: Reply | InputRequired) -> AnswerForm:
        if ending.message is None:
            return AnswerForm()
        message = Message()
        message.CopyFrom(ending.message)
        self._set_server_fields(message)
        return form_of(message, ending, self._answer_as, self.lease.turn, self._broadcast.log)

    async def fail(self, reason: str, *, has_time: Callable[[], bool]) -> None:
        """End the task as failed, with the reason as its message, and release the lease."""
        reason = utf8(reason)
        message = Message(role=Role.ROLE_AGENT, parts=[Part(text=reason)])
        await self.end(Reply(message, TaskState.TASK_STATE_FAILED, {"error": reason}), has_time=has_time)

    async def pause(self) -> None:
        """Suspend the turn: write its chunks and release its lease. Another process can then resume it."""
        self.text.close(CUT)
        await self._deltas.flush()
        await self._store.pause(self.lease, made_progress=self.made_progress, stopped_by=self.stopped_by)

    async def suspend(self, ending: Suspended) -> TurnSuspended:
        """Record what the turn waits for, and release its lease until then. Raises AgentFailed for too long a wait."""
        self.text.close(CUT)
        key, event = f"{WAIT}/{self.lease.turn.id}/{ending.key}", None
        if key not in self._keys:
            status = self._status(TaskState.TASK_STATE_WORKING)
            status.message.CopyFrom(Message(parts=[Part(text=ending.about)], metadata={WAITS_FOR: ending.key}))
            self._set_server_fields(status.message)
            event = self._update(status)
            prepare_event(event)
        await self._deltas.flush()
        self.releasing = True
        try:
            self._head, suspended = await self._store.suspend(
                self.lease,
                self._head,
                event,
                key=ending.key,
                until=ending.until,
                calls=ending.calls,
                event_key=key,
            )
        except BaseException:
            self.releasing = False
            raise
        self.over = True
        self._deltas.follow(self._head.generation)
        if event is not None:
            self._broadcast.record(Numbered(self._head.generation, event, key=key))
        return suspended

    async def close(self) -> None:
        """Stop the writer of the turn's chunks."""
        await self._deltas.stop()

    async def _record(self, events: Sequence[Event], keys: Sequence[str]) -> None:
        await self._deltas.flush()
        self._head = await self._store.append(self.lease, self._head, *events, keys=keys)
        self.made_progress = True
        self._deltas.follow(self._head.generation)
        self._keys.update(filter(None, keys))
        first = self._head.generation - len(events) + 1
        for generation, (event, key) in enumerate(zip(events, keys, strict=True), first):
            self._broadcast.record(Numbered(generation, event, key=key))
        # Let the readers send the events before the agent continues, which halves the time to the first event.
        await asyncio.sleep(0)

    async def _finish(self, event: Event, *, has_time: Callable[[], bool]) -> None:
        prepare_event(event)
        await self._deltas.flush()
        self.releasing = True
        try:
            self.ended = await self._store.finish(
                self.lease, self._head, event, has_time=has_time, snapshot=self._snapshot(event)
            )
        except BaseException:
            self.releasing = False
            raise
        self._head = self.ended.head
        self._deltas.follow(self._head.generation)
        self._broadcast.record(Numbered(self._head.generation, event))

    def _snapshot(self, event: Event) -> Task | None:
        """Return a snapshot of the task after the turn's last event if its log is long, else None."""
        if len(self._broadcast.log) < SNAPSHOT_EVERY:
            return None
        return projection.fold_once([*self._broadcast.log, Numbered(self._head.generation + 1, event)])

    def _set_server_fields(self, message: Message) -> None:
        """Set the message's role, task id and context id, and an id if it has none."""
        message.message_id = message.message_id or str(uuid7())
        message.role = Role.ROLE_AGENT
        message.task_id, message.context_id = self.key.task_id, self.lease.context.context_id

    def _update(self, status: TaskStatus) -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(task_id=self.key.task_id, context_id=self.lease.context.context_id, status=status)

    def _status(self, state: TaskState) -> TaskStatus:
        return timestamps.status_at(state, self._clock.now())
