"""Runner of turns: one after the other per context, while the lease holds and until the deadline."""

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
from aion_core.ports.queues import LONGEST_DELAY
from aion_core.protocol.types import TaskState
from aion_core.tasks.broadcast import EventBroadcast
from aion_core.tasks.call import DRAIN_SECONDS, Deadline, margins
from aion_core.tasks.conversations import Conversations
from aion_core.tasks.heartbeat import Heartbeat, LeaseKeeper
from aion_core.tasks.notifications import wake
from aion_core.tasks.turn import TurnExecution, TurnMetrics

logger = logging.getLogger(__name__)

MAX_TRIES = 3
"""Limit of tries of a turn before its task fails: the turn itself may crash its process."""

MAX_HANDOFFS = 200
"""Limit of handoffs of a turn at deadlines before its task fails: two days of work."""

STOP_SECONDS = 2.0
"""Longest wait for an agent to stop after its cancellation; the fence refuses its later writes."""

AFTER_END_SECONDS = 5.0
"""Longest run of an agent's own code after its recorded end: another turn may have the lease by then."""

UNREADABLE = "A record of this task can no longer be read. Send the message again, in a new task."
"""Error text for a lost or broken log or waiting message."""

RENEWALS = 3
"""Renewals per lease term: one or two failed renewals do not lose the lease."""


