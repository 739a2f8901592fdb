"""Runs one turn of an agent: every durable event is in the log before anyone hears of it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

from google.protobuf.json_format import MessageToDict
from uuid_utils.compat import uuid7

from aion_core.errors import AgentFailed, LeaseLost, StoreCorrupt, StoreError
from aion_core.ports import (
    Agent,
    Asked,
    Asks,
    Begun,
    Chunk,
    Clock,
    Delta,
    Emitted,
    Noted,
    Numbered,
    Paused,
    Reply,
    Said,
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
from aion_core.tasks import lifecycle
from aion_core.tasks.deltas import PAGE_CHARACTERS, DeltaWriter
from aion_core.tasks.heartbeat import Heartbeat
from aion_core.tasks.run import Run

logger = logging.getLogger(__name__)

COMPLETED = TaskState.TASK_STATE_COMPLETED

COMPLETE, CUT = "complete_message", "interrupted"
"""Why a stream delta is closed, in the words of Aion's clients: its model call ended, or the turn did."""

MAX_TRIES = 3
"""How often a turn is begun before its task fails: what takes its holder down once may do so again."""

STOP_SECONDS = 2.0
"""How long an agent that has lost its lease may take to stop; whatever it says later is refused by the fence."""


class TaskRunner:
    """Runs turns whose lease is held, by the agents of this deployment."""

    def __init__(
        self,
        store: TaskStore,
        agents: Callable[[str], Agent],
        clock: Clock,
        *,
        renew_seconds: float = 10.0,
        reveal_errors: bool = False,
    ) -> None:
        """`agents` gives the agent of an id; `reveal_errors` puts an agent's own error text on the wire (D14)."""
        self._store, self._agents, self._clock = store, agents, clock
        self._renew_seconds, self._reveal_errors = renew_seconds, reveal_errors

    async def run(self, begun: Begun, run: Run) -> None:
        """Run the turn to its end and tell `run` of it.

        Raises nothing that the agent did or the store refused: the log says how the turn ended, and a turn that
        could not be ended is found by its lease.
        """
        turn = _Turn(begun, run, self._store, self._clock)
        try:
            async with Heartbeat(self._store, begun.lease, seconds=self._renew_seconds) as beat:
                work = asyncio.create_task(self._work(turn))
                lost = asyncio.create_task(beat.lost.wait())
                try:
                    await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
                    if turn.releasing:
                        # It is this very turn that gives the lease back, and the beat has seen it gone.
                        await asyncio.wait({work})
                finally:
                    lost.cancel()
                    if not work.done():
                        work.cancel()
                        await asyncio.wait({work}, timeout=STOP_SECONDS)
        finally:
            turn.close()
            run.end()

    async def _work(self, turn: "_Turn") -> None:
        try:
            try:
                await turn.end(await self._ask(turn))
            except (LeaseLost, StoreError):
                raise
            except Exception as error:  # an agent may raise anything
                logger.exception("The agent failed.", extra={"task_id": turn.key.task_id})
                await turn.fail(self._reason(error))
        except LeaseLost:
            logger.warning("The turn belongs to another holder now.", extra={"task_id": turn.key.task_id})
        except StoreError:
            # Its lease runs out, and whoever begins the turn next finds what is recorded.
            logger.exception("The turn could not be recorded.", extra={"task_id": turn.key.task_id})

    async def _ask(self, turn: "_Turn") -> Reply | Asks:
        """Let the agent answer; record and speak what it says, and return how its turn ends."""
        if turn.lease.turn.tries > MAX_TRIES:
            raise AgentFailed(f"The turn was begun {MAX_TRIES} times and did not end. Send it again with a new id.")
        agent = self._agents(turn.lease.context.agent)
        ending: Reply | Asks | None = None
        async with aclosing(agent.run(turn.asked())) as emissions:
            async for emission in emissions:
                if ending is not None:
                    logger.warning("The agent went on after its end; ignored.", extra={"task_id": turn.key.task_id})
                elif isinstance(emission, Chunk):
                    turn.speak(emission)
                elif isinstance(emission, Typing):
                    turn.type()
                elif isinstance(emission, Reply | Asks):
                    ending = emission
                elif isinstance(emission, Paused):
                    raise AgentFailed("The turn stopped before its end.")
                else:
                    await turn.emit(emission)
        return ending or Reply(None)

    def _reason(self, error: Exception) -> str:
        """Return what a client may know of an agent's failure: the error's class and a safe sentence (D14)."""
        if isinstance(error, AgentFailed):
            return str(error)
        reason = f"{type(error).__name__}: the agent could not finish this turn."
        return f"{reason} {error}" if self._reveal_errors else reason


