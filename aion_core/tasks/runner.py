"""Runs the turns of a context, one after the other: for as long as each takes, its lease holds, and there is time."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime

from uuid_utils.compat import uuid7

from aion_core import log
from aion_core.errors import AgentFailed, LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.ports import (
    Agent,
    AgentTyping,
    AnswerAs,
    Chunk,
    Clock,
    Emission,
    Ending,
    InputRequired,
    LeaseHeld,
    Metrics,
    NoopTraces,
    NullMetrics,
    Paused,
    Reply,
    ReplyAs,
    SpanKind,
    StepCompleted,
    TaskStore,
    Traces,
    TurnStarted,
    WakeUp,
    WorkQueue,
)
from aion_core.protocol.types import TaskState
from aion_core.tasks.broadcast import EventBroadcast
from aion_core.tasks.call import DRAIN_SECONDS, Deadline, margins
from aion_core.tasks.heartbeat import Heartbeat, LeaseKeeper
from aion_core.tasks.history import ContextHistory
from aion_core.tasks.notifications import wake
from aion_core.tasks.turn import TurnExecution, TurnMetrics

logger = logging.getLogger(__name__)

MAX_TRIES = 3
"""How often a turn is begun before its task fails: what takes its holder down once may do so again."""

MAX_HANDOFFS = 200
"""How often a turn is handed on at a deadline before its task fails: two days of work."""

STOP_SECONDS = 2.0
"""How long an agent that has lost its lease may take to stop; whatever it says later is refused by the fence."""

REST_SECONDS = 5.0
"""How long an agent may go on in its own code once its end is recorded: the lease is another turn's by then."""

UNREADABLE = "A record of this task can no longer be read. Send the message again, in a new task."
"""What a client is told where the log, or the message that waited, is gone or broken."""

RENEWALS = 3
"""How often a lease is renewed within its term: one or two missed beats do not lose it."""


