"""The operations of A2A on an agent's tasks, in the domain's own terms: what a front calls, whatever its dialect."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from google.protobuf.json_format import MessageToDict
from uuid_utils.compat import uuid7

from aion_core.errors import ContextBusy, InvalidMessage, LeaseLost, StoreUnavailable, TaskFinished, TaskNotFound
from aion_core.ports import (
    Begun,
    Clock,
    ContextKey,
    Cursor,
    FollowUp,
    Interrupted,
    Log,
    Numbered,
    Repeated,
    TaskKey,
    TaskStore,
)
from aion_core.protocol.types import SendMessageRequest, Task
from aion_core.tasks import ingress, lifecycle, projection, questions, subscription
from aion_core.tasks.run import Listen, Run, Spoken
from aion_core.tasks.runner import TaskRunner

logger = logging.getLogger(__name__)

DRIVE_FOR = timedelta(minutes=15)
"""How long a call looks after its context at the most: as long as an invocation of Lambda may last."""
BUSY_SECONDS = 0.25
"""How often a turn that waits looks whether its time has come."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, and for which agent."""

    owner: str
    agent: str
    work: set[asyncio.Task[None]] = field(default_factory=set)
    """What the call has set going; it may outlive the answer, so whoever made the call waits for it."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    key: TaskKey
    run: Run | None
    """The turn, where this call runs it; else somebody else does, and the log is read."""


class TaskService:
    """Sends, streams and reads tasks; a turn that it starts goes on when the caller leaves."""

    def __init__(self, store: TaskStore, runner: TaskRunner, clock: Clock, *, blocking_wait: float = 240.0) -> None:
        """`blocking_wait`: after so many seconds a blocking send answers with the task as it stands."""
        self._store, self._runner, self._clock = store, runner, clock
        self._blocking_wait = blocking_wait

    async def send(self, call: Call, request: SendMessageRequest) -> Task:
        """Answer the message and return its task at rest, or as it stands after `blocking_wait` (R20).

        With `returnImmediately` the task is returned as it was recorded, working, and runs on (R21, D12). A repeated
        message returns the task that it made the first time. Raises ClientError where the message cannot be taken.
        """
        accepted = await self._accept(call, request, Listen.NOT)
        if not request.configuration.return_immediately:
            await self._within(self._rested(accepted), self._blocking_wait)
        if accepted.run is not None and accepted.run.rests_or_goes_on():
            return accepted.run.task()
        # Somebody else has ended the turn: the log knows how.
        return _task(await self._log(accepted.key, call))

    async def stream(self, call: Call, request: SendMessageRequest) -> AsyncGenerator[list[Spoken], None]:
        """Answer the message; yield what is said, from the task's first event, until the task rests (R22).

        A repeated message subscribes to its task from the first event. Raises ClientError before the first batch.
        """
        accepted = await self._accept(call, request, Listen.FROM_THE_FIRST)
        heard = 0
        if accepted.run is not None:
            async for batch in accepted.run.batches():
                yield batch
            if accepted.run.rests():
                return
            # The turn was taken over by somebody else: the log goes on.
            heard = accepted.run.log[-1].generation
        async for batch in subscription.tail(self._store, accepted.key, self._clock, after=Cursor(heard)):
            yield batch

    async def subscribe(self, call: Call, task_id: str) -> AsyncGenerator[list[Spoken], None]:
        """Yield the task as it stands, then what is said until it rests (spec 3.1.6).

        Raises TaskNotFound, and TaskFinished where nothing can follow any more.
        """
        log = await self._log(TaskKey(call.owner, task_id), call)
        if log.head.state in lifecycle.TERMINAL:
            raise TaskFinished("The task has ended; there is nothing to subscribe to. GetTask returns it.")
        yield [Spoken(str(log.head.generation), _task(log))]
        async for batch in subscription.tail(self._store, log.head.key, self._clock, after=Cursor(log.head.generation)):
            yield batch

    async def get(self, call: Call, task_id: str) -> Task:
        """Return the task; raises TaskNotFound."""
        return _task(await self._log(TaskKey(call.owner, task_id), call))

    async def _accept(self, call: Call, request: SendMessageRequest, listen: Listen) -> _Accepted:
        """Keep the message, once, and see to it that its turn runs."""
        message, metadata = request.message, MessageToDict(request.metadata)
        if message.task_id:
            return await self._continue(call, request, message.task_id, listen)
        context = ContextKey(call.owner, call.agent, message.context_id or str(uuid7()))
        new = ingress.new_task(
            message,
            context,
            task_id=str(uuid7()),
            turn_id=str(uuid7()),
            at=self._clock.now(),
            context_is_new=not message.context_id,
            request=metadata,
        )
        outcome = await self._store.create(new, holder=str(uuid7()))
        match outcome:
            case Begun():
                run = Run(ingress.first_log(new), listen=listen)
                self._go(call, self._run(outcome, run))
                return _Accepted(new.key, run)
            case Interrupted():
                return await self._continue(call, request, outcome.task_id, listen)
        key = TaskKey(call.owner, outcome.task_id) if isinstance(outcome, Repeated) else new.key
        return self._follow(call, context, key)

    def _follow(self, call: Call, context: ContextKey, key: TaskKey) -> _Accepted:
        """Look after a context in which another call may run the task, or nobody yet."""
        self._go(call, self._drive(context, key))
        return _Accepted(key, None)

    async def _continue(self, call: Call, request: SendMessageRequest, task_id: str, listen: Listen) -> _Accepted:
        """Take a message to a task that there is: the answer to its question, or a repeat of it."""
        message = request.message
        log = await self._log(TaskKey(call.owner, task_id), call)
        context = log.head.context
        if message.context_id and message.context_id != context.context_id:
            raise InvalidMessage(
                "This task belongs to another context. Leave contextId out, or give the task's own.",
                field="message.contextId",
            )
        outcome: Begun | Repeated | None = await self._store.known(
            context, message.message_id, ingress.content_hash(message)
        )
        if outcome is None:
            task = _task(log)
            questions.check_answer(task, message)
            follow_up = ingress.follow_up(
                message,
                log.head,
                turn_id=str(uuid7()),
                at=self._clock.now(),
                request=MessageToDict(request.metadata),
            )
            outcome = await self._follow_up(follow_up)
        if isinstance(outcome, Repeated):
            return self._follow(call, context, TaskKey(call.owner, outcome.task_id))
        entry = Numbered(outcome.head.generation, follow_up.event, follow_up.asked, request=follow_up.request)
        run = Run([*log.events, entry], listen=Listen.NOT if listen is Listen.NOT else Listen.FROM_NOW)
        self._go(call, self._run(outcome, run))
        return _Accepted(log.head.key, run)

    async def _follow_up(self, follow_up: FollowUp) -> Begun | Repeated:
        try:
            return await self._store.follow_up(follow_up, holder=str(uuid7()))
        except LeaseLost as error:
            raise ContextBusy("The task has just been answered by another message. Read it, then decide.") from error

    async def _run(self, begun: Begun, run: Run) -> None:
        await self._runner.run(begun, run)
        if not run.rests():
            # The lease was lost, or the end could not be recorded: see to it that the task comes to rest.
            await self._drive(begun.lease.context, begun.head.key)

    async def _drive(self, context: ContextKey, key: TaskKey) -> None:
        """Run whatever turn of the context has its time, until this task rests, or for as long as a call may last."""
        until = self._clock.now() + DRIVE_FOR
        while self._clock.now() < until:
            try:
                if await self._drive_once(context, key):
                    return
            except StoreUnavailable as error:
                # The turn waits in the table: the next look may find the store in better health.
                logger.warning("The store is not to be had just now: %s", error)
                await self._clock.sleep(BUSY_SECONDS)

    async def _drive_once(self, context: ContextKey, key: TaskKey) -> bool:
        """Run the turn whose time has come, if there is one; tell whether the task rests."""
        begun = await self._store.begin(context, holder=str(uuid7()))
        if begun is not None:
            log = await self._store.log(begun.head.key)
            await self._runner.run(begun, Run(log.events if log else ()))
        head = await self._store.head(key)
        if head is None or head.state in lifecycle.RESTING:
            return True
        if begun is None:
            await self._clock.sleep(BUSY_SECONDS)
        return False

    async def _rested(self, accepted: _Accepted) -> None:
        if accepted.run is not None:
            await accepted.run.ended()
            if accepted.run.rests():
                return
        async for _ in subscription.tail(self._store, accepted.key, self._clock):
            pass

    async def _within(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        """Wait for the work, but so long at the most by this clock; what it raises is raised."""
        waiting = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, timer}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
        finally:
            timer.cancel()
            waiting.cancel()

    async def _log(self, key: TaskKey, call: Call) -> Log:
        log = await self._store.log(key)
        # A task of another agent is as unknown as one that never was.
        if log is None or log.head.context.agent != call.agent:
            raise TaskNotFound(key.task_id)
        return log

    def _go(self, call: Call, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        call.work.add(task)
        task.add_done_callback(call.work.discard)
        task.add_done_callback(_tell_operator)


def _tell_operator(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.error("Work in the background ended early; its turn is found by its lease.", exc_info=error)


def _task(log: Log) -> Task:
    return projection.fold(log.events)