class _Turn:
    """One turn's words, from the message to the last event."""

    def __init__(self, begun: Begun, run: Run, store: TaskStore, clock: Clock) -> None:
        self.lease, self.key = begun.lease, begun.head.key
        self._head, self._run, self._store, self._clock = begun.head, run, store, clock
        self._deltas = DeltaWriter(store, self.key, clock, fence=begun.lease.fence)
        self._deltas.follow(begun.head.generation)
        self._speaking: str | None = None
        """The model call whose stream delta is open."""
        self.releasing = False
        """Whether the turn is recording its end, and giving its lease back with it."""
        self._keys = {entry.key for entry in run.log if entry.key}

    def asked(self) -> Asked:
        """Return what the agent is to answer."""
        task = self._run.task()
        turn = self.lease.turn
        message = message_asked(self._run.log, turn)
        request = self._run.log[turn.asked - 1].request
        recorded = self._run.log[turn.asked :]
        return Asked(self.lease.context, turn, self.lease.fence, task, message, request, recorded)

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

    async def end(self, ending: Reply | Asks) -> None:
        """Record the answer, or the question, and give the lease back."""
        status = self._status(ending.state)
        if ending.message is not None:
            status.message.CopyFrom(ending.message)
            self._own(status.message)
        event = self._update(status)
        if ending.metadata:
            event.metadata.update(ending.metadata)
        self._close_delta(COMPLETE if isinstance(ending, Reply) and ending.state == COMPLETED else CUT)
        await self._record(event, release=True)

    async def fail(self, reason: str) -> None:
        """Record that the turn failed, and why (R36, D14), and give the lease back."""
        said = Message(role=Role.ROLE_AGENT, parts=[Part(text=reason)])
        await self.end(Reply(said, TaskState.TASK_STATE_FAILED, {"error": reason}))

    def close(self) -> None:
        """Leave nothing running behind; a turn that has recorded its end has nothing left to write."""
        self._deltas.close()

    def _close_delta(self, reason: str) -> None:
        if self._speaking is not None:
            self._say(Delta("", append=True, last=True, reason=reason))
            self._speaking = None

    def _say(self, delta: Delta) -> None:
        self._run.say(self._deltas.add(delta), delta)

    async def _record(self, event: Event, *, release: bool = False, key: str = "") -> None:
        # What no client can be told (a NaN, say) must not be in the log, where every reader would meet it.
        MessageToDict(event)
        self._close_delta(COMPLETE)
        await self._deltas.flush()
        self.releasing = release
        self._head = await self._store.append(self.lease, self._head, event, release=release, key=key)
        self._deltas.follow(self._head.generation)
        if key:
            self._keys.add(key)
        self._run.record(Numbered(self._head.generation, event, key=key))
        # Let the readers write before the agent goes on: the first event leaves in half the time.
        await asyncio.sleep(0)

    def _own(self, message: Message) -> None:
        """Set what is the server's to set, whatever the author put there (R75)."""
        message.message_id = message.message_id or str(uuid7())
        message.role = Role.ROLE_AGENT
        message.task_id, message.context_id = self.key.task_id, self.lease.context.context_id

    def _update(self, status: TaskStatus) -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(task_id=self.key.task_id, context_id=self.lease.context.context_id, status=status)

    def _status(self, state: TaskState) -> TaskStatus:
        return lifecycle.status_at(state, self._clock.now())


def message_asked(log: Sequence[Numbered], turn: Turn) -> Message:
    """Return the message that the turn is to answer, from the event that holds it.

    Raises StoreCorrupt where that event holds none.
    """
    entry = log[turn.asked - 1] if turn.asked <= len(log) else None
    if entry is not None and entry.asked is not None:
        return entry.asked
    if entry is not None and isinstance(entry.event, Task) and entry.event.history:
        return entry.event.history[-1]
    raise StoreCorrupt(f"Event {turn.asked} of the task holds no message to answer.")