class TaskRunner:
    """Runs turns whose lease is held, by the agents of this deployment."""

    def __init__(
        self,
        store: TaskStore,
        agents: Callable[[str], Agent],
        clock: Clock,
        work_queue: WorkQueue,
        *,
        lease_seconds: float = 30.0,
        max_tries: int = MAX_TRIES,
        reveal_errors: bool = False,
        history: ContextHistory | None = None,
        keep_lease: LeaseKeeper = Heartbeat,
        replies: Mapping[str, ReplyAs] | None = None,
        answers: Mapping[str, AnswerAs] | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`agents` gives the agent of an id; `reveal_errors` puts an agent's own error text on the wire (D14).

        `history` gives a task's turn the reader of its conversation. `replies` and `answers` say for each agent what its
        clients get (R23), and where its tasks hold the answer (D22); the task, in its status, where nothing is said.
        """
        self._store, self._agents, self._clock, self._work_queue = store, agents, clock, work_queue
        self.lease_seconds, self._max_tries, self._reveal_errors = lease_seconds, max_tries, reveal_errors
        self._history, self._keep_lease = history, keep_lease
        self._replies, self._answers = replies or {}, answers or {}
        self._metrics, self._traces = metrics or NullMetrics(), traces or NoopTraces()

    async def run(
        self, begun: TurnStarted, run: EventBroadcast, deadline: Deadline | None = None
    ) -> TurnStarted | None:
        """Run the turn to its end, or for as long as there is time, and tell `run` of it.

        Returns the turn that waited behind it, whose lease is held now; None where there is none, or where there is no
        time left for it. Raises nothing that the agent did or the store refused: the log says how the turn ended, and
        a turn that could not be ended, or was handed on, is begun again by whoever hears its bell.
        """
        agent_id = begun.lease.context.agent
        turn = TurnExecution(
            begun,
            run,
            self._store,
            self._clock,
            self._history,
            reply=self._replies.get(agent_id, ReplyAs.TASK),
            answer=self._answers.get(agent_id, AnswerAs.MESSAGE),
        )
        labels = turn.labels
        with (
            log.about(**labels),
            self._traces.span(
                "turn", SpanKind.CONSUMER, traceparent=labels.get("traceparent", ""), attributes=turn.attributes
            ) as span,
        ):
            counted = TurnMetrics(
                self._metrics,
                self._clock,
                begun.lease.turn,
                run.entry(begun.lease.turn.message_generation),
                agent=agent_id,
            )
            counted.begins()
            try:
                await self._run(turn, counted, run, deadline or Deadline())
            finally:
                counted.rests(turn.ended)
            if turn.ended is not None and turn.ended.head.state == TaskState.TASK_STATE_FAILED:
                span.failed("the turn has failed")
            if turn.ended is not None and turn.ended.waiting:
                await wake(self._work_queue, turn.lease.context)
        return turn.ended.next if turn.ended is not None else None

    async def _run(self, turn: TurnExecution, counted: TurnMetrics, run: EventBroadcast, deadline: Deadline) -> None:
        """Run the turn for as long as its lease holds and there is time."""
        try:
            async with self._keep_lease(
                self._store,
                self._work_queue,
                turn.lease,
                renew_seconds=self.lease_seconds / RENEWALS,
                wake_up_seconds=self.lease_seconds,
            ) as beat:
                work = asyncio.create_task(self._work(turn, counted, deadline))
                lost = asyncio.create_task(beat.lost.wait())
                end = asyncio.create_task(self._time_ends(turn, deadline))
                try:
                    await asyncio.wait({work, lost, end}, return_when=asyncio.FIRST_COMPLETED)
                    if turn.releasing or turn.over:
                        # It is this very turn that gives the lease back, and the beat has seen it gone; or it is being
                        # handed on, slowly: cut between its record and its bell it would wait for the sweep.
                        await asyncio.wait({work})
                finally:
                    lost.cancel()
                    end.cancel()
                    if not work.done():
                        turn.stopped = True
                        work.cancel()
                        await asyncio.wait({work}, timeout=STOP_SECONDS)
                if end.done() and not end.cancelled() and turn.ended is None and not turn.over:
                    await self._put_down(turn)
        finally:
            run.end()
            await turn.rest()

    async def _work(self, turn: TurnExecution, counted: TurnMetrics, deadline: Deadline) -> None:
        try:
            try:
                logger.info("A turn begins.")
                async with aclosing(self._agent(turn).run(turn.request())) as emissions:
                    ending = await self._hear(turn, counted, emissions)
                    if not isinstance(ending, Paused):
                        await turn.end(ending, go_on=self._has_time(deadline))
                        await self._let_rest(turn, emissions)
                if isinstance(ending, Paused):
                    turn.made_progress = True
                    await self._put_down(turn)
            except StoreCorrupt:
                logger.exception("A record of the task cannot be read.")
                await turn.fail(UNREADABLE, go_on=self._has_time(deadline))
            except (LeaseLost, StoreError):
                raise
            except Exception as error:  # an agent may raise anything
                logger.exception("The agent failed.")
                if turn.ended is None and not turn.stopped:
                    await turn.fail(self._reason(error), go_on=self._has_time(deadline))
        except LeaseLost:
            turn.over = True
            logger.warning("The turn belongs to another holder now.")
        except StoreError as error:
            # Whoever begins the turn next finds what is recorded; not at once, since the store has just refused.
            logger.exception("The turn could not be recorded.")
            turn.spent = turn.agent_ran or not isinstance(error, StoreUnavailable)
            await self._put_down(turn, delay=self.lease_seconds / 2)

    async def _time_ends(self, turn: TurnExecution, deadline: Deadline) -> None:
        """Ask the agent to stop at a step boundary when the time is nearly up; return when it has to be cut."""
        drain_before, cut_before = margins(deadline, self._clock.now())
        now = asyncio.ensure_future(deadline.now.wait())
        try:
            if deadline.until is None:
                await now
            else:
                left = (deadline.until - self._clock.now()).total_seconds()
                drain = asyncio.ensure_future(self._clock.sleep(left - drain_before))
                try:
                    await asyncio.wait({now, drain}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    drain.cancel()
        finally:
            now.cancel()
        turn.drain.set()
        grace = drain_before - cut_before
        if deadline.grace is not None and deadline.now.is_set():
            grace = deadline.grace
        if deadline.until is not None:
            left = (deadline.until - self._clock.now()).total_seconds()
            grace = min(grace, max(0.0, left - cut_before))
        await self._clock.sleep(grace)

    def _has_time(self, deadline: Deadline) -> bool:
        """Tell whether another turn may begin in this process."""
        if deadline.until is None:
            return not deadline.now.is_set()
        return not deadline.now.is_set() and (deadline.until - self._clock.now()).total_seconds() > 2 * DRAIN_SECONDS

    async def _put_down(self, turn: TurnExecution, *, delay: float = 0.0) -> None:
        """Hand the turn on; where even that cannot be recorded, its lease runs out."""
        turn.over = True
        try:
            await turn.pause()
        except (LeaseLost, StoreError) as error:
            logger.warning("The turn could not be handed on: %s", error)
        else:
            await wake(self._work_queue, turn.lease.context, delay=delay)

    def _agent(self, turn: TurnExecution) -> Agent:
        """Return the agent that is to answer; raises AgentFailed where it has been asked often enough."""
        asked = turn.lease.turn
        if asked.tries > self._max_tries:
            raise AgentFailed(
                f"The turn was begun {self._max_tries} times and did not end. Send the message again with a new id."
            )
        if asked.handoffs > MAX_HANDOFFS:
            raise AgentFailed("The turn took too long: it was handed on too often and did not end.")
        return self._agents(turn.lease.context.agent)

    async def _hear(
        self, turn: TurnExecution, counted: TurnMetrics, emissions: AsyncGenerator[Emission, None]
    ) -> Ending:
        """Record and speak what the agent says, and return how its turn ends."""
        async for emission in emissions:
            turn.agent_ran = True
            if isinstance(emission, Chunk):
                turn.speak(emission)
                counted.speaks()
            elif isinstance(emission, AgentTyping):
                turn.type()
            elif isinstance(emission, StepCompleted):
                turn.made_progress = True
            elif isinstance(emission, Reply | InputRequired | Paused):
                return emission
            else:
                await turn.emit(emission)
        return Reply(None)

    async def _let_rest(self, turn: TurnExecution, emissions: AsyncGenerator[Emission, None]) -> None:
        """Let an agent do what it does after its end is recorded, for a little while; nothing of it changes the end."""
        try:
            async with asyncio.timeout(REST_SECONDS):
                async for _ in emissions:
                    logger.warning("The agent went on after its end; ignored.")
        except TimeoutError:
            logger.warning("The agent did not rest after its end; it is cut.")
        except Exception:  # an agent may raise anything
            logger.exception("The agent failed after its end.")

    def _reason(self, error: Exception) -> str:
        """Return what a client may know of an agent's failure: the error's class and a safe sentence (D14)."""
        if isinstance(error, AgentFailed):
            return str(error)
        reason = f"{type(error).__name__}: the agent could not finish this turn."
        return f"{reason} {error}" if self._reveal_errors else reason


AFTER_SECONDS = 1.0
"""How long after the end of a lease the bell that watches it is heard again."""


class Worker:
    """Answers bells: one turn after the other of a context, for as long as there is time."""

    def __init__(self, store: TaskStore, runner: TaskRunner, work_queue: WorkQueue, clock: Clock) -> None:
        self._store, self._runner, self._work_queue, self._clock = store, runner, work_queue, clock

    async def handle(self, wake_up: WakeUp, *, until: datetime | None = None, deadline: Deadline | None = None) -> None:
        """Run whatever turn of the bell's context has its time; where there is none, nothing happens.

        `until`: when this process ends, by which the turn has to be handed on; `deadline` says it instead where the
        process may be told to stop before. A bell that watches over a lease whose
        holder lives is rung again for the end of that lease, and so is any that finds a lease nearly out. Raises
        StoreError where the table cannot be asked: the bell is to be heard again.
        """
        begun = await self._store.begin(wake_up.context, holder=str(uuid7()))
        if isinstance(begun, LeaseHeld):
            left = (begun.until - self._clock.now()).total_seconds()
            # Each begin of a turn has a bell of its own that watches; those of earlier ones fall silent.
            if begun.fence == wake_up.fence or left < self._runner.lease_seconds / 2:
                # Nobody who lives lets a lease run down so far: its holder is gone, or is a clock that is behind.
                await self._work_queue.enqueue(wake_up, delay=max(0.0, left) + AFTER_SECONDS)
        elif begun is not None and (run := await self._run_of(begun)) is not None:
            await self.run(begun, run, deadline or Deadline(until))

    async def run(self, begun: TurnStarted, run: EventBroadcast, deadline: Deadline | None = None) -> None:
        """Run the turn, then the turns that wait behind it; `run` receives the events of the first."""
        following = await self._runner.run(begun, run, deadline)
        while following is not None and (next_run := await self._run_of(following)) is not None:
            following = await self._runner.run(following, next_run, deadline)

    async def _run_of(self, begun: TurnStarted) -> EventBroadcast | None:
        """Return the run of a turn, with the log of its task; without a log that cannot be read: the turn fails then.

        If the store is out of reach, leave the turn for later and return None: this try does not count.
        """
        try:
            log = await self._store.log(begun.head.key)
        except StoreCorrupt:
            logger.exception("The log of a task cannot be read.", extra={"task_id": begun.head.key.task_id})
            return EventBroadcast(())
        except StoreError as error:
            logger.warning("The turn could not be read: %s", error, extra={"task_id": begun.head.key.task_id})
            try:
                await self._store.pause(begun.lease, made_progress=False, spent=not isinstance(error, StoreUnavailable))
            except (LeaseLost, StoreError) as refused:
                # The lease runs out, and its timer finds the turn.
                logger.warning("The turn could not be left: %s", refused)
            else:
                await wake(self._work_queue, begun.lease.context, delay=self._runner.lease_seconds / 2)
            return None
        return EventBroadcast(log.events if log is not None else ())
