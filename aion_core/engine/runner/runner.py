"""Runner of turns: one turn at a time per context, under a lease (right to run it), until the process's deadline."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial

from aion_core import log
from aion_core.clock import Clock
from aion_core.engine.agent import Agent, Paused, Suspended
from aion_core.engine.agent_options import AnswerAs, ReplyAs
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.outcomes import TurnStarted
from aion_core.engine.process.deadline import DRAIN_SECONDS, Deadline, wait_for_deadline
from aion_core.engine.process.exception_groups import ungrouped
from aion_core.engine.process.exits import exit_guard
from aion_core.engine.queues import WorkQueue
from aion_core.engine.records import StoppedBy
from aion_core.engine.runner import emissions, failures, labels
from aion_core.engine.runner.execution import TurnExecution
from aion_core.engine.runner.heartbeat import Heartbeat, LeaseKeeper
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.runner.metrics import TurnMetrics
from aion_core.engine.runner.restarts import note_restart
from aion_core.engine.stream.broadcast import EventBroadcast
from aion_core.engine.turn.store import TurnStore
from aion_core.engine.wake_ups import wake, wake_to_look
from aion_core.errors import AgentFailed, LeaseLost, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.telemetry import Metrics, NoopTraces, NullMetrics, SpanKind, Traces
from aion_core.trace.tracer import Tracer

logger = logging.getLogger(__name__)

STOP_SECONDS = 2.0
"""Longest wait for a cancelled agent to stop. The store refuses its later writes, because the fence has grown."""

RENEWALS = 3
"""Renewals per lease term, so that one or two failed renewals do not lose the lease."""


class TaskRunner:
    """Runner of turns whose lease (right to run) this process holds, with the agents of this deployment."""

    def __init__(
        self,
        store: TurnStore,
        agents: Callable[[str], Agent],
        clock: Clock,
        work_queue: WorkQueue,
        *,
        lease_seconds: float = 30.0,
        max_tries: int = failures.MAX_TRIES,
        reveal_errors: bool = False,
        conversations: Conversations | None = None,
        keep_lease: LeaseKeeper = Heartbeat,
        replies: Mapping[str, ReplyAs] | None = None,
        answers: Mapping[str, AnswerAs] | None = None,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`agents` returns the agent with an id. With `reveal_errors` clients see the text of the agent's errors.

        Turns read the history of their context from `conversations`. `replies` and `answers` map agents to their
        `reply` and `answer` settings, with the defaults `task` and `message`. Without a `tracer`, nobody records what
        the agents do.
        """
        self._store, self._agents, self._clock, self._work_queue = store, agents, clock, work_queue
        self.lease_seconds, self._max_tries, self._reveal_errors = lease_seconds, max_tries, reveal_errors
        self._conversations, self._keep_lease = conversations, keep_lease
        self._replies, self._answers = replies or {}, answers or {}
        self._metrics, self._traces, self._tracer = metrics or NullMetrics(), traces or NoopTraces(), tracer

    async def run(
        self, begun: TurnStarted, broadcast: EventBroadcast, deadline: Deadline | None = None
    ) -> TurnStarted | None:
        """Run a leased turn until its end or the deadline, and publish its events to `broadcast`.

        Return the next queued turn of the context, already leased; None if the queue is empty or no time is left.
        Errors of the agent or the store are not raised: the log has the result, and a wake-up message or timer restarts
        an unfinished turn.
        """
        agent_id = begun.lease.context.agent
        term = LeaseTerm(self._store, begun.lease, self._clock, seconds=self.lease_seconds, until=begun.until)
        turn = TurnExecution(
            begun,
            term,
            broadcast,
            self._store,
            self._clock,
            self._conversations,
            reply=self._replies.get(agent_id, ReplyAs.TASK),
            answer=self._answers.get(agent_id, AnswerAs.MESSAGE),
            trace=self._tracer.recorder(labels.traced(begun.lease)) if self._tracer is not None else None,
        )
        turn_labels = labels.labels_of(begun.lease, turn.request_metadata)
        with (
            log.about(**turn_labels),
            self._traces.span(
                "turn",
                SpanKind.CONSUMER,
                traceparent=turn_labels.get("traceparent", ""),
                tracestate=turn_labels.get("tracestate", ""),
                attributes=labels.attributes_of(begun.lease),
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
                if turn.trace is None:
                    await self._run(turn, metrics, broadcast, deadline or Deadline())
                else:
                    async with turn.trace.recording():
                        note_restart(turn.trace, begun.lease.turn)
                        await self._run(turn, metrics, broadcast, deadline or Deadline())
                        turn.trace.failed = turn.has_failed
            finally:
                metrics.end(turn.ended)
            if turn.has_failed:
                span.failed("the turn has failed")
            if turn.ended is not None and turn.ended.waiting:
                await wake(self._work_queue, turn.lease.context)
        return turn.ended.next if turn.ended is not None else None

    async def _run(
        self, turn: TurnExecution, metrics: TurnMetrics, broadcast: EventBroadcast, deadline: Deadline
    ) -> None:
        """Run the turn while this process holds its lease, and suspend it at the deadline."""
        try:
            async with self._keep_lease(
                turn.term,
                self._work_queue,
                renew_seconds=self.lease_seconds / RENEWALS,
                wake_up_seconds=self.lease_seconds,
            ) as lost:
                work = asyncio.create_task(self._work(turn, metrics, broadcast, deadline))
                end = asyncio.create_task(wait_for_deadline(deadline, self._clock, turn.drain))
                try:
                    await asyncio.wait({work, lost, end}, return_when=asyncio.FIRST_COMPLETED)
                    if turn.releasing or turn.over:
                        # Wait until the work has suspended the turn or released its lease, although the heartbeat may
                        # report the lease as lost. If the work were cancelled between its write and its wake-up
                        # message, only the sweep would find the next turn.
                        if not work.done():
                            await asyncio.wait({work})
                    elif lost.done():
                        self._lose(turn)
                finally:
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

    async def _work(
        self, turn: TurnExecution, metrics: TurnMetrics, broadcast: EventBroadcast, deadline: Deadline
    ) -> None:
        has_time = partial(self._has_time, deadline)
        try:
            try:
                logger.info("A turn begins.", extra=labels.start_of(turn.lease))
                with ungrouped(LeaseLost, StoreError), exit_guard(), log.kept_handlers() as keep_handlers:
                    async with aclosing(self._agent(turn).run(turn.request())) as emitted:
                        ending = await emissions.record(turn, metrics, emitted, keep_handlers)
                        if not isinstance(ending, Paused | Suspended):
                            await turn.end(ending, has_time=has_time)
                            await emissions.run_out(emitted)
                if isinstance(ending, Suspended):
                    suspended = await turn.suspend(ending)
                    await wake_to_look(self._work_queue, turn.lease.context, suspended, self._clock.now())
                if isinstance(ending, Paused):
                    turn.made_progress = True
                    await self._suspend(turn)
            except StoreCorrupt:
                logger.exception("A record of the task cannot be read.")
                await turn.fail(failures.UNREADABLE, has_time=has_time)
            except (LeaseLost, StoreError, GeneratorExit):
                raise
            except BaseException as error:  # an agent may raise any exception, as the panic of a library in Rust
                work = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and (turn.stopped or work is None or work.cancelling()):
                    raise
                # If nobody has cancelled this asyncio task, the agent's code has raised CancelledError, as a cancel
                # scope does.
                logger.exception("The agent failed.")
                if turn.trace is not None:
                    turn.trace.failure = error
                if turn.ended is None and not turn.stopped:
                    await turn.fail(failures.reason_of(error, reveal=self._reveal_errors), has_time=has_time)
        except LeaseLost:
            self._lose(turn)
        except StoreError as error:
            # Suspend the turn and delay its wake-up message, because the store has just failed and may need time.
            logger.exception("The turn could not be recorded.")
            counts = turn.agent_ran or not isinstance(error, StoreUnavailable)
            turn.stopped_by = StoppedBy.STORE if counts else None
            if not await self._suspend(turn, delay=self.lease_seconds / 2):
                # Fail the stream: the disk may be full for hours, and the client must not wait for the next holder.
                broadcast.fail(StoreUnavailable("The turn could neither be recorded nor suspended."))

    def _has_time(self, deadline: Deadline) -> bool:
        """Return True if this process has time for another turn."""
        if deadline.now.is_set():
            return False
        return deadline.until is None or (deadline.until - self._clock.now()).total_seconds() > 2 * DRAIN_SECONDS

    async def _suspend(self, turn: TurnExecution, *, delay: float = 0.0) -> bool:
        """Suspend the turn and enqueue a wake-up message. Return False if the store fails: the lease expires instead."""
        turn.over = True
        try:
            await turn.pause()
        except (LeaseLost, StoreError) as error:
            logger.warning("The turn could not be suspended: %s", error)
            return isinstance(error, LeaseLost)
        await wake(self._work_queue, turn.lease.context, delay=delay)
        return True

    def _lose(self, turn: TurnExecution) -> None:
        """End the turn in this process because its lease is lost. Log the loss once."""
        if not turn.over:
            turn.over = True
            lease = turn.lease
            logger.info(
                "The turn was canceled, or another worker took it over.",
                extra={"holder": lease.holder, "fence": lease.fence},
            )

    def _agent(self, turn: TurnExecution) -> Agent:
        """Return the agent of the turn. Raises AgentFailed for too many tries or handoffs, and for an unknown agent."""
        failures.check_tries(turn.lease.turn, self._max_tries)
        agent_id = turn.lease.context.agent
        try:
            return self._agents(agent_id)
        except KeyError:
            raise AgentFailed(
                f"The agent {agent_id!r} is no longer in aion.yaml: it was removed or renamed after this message."
            ) from None
