"""The operations of A2A on an agent's tasks, in the domain's own terms: what a front calls, whatever its dialect."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict
from uuid_utils.compat import uuid7

from aion_core.errors import ClientError, ContextBusy, InvalidMessage, LeaseLost, TaskFinished, TaskNotCancelable
from aion_core.ports import (
    Clock,
    ContextInUse,
    ContextKey,
    Cursor,
    Duplicate,
    Interrupted,
    Log,
    NewTask,
    Numbered,
    ReplyAs,
    TaskKey,
    TaskStore,
    TurnQueued,
    TurnStarted,
    WakeUp,
    WhenBusy,
    WorkQueue,
)
from aion_core.protocol.types import Message, SendMessageRequest, Task
from aion_core.tasks import admission, lifecycle, projection, replies, resume_input, subscription
from aion_core.tasks.broadcast import EventBroadcast, Listen, Resumed, StreamItem
from aion_core.tasks.call import Call, head_of, log_of
from aion_core.tasks.notifications import wake
from aion_core.tasks.quotas import OpenTasks
from aion_core.tasks.runner import Worker
from aion_core.tasks.shared_reads import SharedReads

logger = logging.getLogger(__name__)

RETRIES = 5
"""How often a message is looked at anew whose task goes on while it is being taken."""

CANCEL_RETRIES = 50
"""How often a cancel is tried against an agent that speaks: each of its words may come in between."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A message that was taken, and how what comes of it is heard."""

    key: TaskKey
    run: EventBroadcast | None = None
    """The turn, where this call runs it; else somebody else does, and the log is read."""
    task: Task | None = None
    """The task as it was when the message was taken, where that is known."""
    after: Cursor = Cursor()  # noqa: RUF009  # frozen
    """Where in the log that is."""
    continues: bool = False
    """Whether the message goes to a task that its client knows."""


class _NothingAsked(Exception):
    """The context's task, which asked something a moment ago, asks nothing any more."""


