"""Runs one turn of an agent: every durable event is in the log before anyone hears of it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from google.protobuf.json_format import MessageToDict
from uuid_utils.compat import uuid7

from aion_core.errors import AgentFailed, LeaseLost, MoreAsked, StoreCorrupt, StoreError
from aion_core.ports import (
    Agent,
    Asked,
    Asks,
    Begun,
    Bell,
    Bells,
    Chunk,
    Clock,
    ContextKey,
    Delta,
    Emitted,
    Ended,
    Ending,
    History,
    Lease,
    Noted,
    Numbered,
    Paused,
    Reply,
    Said,
    Stepped,
    TaskKey,
    TaskStore,
    Turn,
    Typing,
)
from aion_core.protocol.deltas import typing_event
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
from aion_core.tasks import lifecycle, projection
from aion_core.tasks.deltas import PAGE_CHARACTERS, DeltaWriter
from aion_core.tasks.heartbeat import Heartbeat
from aion_core.tasks.run import Run

logger = logging.getLogger(__name__)

COMPLETED = TaskState.TASK_STATE_COMPLETED

COMPLETE, CUT = "complete_message", "interrupted"
"""Why a stream delta is closed, in the words of Aion's clients: its model call ended, or the turn did."""

MAX_TRIES = 3
"""How often a turn is begun before its task fails: what takes its holder down once may do so again."""

MAX_HOPS = 200
"""How often a turn is handed on at a deadline before its task fails: two days of work."""

SNAPSHOT_EVERY = 100
"""After how many events the end of a turn keeps the whole task beside them, for readers to begin at."""

STOP_SECONDS = 2.0
"""How long an agent that has lost its lease may take to stop; whatever it says later is refused by the fence."""

DRAIN_SECONDS, CUT_SECONDS = 30.0, 12.0
"""How long before its time is up a turn is asked to stop at a step boundary, and how long before it is cut."""

LEAST_CUT_SECONDS, LEAST_GRACE_SECONDS = 5.0, 3.0
"""How short the margins may be where there is little time in all."""


RENEWALS = 3
"""How often a lease is renewed within its term: one or two missed beats do not lose it."""


class LeaseKept(Protocol):
    """Tells when a lease is gone."""

    lost: asyncio.Event


class KeepLease(Protocol):
    """Makes what keeps a lease while its turn runs."""

    def __call__(
        self, store: TaskStore, bells: Bells, lease: Lease, *, renew_seconds: float, bell_seconds: float
    ) -> AbstractAsyncContextManager[LeaseKept]:
        """Return what renews the lease so often, and lets a bell be heard after so long; see `Heartbeat`."""
        ...


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Until when a turn may run in this process."""

    until: datetime | None = None
    """When the process ends, where that is known."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the turn is to be handed on at once."""