class TaskRunner:
    """Runner of leased turns by the agents of this deployment."""

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
        conversations: Conversations | None = None,
        keep_lease: LeaseKeeper = Heartbeat,
        replies: Mapping[str, ReplyAs] | None = None,
        answers: Mapping[str, AnswerAs] | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
    ) -> None:
        """`agents` returns the agent of an id; `reveal_errors` adds an agent's own error text to the client's.

        Turns read the history of their context from `conversations`. `replies` and `answers` are settings by agent, with
        the defaults `task` and `message`.
        """
        self._store, self._agents, self._clock, self._work_queue = store, agents, clock, work_queue
        self.lease_seconds, self._max_tries, self._reveal_errors = lease_seconds, max_tries, reveal_errors
        self._conversations, self._keep_lease = conversations, keep_lease
        self._replies, self._answers = replies or {}, answers or {}
        self._metrics, self._traces = metrics or NullMetrics(), traces or NoopTraces()

    async def run(
        self, begun: TurnStarted, broadcast: EventBroadcast, deadline: Deadline | None = None
    ) -> TurnStarted | None:
        """Run the turn until its end or the deadline, and publish its events to `broadcast`.

        Return the next turn of the queue, already leased; None with an empty queue or without time. Errors of the agent
        or the store are not raised: the log has the outcome, and a wake-up message or timer restarts an unfinished turn.
        """
        agent_id = begun.lease.context.agent
        turn = TurnExecution(
            begun,
            broadcast,
            self._store,
            self._clock,
            self._conversations,
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
            metrics = TurnMetrics(
                self._metrics,
                self._clock,
                begun.lease.turn,
                broadcast.entry(begun.lease.turn.message_generation),
                agent=agent_id,
            )
            metrics.begin()
            try:
                await self._run(turn, metrics, broadcast, deadline or Deadline())
            finally:
                metrics.end(turn.ended)
            if turn.ended is not None and turn.ended.head.state == TaskState.TASK_STATE_FAILED:
                span.failed("the turn has failed")
            if turn.ended is not None and turn.ended.waiting:
                await wake(self._work_queue, turn.lease.context)
        return turn.ended.next if turn.ended is not None else None

    async def _run(
        self, turn: TurnExecution, metrics: TurnMetrics, broadcast: EventBroadcast, deadline: Deadline
    ) -> None:
        """Run the turn while its lease holds, until the deadline."""
        try:
            async with self._keep_lease(
                self._store,
                self._work_queue,
                turn.lease,
                renew_seconds=self.lease_seconds / RENEWALS,
                wake_up_seconds=self.lease_seconds,
            ) as beat:
                work = asyncio.create_task(self._work(turn, metrics, deadline))
                lost = asyncio.create_task(beat.lost.wait())
                end = asyncio.create_task(self._wait_for_deadline(turn, deadline))
                try:
                    await asyncio.wait({work, lost, end}, return_when=asyncio.FIRST_COMPLETED)
                    if turn.releasing or turn.over:
                        # The turn itself is releasing its lease, seen by the heartbeat; or it is being suspended. A
                        # cancellation between its record and its wake-up message would leave it to the sweep.
                        await asyncio.wait({work})
                finally:
                    lost.cancel()
                    end.cancel()
                    if not work.done():
                        turn.stopped = True
                        work.cancel()
                        await asyncio.wait({work}, timeout=STOP_SECONDS)
                if end.done() and not end.cancelled() and turn.ended is None and not turn.over:
                    await self._suspend(turn)
        finally:
            broadcast.end()
            await turn.close()

    async def _work(self, turn: TurnExecution, metrics: TurnMetrics, deadline: Deadline) -> None:
        try:
            try:
                logger.info("A turn begins.")
                async with aclosing(self._agent(turn).run(turn.request())) as emissions:
                    ending = await self._record(turn, metrics, emissions)
                    if not isinstance(ending, Paused):
                        await turn.end(ending, run_next=self._has_time(deadline))
                        await self._run_out(turn, emissions)
                if isinstance(ending, Paused):
                    turn.made_progress = True
                    await self._suspend(turn)
            except StoreCorrupt:
                logger.exception("A record of the task cannot be read.")
                await turn.fail(UNREADABLE, run_next=self._has_time(deadline))
            except (LeaseLost, StoreError):
                raise
            except Exception as error:  # an agent may raise anything
                logger.exception("The agent failed.")
                if turn.ended is None and not turn.stopped:
                    await turn.fail(self._reason(error), run_next=self._has_time(deadline))
        except LeaseLost:
            turn.over = True
            logger.warning("The turn belongs to another holder now.")
        except StoreError as error:
            # The next holder continues from the records; delayed, since the store has just failed.
            logger.exception("The turn could not be recorded.")
            turn.spent = turn.agent_ran or not isinstance(error, StoreUnavailable)
            await self._suspend(turn, delay=self.lease_seconds / 2)

    async def _wait_for_deadline(self, turn: TurnExecution, deadline: Deadline) -> None:
        """Set `drain` shortly before the deadline; return at the time to cancel the turn."""
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
        """Return True if another turn may begin in this process."""
        if deadline.until is None:
            return not deadline.now.is_set()
        return not deadline.now.is_set() and (deadline.until - self._clock.now()).total_seconds() > 2 * DRAIN_SECONDS

    async def _suspend(self, turn: TurnExecution, *, delay: float = 0.0) -> None:
        """Suspend the turn and enqueue its wake-up; if the store refuses, its lease runs out."""
        turn.over = True
        try:
            await turn.pause()
        except (LeaseLost, StoreError) as error:
            logger.warning("The turn could not be suspended: %s", error)
        else:
            await wake(self._work_queue, turn.lease.context, delay=delay)

    def _agent(self, turn: TurnExecution) -> Agent:
        """Return the agent of the turn; raises AgentFailed at the limit of tries or handoffs."""
        record = turn.lease.turn
        if record.tries > self._max_tries:
            raise AgentFailed(
                f"The turn was begun {self._max_tries} times and did not end. Send the message again with a new id."
            )
        if record.handoffs > MAX_HANDOFFS:
            raise AgentFailed("The turn took too long: it was suspended too often and did not end.")
        return self._agents(turn.lease.context.agent)

    async def _record(
        self, turn: TurnExecution, metrics: TurnMetrics, emissions: AsyncGenerator[Emission, None]
    ) -> Ending:
        """Record or publish the agent's emissions; return the ending of its turn."""
        async for emission in emissions:
            turn.agent_ran = True
            if isinstance(emission, Chunk):
                turn.add_chunk(emission)
                metrics.count_chunk()
            elif isinstance(emission, AgentTyping):
                turn.type()
            elif isinstance(emission, StepCompleted):
                turn.made_progress = True
            elif isinstance(emission, Reply | InputRequired | Paused):
                return emission
            else:
                await turn.emit(emission)
        return Reply(None)

    async def _run_out(self, turn: TurnExecution, emissions: AsyncGenerator[Emission, None]) -> None:
        """Run the agent's code after its recorded end, for a short time; its emissions are ignored."""
        try:
            async with asyncio.timeout(AFTER_END_SECONDS):
                async for _ in emissions:
                    logger.warning("The agent emitted after its end; ignored.")
        except TimeoutError:
            logger.warning("The agent did not return after its end; it is canceled.")
        except Exception:  # an agent may raise anything
            logger.exception("The agent failed after its end.")

    def _reason(self, error: Exception) -> str:
        """Return the client's error text for an agent's failure: the error's class and a safe sentence."""
        if isinstance(error, AgentFailed):
            return str(error)
        reason = f"{type(error).__name__}: the agent could not finish this turn."
        return f"{reason} {error}" if self._reveal_errors else reason


AFTER_SECONDS = 1.0
"""Delay of a lease's wake-up message after the end of the lease."""


class Worker:
    """Handler of wake-up messages: runs the turns of a context, until the deadline."""

    def __init__(self, store: TaskStore, runner: TaskRunner, work_queue: WorkQueue, clock: Clock) -> None:
        self._store, self._runner, self._work_queue, self._clock = store, runner, work_queue, clock

    async def handle(self, wake_up: WakeUp, *, until: datetime | None = None, deadline: Deadline | None = None) -> None:
        """Run the context's next turns, if one may begin.

        `until` is the end of this process; `deadline` replaces it in a process that may stop earlier. The wake-up message
        of a lease in force is enqueued again for the end of that lease; so is any message that finds a lease nearly
        expired. Raises StoreError: the message must be delivered again.
        """
        begun = await self._store.begin(wake_up.context, holder=str(uuid7()))
        if isinstance(begun, LeaseHeld):
            left = (begun.until - self._clock.now()).total_seconds()
            # Each lease has its own wake-up message; the messages of earlier leases are dropped.
            if begun.fence == wake_up.fence or left < self._runner.lease_seconds / 2:
                # A live holder renews earlier: this one is dead, or its clock is slow.
                delay = min(max(0.0, left) + AFTER_SECONDS, LONGEST_DELAY)
                await self._work_queue.enqueue(wake_up, delay=delay)
        elif begun is not None and (broadcast := await self._broadcast_of(begun)) is not None:
            await self.run(begun, broadcast, deadline or Deadline(until))

    async def run(self, begun: TurnStarted, broadcast: EventBroadcast, deadline: Deadline | None = None) -> None:
        """Run the turn, then the next turns of its queue; `broadcast` receives the events of the first."""
        following = await self._runner.run(begun, broadcast, deadline)
        while following is not None and (next_broadcast := await self._broadcast_of(following)) is not None:
            following = await self._runner.run(following, next_broadcast, deadline)

    async def _broadcast_of(self, begun: TurnStarted) -> EventBroadcast | None:
        """Return the broadcast of a turn with its task's log; without events if the log is corrupt: the turn then fails.

        If the store is unavailable, suspend the turn and return None: this try does not count.
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
                logger.warning("The turn could not be suspended: %s", refused)
            else:
                await wake(self._work_queue, begun.lease.context, delay=self._runner.lease_seconds / 2)
            return None
        return EventBroadcast(log.events if log is not None else ())