class MessageAdmission:
    """Keeps each message once, and sees to it that its turn runs."""

    def __init__(
        self,
        store: TaskStore,
        worker: Worker,
        work_queue: WorkQueue,
        clock: Clock,
        *,
        double_texting: Mapping[str, WhenBusy] | None = None,
        open_tasks: OpenTasks | None = None,
    ) -> None:
        """`double_texting`: what becomes of a message whose context is at work, by agent; it waits where none is said.

        `open_tasks` counts those of each caller, where they are limited.
        """
        self._store, self._worker, self._work_queue, self._clock = store, worker, work_queue, clock
        self._double_texting, self._open_tasks = double_texting or {}, open_tasks

    async def accept(self, call: Call, request: SendMessageRequest, listen: Listen, *, at_once: bool) -> Admission:
        """Keep the message, once, and see to it that its turn runs: here, where it is to be answered `at_once`."""
        message = request.message
        if message.task_id:
            return await self._continue(call, request, message.task_id, listen, at_once=at_once)
        context = ContextKey(call.owner, call.agent, message.context_id or str(uuid7()))
        new = admission.new_task(
            message,
            context,
            task_id=str(uuid7()),
            turn_id=str(uuid7()),
            at=self._clock.now(),
            context_is_new=not message.context_id,
            request=MessageToDict(request.metadata),
            push=call.push,
            idempotency_key="" if message.context_id else call.idempotency_key,
        )
        if self._open_tasks is None:
            return await self._create(call, request, new, listen, at_once=at_once)
        counted = await self._open_tasks.admit(call.caller, new)
        try:
            accepted = await self._create(call, request, new, listen, at_once=at_once)
        except ClientError:
            await self._open_tasks.forget(call.caller, counted)
            raise
        if accepted.key != new.key:
            await self._open_tasks.forget(call.caller, counted)
        return accepted

    async def _create(
        self, call: Call, request: SendMessageRequest, new: NewTask, listen: Listen, *, at_once: bool
    ) -> Admission:
        """Make the task, unless the message turns out to make none."""
        context = new.context
        policy = self._double_texting.get(call.agent, WhenBusy.ENQUEUE)
        for attempt in range(RETRIES):
            when_busy = WhenBusy.ENQUEUE if policy is WhenBusy.INTERRUPT and attempt + 1 == RETRIES else policy
            outcome = await self._store.create(new, holder=_holder(at_once), when_busy=when_busy)
            match outcome:
                case TurnStarted():
                    run = EventBroadcast(admission.first_log(new), listen=listen)
                    call.go(self._worker.run(outcome, run, call.time_up))
                    return Admission(new.key, run)
                case TurnQueued():
                    await self._see_to(call, outcome, at_once=at_once)
                    return Admission(new.key, task=projection.fold(admission.first_log(new)))
                case Duplicate():
                    return self._repeated(call, context, outcome.task_id, at_once=at_once)
                case Interrupted():
                    try:
                        return await self._continue(call, request, outcome.task_id, listen, at_once=at_once)
                    except _NothingAsked:
                        # Another message has answered meanwhile: this one, which names no task, makes its own.
                        continue
                case ContextInUse() if policy is WhenBusy.REJECT:
                    raise _busy()
                case ContextInUse():
                    await self._interrupt(call, outcome)
        raise _busy()

    async def _continue(
        self, call: Call, request: SendMessageRequest, task_id: str, listen: Listen, *, at_once: bool
    ) -> Admission:
        """Take a message to a task that there is: the answer to its question, one more word, or a repeat of either."""
        message = request.message
        for _ in range(RETRIES):
            log = await log_of(self._store, task_id, call)
            try:
                return await self._follow_up(call, request, message, log, listen, at_once=at_once)
            except LeaseLost:
                # The task went on while the message was being looked at.
                continue
        raise ContextBusy("The task goes on faster than a message can be added to it. Send it again in a moment.")

    async def _follow_up(
        self, call: Call, request: SendMessageRequest, message: Message, log: Log, listen: Listen, *, at_once: bool
    ) -> Admission:
        context = log.head.context
        if message.context_id and message.context_id != context.context_id:
            raise InvalidMessage(
                "This task belongs to another context. Leave contextId out, or give the task's own.",
                field="message.contextId",
            )
        task = projection.fold(log.events)
        known = await self._store.known(context, message.message_id, admission.content_hash(message))
        if known is not None:
            # Perhaps of another task: a copy that came first may have found nobody asking any more, and made its own.
            return self._repeated(call, context, known.task_id, at_once=at_once)
        if admission.is_in(task, message):
            return self._repeated(call, context, task.id, at_once=at_once)
        if not message.task_id and log.head.state not in lifecycle.INTERRUPTED:
            raise _NothingAsked
        resume_input.check_answer(task, message)
        follow_up = admission.follow_up(
            message,
            log.head,
            task,
            turn_id=str(uuid7()),
            at=self._clock.now(),
            request=MessageToDict(request.metadata),
            push=call.push,
        )
        policy = self._double_texting.get(call.agent, WhenBusy.ENQUEUE)
        outcome = await self._store.follow_up(follow_up, holder=_holder(at_once), when_busy=policy)
        match outcome:
            case TurnStarted():
                entry = Numbered(outcome.head.generation, follow_up.event, follow_up.asked, request=follow_up.request)
                run = EventBroadcast(
                    [*log.events, entry], listen=Listen.NOT if listen is Listen.NOT else Listen.FROM_NOW
                )
                call.go(self._worker.run(outcome, run, call.time_up))
                return Admission(log.head.key, run, continues=True)
            case TurnQueued():
                await self._see_to(call, outcome, at_once=at_once)
                if outcome.head.generation != log.head.generation:
                    log = await log_of(self._store, task.id, call)
                return Admission(
                    log.head.key, task=projection.fold(log.events), after=Cursor(log.head.generation), continues=True
                )
            case ContextInUse():
                raise _busy()
        return self._repeated(call, context, outcome.task_id, at_once=at_once)

    def _repeated(self, call: Call, context: ContextKey, task_id: str, *, at_once: bool) -> Admission:
        """Follow a task that there is; should its turn have lost its holder, this call is as good a one as any."""
        # Known by its Idempotency-Key, the message is in another context than the one that was made up for it.
        if at_once and not call.idempotency_key:
            call.go(self._worker.answer(WakeUp(context), until=call.time_up.until))
        return Admission(TaskKey(call.owner, task_id))

    async def _see_to(self, call: Call, waiting: TurnQueued, *, at_once: bool) -> None:
        """Let somebody wake up for a turn that waits, unless whoever runs the one before it will see to it."""
        context = waiting.head.context
        if not at_once:
            await wake(self._work_queue, context)
        elif waiting.until is None or waiting.until <= self._clock.now():
            call.go(self._worker.answer(WakeUp(context), until=call.time_up.until))

    async def _interrupt(self, call: Call, busy: ContextInUse) -> None:
        """End what is at work, so that the new message can be answered; whoever else has ended it is as good."""
        try:
            await self.cancel(call, busy.task_id, "Canceled by a newer message.")
        except TaskNotCancelable:
            logger.info("The task that was to be canceled has ended by itself.")

    async def cancel(self, call: Call, task_id: str, reason: str) -> None:
        """End the task, from wherever it is asked; raises TaskNotFound, and TaskNotCancelable where it has ended."""
        for _ in range(CANCEL_RETRIES):
            head = await head_of(self._store, task_id, call)
            if head.state in lifecycle.TERMINAL:
                raise TaskNotCancelable(
                    f"The task is {lifecycle.state_name(head.state)}: there is nothing left to cancel."
                )
            try:
                ended = await self._store.cancel(head, admission.canceled(head, self._clock.now(), reason))
            except LeaseLost:
                continue
            if ended.waiting:
                await wake(self._work_queue, head.context)
            return
        raise ContextBusy("The task goes on faster than it can be canceled. Try again in a moment.")