class TaskRunner:
    """Runs turns whose lease is held, by the agents of this deployment."""

    def __init__(
        self,
        store: TaskStore,
        agents: Callable[[str], Agent],
        clock: Clock,
        bells: Bells,
        *,
        lease_seconds: float = 30.0,
        max_tries: int = MAX_TRIES,
        reveal_errors: bool = False,
        history: Callable[[TaskKey, ContextKey], History] | None = None,
        keep_lease: KeepLease = Heartbeat,
    ) -> None:
        """`agents` gives the agent of an id; `reveal_errors` puts an agent's own error text on the wire (D14).

        `history` gives a task's turn the reader of its conversation.
        """
        self._store, self._agents, self._clock, self._bells = store, agents, clock, bells
        self.lease_seconds, self._max_tries, self._reveal_errors = lease_seconds, max_tries, reveal_errors
        self._history, self._keep_lease = history, keep_lease

    async def run(self, begun: Begun, run: Run, time_up: TimeUp | None = None) -> Begun | None:
        """Run the turn to its end, or for as long as there is time, and tell `run` of it.

        Returns the turn that waited behind it, whose lease is held now; None where there is none, or where there is no
        time left for it. Raises nothing that the agent did or the store refused: the log says how the turn ended, and
        a turn that could not be ended, or was handed on, is begun again by whoever hears its bell.
        """
        time_up = time_up or TimeUp()
        turn = _Turn(begun, run, self._store, self._clock, self._history)
        try:
            async with self._keep_lease(
                self._store,
                self._bells,
                begun.lease,
                renew_seconds=self.lease_seconds / RENEWALS,
                bell_seconds=self.lease_seconds,
            ) as beat:
                work = asyncio.create_task(self._work(turn, time_up))
                lost = asyncio.create_task(beat.lost.wait())
                end = asyncio.create_task(self._time_ends(turn, time_up))
                try:
                    await asyncio.wait({work, lost, end}, return_when=asyncio.FIRST_COMPLETED)
                    if turn.releasing:
                        # It is this very turn that gives the lease back, and the beat has seen it gone.
                        await asyncio.wait({work})
                finally:
                    lost.cancel()
                    end.cancel()
                    if not work.done():
                        work.cancel()
                        await asyncio.wait({work}, timeout=STOP_SECONDS)
                if end.done() and not end.cancelled() and turn.ended is None and not turn.over:
                    await self._put_down(turn)
        finally:
            turn.close()
            run.end()
        if turn.ended is not None and turn.ended.waiting:
            await self._ring(turn)
        return turn.ended.next if turn.ended is not None else None

    async def _work(self, turn: "_Turn", time_up: TimeUp) -> None:
        try:
            try:
                ending = await self._ask(turn)
                if isinstance(ending, Paused):
                    turn.got_on = True
                    await self._put_down(turn)
                else:
                    await turn.end(ending, go_on=self._has_time(time_up))
            except (LeaseLost, StoreError):
                raise
            except Exception as error:  # an agent may raise anything
                logger.exception("The agent failed.", extra={"task_id": turn.key.task_id})
                await turn.fail(self._reason(error), go_on=self._has_time(time_up))
        except LeaseLost:
            turn.over = True
            logger.warning("The turn belongs to another holder now.", extra={"task_id": turn.key.task_id})
        except StoreError:
            # Whoever begins the turn next finds what is recorded.
            logger.exception("The turn could not be recorded.", extra={"task_id": turn.key.task_id})
            await self._put_down(turn)

    async def _time_ends(self, turn: "_Turn", time_up: TimeUp) -> None:
        """Ask the agent to stop at a step boundary when the time is nearly up; return when it has to be cut."""
        drain_before, cut_before = margins(time_up, self._clock.now())
        now = asyncio.ensure_future(time_up.now.wait())
        try:
            if time_up.until is None:
                await now
            else:
                left = (time_up.until - self._clock.now()).total_seconds()
                drain = asyncio.ensure_future(self._clock.sleep(left - drain_before))
                try:
                    await asyncio.wait({now, drain}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    drain.cancel()
        finally:
            now.cancel()
        turn.drain.set()
        grace = drain_before - cut_before
        if time_up.until is not None:
            left = (time_up.until - self._clock.now()).total_seconds()
            grace = min(grace, max(0.0, left - cut_before))
        await self._clock.sleep(grace)

    def _has_time(self, time_up: TimeUp) -> bool:
        """Tell whether another turn may begin in this process."""
        if time_up.until is None:
            return not time_up.now.is_set()
        return not time_up.now.is_set() and (time_up.until - self._clock.now()).total_seconds() > 2 * DRAIN_SECONDS

    async def _put_down(self, turn: "_Turn") -> None:
        """Hand the turn on; where even that cannot be recorded, its lease runs out."""
        turn.over = True
        try:
            await turn.pause()
        except (LeaseLost, StoreError) as error:
            logger.warning("The turn could not be handed on: %s", error, extra={"task_id": turn.key.task_id})
        else:
            await self._ring(turn)

    async def _ring(self, turn: "_Turn") -> None:
        try:
            await self._bells.ring(Bell(turn.lease.context))
        except StoreError as error:
            # What is due is found by its due time.
            logger.warning("A bell could not be rung: %s", error, extra={"task_id": turn.key.task_id})

    async def _ask(self, turn: "_Turn") -> Ending:
        """Let the agent answer; record and speak what it says, and return how its turn ends."""
        asked = turn.lease.turn
        if asked.tries > self._max_tries:
            raise AgentFailed(
                f"The turn was begun {self._max_tries} times and did not end. Send the message again with a new id."
            )
        if asked.hops > MAX_HOPS:
            raise AgentFailed("The turn took too long: it was handed on too often and did not end.")
        agent = self._agents(turn.lease.context.agent)
        ending: Ending | None = None
        async with aclosing(agent.run(turn.asked())) as emissions:
            async for emission in emissions:
                if ending is not None:
                    logger.warning("The agent went on after its end; ignored.", extra={"task_id": turn.key.task_id})
                elif isinstance(emission, Chunk):
                    turn.speak(emission)
                elif isinstance(emission, Typing):
                    turn.type()
                elif isinstance(emission, Stepped):
                    turn.got_on = True
                elif isinstance(emission, Reply | Asks | Paused):
                    ending = emission
                else:
                    await turn.emit(emission)
        return ending or Reply(None)

    def _reason(self, error: Exception) -> str:
        """Return what a client may know of an agent's failure: the error's class and a safe sentence (D14)."""
        if isinstance(error, AgentFailed):
            return str(error)
        reason = f"{type(error).__name__}: the agent could not finish this turn."
        return f"{reason} {error}" if self._reveal_errors else reason


def margins(time_up: TimeUp, now: datetime) -> tuple[float, float]:
    """Return how long before its time is up a turn is drained, and how long before it is cut.

    Where there is little time in all, most of it is for the agent; yet the cut comes before the runtime's own, which
    would leave the turn to its lease.
    """
    if time_up.until is None:
        return DRAIN_SECONDS, CUT_SECONDS
    left = (time_up.until - now).total_seconds()
    cut = min(CUT_SECONDS, max(LEAST_CUT_SECONDS, left / 8))
    return min(DRAIN_SECONDS, max(cut + LEAST_GRACE_SECONDS, left / 4)), cut


class _Turn:
    """One turn's words, from the message to the last event."""

    def __init__(
        self,
        begun: Begun,
        run: Run,
        store: TaskStore,
        clock: Clock,
        history: Callable[[TaskKey, ContextKey], History] | None,
    ) -> None:
        self.lease, self.key = begun.lease, begun.head.key
        self._head, self._run, self._store, self._clock = begun.head, run, store, clock
        self._deltas = DeltaWriter(store, self.key, clock, fence=begun.lease.fence)
        self._deltas.follow(begun.head.generation)
        self._speaking: str | None = None
        """The model call whose stream delta is open."""
        self.releasing = False
        """Whether the turn is recording its end, and giving its lease back with it."""
        self.over = False
        """Whether the turn is somebody else's now, or was handed on."""
        self.got_on = False
        """Whether this try has brought the turn further: what is recorded, or kept, the next one need not do again."""
        self.ended: Ended | None = None
        """How the turn ended, once that is recorded."""
        self.drain = asyncio.Event()
        self._history = history(self.key, self.lease.context) if history else None
        self._keys = {entry.key for entry in run.log if entry.key}

    def asked(self) -> Asked:
        """Return what the agent is to answer."""
        turn = self.lease.turn
        entry = self._run.entry(turn.asked)
        return Asked(
            self.lease.context,
            turn,
            self.lease.fence,
            self._run.task(),
            message_asked(entry, turn),
            entry.request if entry is not None else {},
            [entry for entry in self._run.log if entry.generation > turn.asked],
            self.drain,
            self._history,
        )

    def speak(self, chunk: Chunk) -> None:
        """Speak a chunk at once; each model call is a stream delta of its own (R61, R63, D9)."""
        if self._speaking not in (None, chunk.message_id) and chunk.text:
            self._close_delta(COMPLETE)
        # Most chunks are a word; one that is a book is kept in pages, since an item of the table holds no book.
        for start in range(0, len(chunk.text), PAGE_CHARACTERS):
            self._say(Delta(chunk.text[start : start + PAGE_CHARACTERS], append=self._speaking is not None))
            self._speaking = chunk.message_id

    def type(self) -> None:
        """Let whoever listens here see that an answer is being written."""
        self._run.say("", typing_event(task_id=self.key.task_id, context_id=self.lease.context.context_id))

    async def emit(self, emission: Said | Noted | Emitted) -> None:
        """Record what the agent wants the client to have; what a node says again when it runs again is not said."""
        if emission.key and emission.key in self._keys:
            return
        match emission:
            case Said():
                status = self._status(TaskState.TASK_STATE_WORKING)
                status.message.CopyFrom(emission.message)
                self._own(status.message)
                event: Event = self._update(status)
            case Noted():
                event = self._update(self._status(TaskState.TASK_STATE_WORKING))
                event.metadata.update(emission.metadata)
            case Emitted():
                event = TaskArtifactUpdateEvent(
                    task_id=self.key.task_id,
                    context_id=self.lease.context.context_id,
                    artifact=emission.artifact,
                    append=emission.append,
                    last_chunk=emission.last_chunk,
                )
        await self._record(event, key=emission.key)

    async def end(self, ending: Reply | Asks, *, go_on: bool) -> None:
        """Record the answer, or the question, and give the lease back, or, to `go_on`, for the next turn's.

        Where a message waits for the task, it does not end: the answer is a word on the way.
        """
        status = self._status(ending.state)
        if ending.message is not None:
            status.message.CopyFrom(ending.message)
            self._own(status.message)
        event = self._update(status)
        if ending.metadata:
            event.metadata.update(ending.metadata)
        self._close_delta(COMPLETE if isinstance(ending, Reply) and ending.state == COMPLETED else CUT)
        try:
            await self._finish(event, go_on=go_on)
        except MoreAsked:
            event.status.state = TaskState.TASK_STATE_WORKING
            await self._finish(event, go_on=go_on)

    async def fail(self, reason: str, *, go_on: bool) -> None:
        """Record that the turn failed, and why (R36, D14), and give the lease back."""
        said = Message(role=Role.ROLE_AGENT, parts=[Part(text=reason)])
        await self.end(Reply(said, TaskState.TASK_STATE_FAILED, {"error": reason}), go_on=go_on)

    async def pause(self) -> None:
        """Leave the turn to whoever begins it next."""
        self._close_delta(CUT)
        await self._deltas.flush()
        await self._store.pause(self.lease, got_on=self.got_on)

    def close(self) -> None:
        """Leave nothing running behind; a turn that has recorded its end has nothing left to write."""
        self._deltas.close()

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
        self.got_on = True
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
    if entry is not None and entry.asked is not None:
        return entry.asked
    if entry is not None and isinstance(entry.event, Task) and entry.event.history:
        return entry.event.history[-1]
    raise StoreCorrupt(f"Event {turn.asked} of the task holds no message to answer.")