def _holder(at_once: bool) -> str | None:
    return str(uuid7()) if at_once else None


def _busy() -> ContextBusy:
    return ContextBusy("The agent is at work in this context, and takes one message at a time. Send it afterwards.")


SETTLED_SECONDS = 1.0
"""How much longer a reader of the log waits, by `reply: auto`, than the turn has: what it records is read later."""


class TaskService:
    """Sends, streams, reads and cancels tasks; a turn that it starts goes on when the caller leaves."""

    def __init__(
        self,
        store: TaskStore,
        worker: Worker,
        work_queue: WorkQueue,
        clock: Clock,
        *,
        blocking_wait: float = 240.0,
        double_texting: Mapping[str, WhenBusy] | None = None,
        replies: Mapping[str, ReplyAs] | None = None,
        open_tasks: OpenTasks | None = None,
    ) -> None:
        """`blocking_wait`: after so many seconds a blocking send answers with the task as it stands.

        `replies`: what a client gets for its message, for each agent; its task where none is said (R23). The rest is as
        `MessageAdmission` has it.
        """
        self._store, self._clock = store, clock
        self._blocking_wait, self._replies = blocking_wait, replies or {}
        self._reads = SharedReads(store, clock)
        self._intake = MessageAdmission(
            store, worker, work_queue, clock, double_texting=double_texting, open_tasks=open_tasks
        )

    async def send(self, call: Call, request: SendMessageRequest) -> Task | Message:
        """Answer the message and return its task at rest, or as it stands after `blocking_wait` (R20).

        With `returnImmediately` the task is returned as it was recorded, working, and another function runs it
        (R21, D12). Where the agent's `reply` says so, and the turn's end, the answer is returned instead, as a Message
        (R23), for which an agent of `reply: message` is waited for in any case (spec 3.2.2). A repeated message returns
        what it returned the first time. Raises ClientError where the message cannot be taken.
        """
        reply = self._reply(call)
        at_once = not request.configuration.return_immediately or reply is ReplyAs.MESSAGE
        accepted = await self._intake.accept(call, request, Listen.NOT, at_once=at_once)
        if request.configuration.return_immediately and (reply is not ReplyAs.MESSAGE or accepted.continues):
            return await self._as_it_stands(call, accepted)
        await self._within(call, self._rested(accepted), self._patience(call))
        if accepted.run is not None and accepted.run.rests_or_goes_on():
            task = accepted.run.task()
        else:
            # Somebody else has ended the turn: the log knows how.
            task = _task(await log_of(self._store, accepted.key.task_id, call))
        return task if reply is ReplyAs.TASK else replies.message_of(task) or task

    async def stream(self, call: Call, request: SendMessageRequest) -> AsyncGenerator[list[StreamItem], None]:
        """Answer the message; yield what is said, from the task's first event, until the task rests (R22).

        Where the agent's `reply` says so, and the turn's end, nothing is said but the answer, as one Message (R23); an
        empty batch comes first, since it may take its time. A repeated message subscribes to its task from the first
        event. Ends early, with what was said until then, when this process has no time left. Raises ClientError before
        the first batch.
        """
        accepted = await self._intake.accept(call, request, Listen.FROM_THE_FIRST, at_once=True)
        reply = self._reply(call)
        if reply is not ReplyAs.TASK and not accepted.continues:
            yield []
            if (message := await self._message(call, accepted, reply)) is not None:
                yield [StreamItem("", message)]
                return
            if reply is ReplyAs.MESSAGE:
                # The task it is, then: all of it is in the log.
                accepted = Admission(accepted.key)
        after = accepted.after
        if accepted.run is not None:
            async for batch in accepted.run.batches():
                yield batch
            if accepted.run.rests():
                return
            # The turn was taken over or handed on: the log goes on.
            after = accepted.run.cursor()
        elif accepted.task is not None and after.generation:
            yield [StreamItem(str(after.generation), accepted.task)]
        async for batch in self._tail(call, accepted.key, after):
            yield batch

    async def subscribe(self, call: Call, task_id: str) -> AsyncGenerator[list[StreamItem], None]:
        """Yield the task as it stands, then what is said until it rests (spec 3.1.6).

        A client that comes back with the last id it heard (`Last-Event-ID`) hears what came after that instead; an id
        that is none of this task's is as none. Ends early, to be come back to, when this process has no time left.
        Raises TaskNotFound, and TaskFinished where nothing can follow any more.
        """
        log = await log_of(self._store, task_id, call)
        after = subscription.place_of(call.last_event_id, log.head)
        if log.head.state in lifecycle.TERMINAL and (after is None or after.generation == log.head.generation):
            raise TaskFinished("The task has ended; there is nothing to subscribe to. GetTask returns it.")
        if after is None:
            after = Cursor(log.head.generation)
            yield [StreamItem(str(after.generation), _task(log))]
        else:
            yield [StreamItem("", Resumed(log.head.key.task_id, log.head.context.context_id))]
        async for batch in self._tail(call, log.head.key, after):
            yield batch

    async def get(self, call: Call, task_id: str) -> Task:
        """Return the task; raises TaskNotFound."""
        return _task(await log_of(self._store, task_id, call))

    async def cancel(self, call: Call, task_id: str) -> Task:
        """End the task as canceled, from wherever it is asked, and return it (spec 3.1.5).

        Nothing that its agent says after this is recorded; whoever runs it stops within seconds. Raises TaskNotFound,
        and TaskNotCancelable where it has ended.
        """
        await self._intake.cancel(call, task_id, "Canceled.")
        return _task(await log_of(self._store, task_id, call))

    def _reply(self, call: Call) -> ReplyAs:
        return self._replies.get(call.agent, ReplyAs.TASK)

    async def _as_it_stands(self, call: Call, accepted: Admission) -> Task:
        if accepted.task is not None:
            return accepted.task
        return (
            accepted.run.task()
            if accepted.run is not None
            else _task(await log_of(self._store, accepted.key.task_id, call))
        )

    async def _message(self, call: Call, accepted: Admission, reply: ReplyAs) -> Message | None:
        """Wait until it is known whether the client gets a Message; return it, None where it is told of its task."""
        run, left = accepted.run, self._left(call)
        if reply is ReplyAs.MESSAGE:
            if run is not None:
                run.leave()
            await self._within(call, self._rested(accepted), left)
        elif run is not None:
            seconds = replies.seconds_left(run.log, self._clock.now())
            await self._within(call, run.settled(), seconds if left is None else min(seconds, left))
            if run.ends_as_message:
                # It is being recorded: whoever asks again gets the Message.
                await self._within(call, run.ended(), left)
            else:
                run.tell_of_task()
        else:
            log = await log_of(self._store, accepted.key.task_id, call)
            seconds = replies.seconds_left(log.events, self._clock.now()) + SETTLED_SECONDS
            await self._within(call, self._rested(accepted), seconds if left is None else min(seconds, left))
        if run is not None and run.rests_or_goes_on():
            return replies.message_of(run.task())
        return replies.message_of(_task(await log_of(self._store, accepted.key.task_id, call)))

    async def _rested(self, accepted: Admission) -> None:
        after = accepted.after
        if accepted.run is not None:
            await accepted.run.ended()
            if accepted.run.rests():
                return
            after = accepted.run.cursor()
        async for _ in subscription.tail(self._reads, accepted.key, self._clock, after=after):
            pass

    def _tail(self, call: Call, key: TaskKey, after: Cursor) -> AsyncGenerator[list[StreamItem], None]:
        return subscription.tail(
            self._reads, key, self._clock, after=after, until=call.time_up.until, leave=call.time_up.leave
        )

    def _patience(self, call: Call) -> float:
        """Return how long a client may be kept waiting: its answer has to leave before this process ends."""
        left = self._left(call)
        return self._blocking_wait if left is None else min(self._blocking_wait, left)

    def _left(self, call: Call) -> float | None:
        """Return how much time this process has for the call; None where it has all the time."""
        if call.time_up.until is None:
            return None
        left = (call.time_up.until - self._clock.now()).total_seconds() - subscription.LEAVE_SECONDS
        return max(0.0, left)

    async def _within(self, call: Call, work: Coroutine[Any, Any, None], seconds: float | None) -> None:
        """Wait for the work, at most so many seconds by this clock, and until the process stops; raise what it raises."""
        waiting = asyncio.ensure_future(work)
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(call.time_up.leave.wait())]
        if seconds is not None:
            ends.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait({waiting, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
        finally:
            for each in (*ends, waiting):
                each.cancel()


def _task(log: Log) -> Task:
    return projection.fold(log.events)
