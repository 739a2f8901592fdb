"""A2A operations on an agent's tasks, independent of transport and protocol version."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping
from typing import Any

from msgspec import Struct
from uuid_utils import uuid7

from aion_core.errors import (
    ClientError,
    ContextBusy,
    InputNotRequired,
    InvalidMessage,
    LeaseLost,
    TaskFinished,
    TaskNotCancelable,
)
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
from aion_core.protocol.types import Message, SendMessageRequest, Task, TaskState, to_json
from aion_core.tasks import admission, lifecycle, replies, resume_input, subscription
from aion_core.tasks.broadcast import EventBroadcast, StreamItem, StreamStart, wake
from aion_core.tasks.call import CallContext, head_of, log_of
from aion_core.tasks.quotas import OpenTasks
from aion_core.tasks.runner import Worker
from aion_core.tasks.subscription import SharedReads

logger = logging.getLogger(__name__)

RETRIES = 5
"""Limit of attempts to admit one message while its task changes."""

CANCEL_RETRIES = 50
"""Limit of attempts to cancel a task: a new event of its running agent makes an attempt fail."""


class Admission(Struct, frozen=True):
    """Result of a message's admission: its task, and the source of the task's events."""

    key: TaskKey
    broadcast: EventBroadcast | None = None
    """The broadcast of the turn, if this process runs it; otherwise the events are read from the log."""
    task: Task | None = None
    """The task at the time of the admission, if it is known."""
    after: Cursor = Cursor()  # safe as a default, because it is immutable
    """Position of `task` in the log: readers begin after it."""
    continues: bool = False
    """True if the message belongs to an existing task."""


class MessageAdmission:
    """Admission of messages: stores each message once, then starts or queues its turn."""

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
        """`double_texting` has each agent's policy for messages to a busy context; the default is ENQUEUE.

        `open_tasks` counts each caller's tasks; None means no limit.
        """
        self._store, self._worker, self._work_queue, self._clock = store, worker, work_queue, clock
        self._double_texting, self._open_tasks = double_texting or {}, open_tasks

    async def accept(
        self, call: CallContext, request: SendMessageRequest, start: StreamStart, *, at_once: bool
    ) -> Admission:
        """Store the message once. Start its turn in this process if `at_once`, otherwise queue the turn."""
        message = request.message
        if message.task_id:
            return await self._continue(call, request, message.task_id, start, at_once=at_once)
        context = ContextKey(call.owner, call.agent, message.context_id or str(uuid7()))
        new = admission.new_task(
            message,
            context,
            task_id=str(uuid7()),
            turn_id=str(uuid7()),
            at=self._clock.now(),
            context_is_new=not message.context_id,
            request=to_json(request.metadata),
            push=call.push,
            idempotency_key="" if message.context_id else call.idempotency_key,
        )
        if self._open_tasks is None:
            return await self._create(call, request, new, start, at_once=at_once)
        counted = await self._open_tasks.admit(call.caller, new)
        try:
            admitted = await self._create(call, request, new, start, at_once=at_once)
        except ClientError:
            await self._open_tasks.forget(call.caller, counted)
            raise
        if admitted.key != new.key:
            await self._open_tasks.forget(call.caller, counted)
        return admitted

    async def _create(
        self, call: CallContext, request: SendMessageRequest, new: NewTask, start: StreamStart, *, at_once: bool
    ) -> Admission:
        """Create a task for the message, unless it repeats an earlier message or answers an interrupted task."""
        context = new.context
        policy = self._double_texting.get(call.agent, WhenBusy.ENQUEUE)
        for attempt in range(RETRIES):
            when_busy = WhenBusy.ENQUEUE if policy is WhenBusy.INTERRUPT and attempt + 1 == RETRIES else policy
            outcome = await self._store.create(new, holder=_holder(at_once), when_busy=when_busy)
            match outcome:
                case TurnStarted():
                    broadcast = EventBroadcast(admission.first_log(new), start=start)
                    call.background.start(self._worker.run(outcome, broadcast, call.deadline))
                    return Admission(new.key, broadcast)
                case TurnQueued():
                    await self._wake_for(call, outcome, at_once=at_once)
                    return Admission(new.key, task=lifecycle.fold(admission.first_log(new)))
                case Duplicate():
                    return self._existing(call, context, outcome.task_id, at_once=at_once)
                case Interrupted():
                    try:
                        return await self._continue(call, request, outcome.task_id, start, at_once=at_once)
                    except InputNotRequired:
                        # Meanwhile another message has answered the interrupted task. This message names no task, so
                        # try again to create a task for it.
                        continue
                case ContextInUse() if policy is WhenBusy.REJECT:
                    raise _busy()
                case ContextInUse():
                    await self._interrupt(call, outcome)
        raise _busy()

    async def _continue(
        self, call: CallContext, request: SendMessageRequest, task_id: str, start: StreamStart, *, at_once: bool
    ) -> Admission:
        """Admit a message to an existing task: an answer, a further message, or a repeated message."""
        for _ in range(RETRIES):
            log = await log_of(self._store, task_id, call)
            try:
                return await self._follow_up(call, request, log, start, at_once=at_once)
            except LeaseLost:
                # Try again, because another process has changed the task since it was read.
                continue
        raise ContextBusy("The task changes too fast to add a message to it. Send it again in a moment.")

    async def _follow_up(
        self, call: CallContext, request: SendMessageRequest, log: Log, start: StreamStart, *, at_once: bool
    ) -> Admission:
        message, context = request.message, log.head.context
        if message.context_id and message.context_id != context.context_id:
            raise InvalidMessage(
                "This task belongs to another context. Leave contextId out, or give the task's own.",
                field="message.contextId",
            )
        task = lifecycle.fold(log.events)
        known = await self._store.known(context, message.message_id, admission.content_hash(message))
        if known is not None:
            # The client has sent this messageId before: return the task of the first copy. That may be another task
            # than the one that requires input now.
            return self._existing(call, context, known.task_id, at_once=at_once, continues=True)
        if admission.holds_message(task, message):
            return self._existing(call, context, task.id, at_once=at_once, continues=True)
        resume_input.check_resume_input(task, message)
        follow_up = admission.follow_up(
            message,
            log.head,
            task,
            turn_id=str(uuid7()),
            at=self._clock.now(),
            request=to_json(request.metadata),
            push=call.push,
        )
        policy = self._double_texting.get(call.agent, WhenBusy.ENQUEUE)
        outcome = await self._store.follow_up(follow_up, holder=_holder(at_once), when_busy=policy)
        match outcome:
            case TurnStarted():
                entry = Numbered(outcome.head.generation, follow_up.event, follow_up.message, request=follow_up.request)
                broadcast = EventBroadcast(
                    [*log.events, entry], start=start if start is StreamStart.NO_STREAM else StreamStart.CURRENT_TASK
                )
                call.background.start(self._worker.run(outcome, broadcast, call.deadline))
                return Admission(log.head.key, broadcast, continues=True)
            case TurnQueued():
                await self._wake_for(call, outcome, at_once=at_once)
                if outcome.head.generation != log.head.generation:
                    log = await log_of(self._store, task.id, call)
                return Admission(
                    log.head.key, task=lifecycle.fold(log.events), after=Cursor(log.head.generation), continues=True
                )
            case ContextInUse():
                raise _busy()
        return self._existing(call, context, outcome.task_id, at_once=at_once, continues=True)

    def _existing(
        self, call: CallContext, context: ContextKey, task_id: str, *, at_once: bool, continues: bool = False
    ) -> Admission:
        """Return the admission to an existing task. Run its turn here if the lease holder is dead."""
        # Run no turn for a call with an Idempotency-Key: its message is stored in the context of the first call, but
        # `context` may have a contextId that the server has generated for this call.
        if at_once and not call.idempotency_key:
            call.background.start(self._worker.handle(WakeUp(context), deadline=call.deadline))
        return Admission(TaskKey(call.owner, task_id), continues=continues)

    async def _wake_for(self, call: CallContext, waiting: TurnQueued, *, at_once: bool) -> None:
        """Wake a process to run a queued turn, unless the current lease holder will run it."""
        context = waiting.head.context
        if not at_once:
            await wake(self._work_queue, context)
        elif waiting.until is None or waiting.until <= self._clock.now():
            call.background.start(self._worker.handle(WakeUp(context), deadline=call.deadline))

    async def _interrupt(self, call: CallContext, busy: ContextInUse) -> None:
        """Cancel the task running in the context, so that the context can accept the new message."""
        try:
            await self.cancel(call, busy.task_id, "Canceled by a newer message.")
        except TaskNotCancelable:
            logger.info("The task to be canceled has already ended.")

    async def cancel(self, call: CallContext, task_id: str, reason: str) -> None:
        """Cancel a task that runs in any process. Raises TaskNotFound, or TaskNotCancelable if the task has ended."""
        for _ in range(CANCEL_RETRIES):
            head = await head_of(self._store, task_id, call)
            if head.state in lifecycle.TERMINAL:
                raise TaskNotCancelable(
                    f"The task is {lifecycle.state_name(head.state)} and can no longer be canceled."
                )
            try:
                ended = await self._store.cancel(head, admission.canceled(head, self._clock.now(), reason))
            except LeaseLost:
                continue
            if ended.waiting:
                await wake(self._work_queue, head.context)
            return
        raise ContextBusy("The task changes too fast to be canceled. Try again in a moment.")


def _holder(at_once: bool) -> str | None:
    return str(uuid7()) if at_once else None


def _busy() -> ContextBusy:
    return ContextBusy(
        "The agent is running in this context and takes one message at a time. Send the message afterwards."
    )


READ_SECONDS = 1.0
"""Extra wait with `reply: auto` or `agent` if another process runs the turn: events arrive by the log, with a delay."""


class TaskService:
    """A2A operations on tasks. Once started, a turn continues even if its caller disconnects."""

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
        """`blocking_wait` is the longest wait of a blocking send in seconds; `replies` maps agents to `reply` settings.

        See `MessageAdmission` for the other arguments.
        """
        self._store, self._clock = store, clock
        self._blocking_wait, self._replies = blocking_wait, replies or {}
        self._reads = SharedReads(store, clock)
        self._admission = MessageAdmission(
            store, worker, work_queue, clock, double_texting=double_texting, open_tasks=open_tasks
        )

    def waits(self, call: CallContext, request: SendMessageRequest) -> bool:
        """Return True if the response to the message waits for the agent, as it always does with `reply: message`."""
        return not request.configuration.return_immediately or self._replies.get(call.agent) is ReplyAs.MESSAGE

    async def send(self, call: CallContext, request: SendMessageRequest) -> Task | Message:
        """Return the message's task once it is terminal or interrupted, or after `blocking_wait` (A2A 3.1.1).

        With `returnImmediately` (A2A 3.2.2), return the working task; another function runs it. With `reply: message`,
        wait for the answer and return it as a Message. With `reply: auto`, return a quick answer as a Message, and with
        `reply: agent` a Message of the agent. A repeated message gets the first response again. Raises ClientError.
        """
        reply = self._replies.get(call.agent, ReplyAs.TASK)
        at_once = self.waits(call, request)
        admitted = await self._admission.accept(call, request, StreamStart.NO_STREAM, at_once=at_once)
        if request.configuration.return_immediately and (reply is not ReplyAs.MESSAGE or admitted.continues):
            return admitted.task or await self._task(call, admitted)
        await self._wait(call, self._wait_until_stopped(admitted), self._blocking_wait)
        task = await self._task(call, admitted)
        return task if reply is ReplyAs.TASK else replies.message_of(task) or task

    async def stream(self, call: CallContext, request: SendMessageRequest) -> AsyncGenerator[list[StreamItem], None]:
        """Yield the task's events from the first until it is terminal or interrupted (A2A 3.1.2).

        If the answer is to be one Message (`reply: message`, a quick answer with `auto`, a Message of the agent with
        `agent`), yield an empty batch to start the response, then the Message. A repeated message subscribes to its
        task from the event that recorded the message, or after Last-Event-ID. The stream ends early if the process is
        about to end. Raises ClientError before the first batch.
        """
        admitted = await self._admission.accept(call, request, StreamStart.FIRST_EVENT, at_once=True)
        reply = self._replies.get(call.agent, ReplyAs.TASK)
        repeats = admitted.broadcast is None and admitted.task is None
        if reply is not ReplyAs.TASK and not admitted.continues:
            yield []
            if (message := await self._message(call, admitted, reply)) is not None:
                yield [StreamItem("", message)]
                return
            if reply is ReplyAs.MESSAGE:
                # There is no Message, because the turn failed or was interrupted: yield the task's events from the log.
                admitted = Admission(admitted.key)
        after = admitted.after
        if admitted.broadcast is not None:
            async for batch in admitted.broadcast.batches():
                yield batch
            if admitted.broadcast.has_stopped():
                return
            # Continue from the log, because the turn was suspended or taken over by another process.
            after = admitted.broadcast.cursor()
        elif admitted.task is not None and after.generation:
            yield [StreamItem(str(after.generation), admitted.task)]
        elif repeats:
            log = await log_of(self._store, admitted.key.task_id, call)
            recorded_at = admission.repeated_at(request.message, log)
            after, first = subscription.beginning(log, call.last_event_id, recorded_at)
            yield first
        async for batch in self._tail(call, admitted.key, after):
            yield batch

    async def subscribe(
        self, call: CallContext, task_id: str, *, ends: Collection[TaskState] = lifecycle.TERMINAL
    ) -> AsyncGenerator[list[StreamItem], None]:
        """Yield the current task, then its events until its state is one of `ends`, by default terminal (A2A 3.1.6).

        With a Last-Event-ID of this task, yield only the items after that id. The stream ends early if the process is
        about to end; the client may resume it. Raises TaskNotFound, or TaskFinished if the task has no further events.
        """
        log = await log_of(self._store, task_id, call)
        after, first = subscription.beginning(log, call.last_event_id, log.head.generation)
        if log.head.state in lifecycle.TERMINAL and after.generation == log.head.generation:
            raise TaskFinished("The task has ended; there is nothing to subscribe to. GetTask returns it.")
        yield first
        async for batch in self._tail(call, log.head.key, after, ends):
            yield batch

    async def get(self, call: CallContext, task_id: str) -> Task:
        """Return the caller's task with this id. Raises TaskNotFound."""
        return lifecycle.fold((await log_of(self._store, task_id, call)).events)

    async def cancel(self, call: CallContext, task_id: str) -> Task:
        """Cancel the task and return it (A2A 3.1.5).

        The store refuses later events of the agent, and the running turn stops within seconds. Raises TaskNotFound, or
        TaskNotCancelable if the task has ended.
        """
        await self._admission.cancel(call, task_id, "Canceled.")
        return await self.get(call, task_id)

    async def _task(self, call: CallContext, admitted: Admission) -> Task:
        """Return the task of an admission: from its broadcast, or from the log if another process has newer events."""
        if admitted.broadcast is not None and admitted.broadcast.knows_state():
            return admitted.broadcast.task()
        return await self.get(call, admitted.key.task_id)

    async def _message(self, call: CallContext, admitted: Admission, reply: ReplyAs) -> Message | None:
        """Wait until the turn has decided between Message and task. Return the Message, or None for the task."""
        broadcast = admitted.broadcast
        if reply is ReplyAs.MESSAGE:
            if broadcast is not None:
                broadcast.stop_streaming()
            await self._wait(call, self._wait_until_stopped(admitted), None)
        elif broadcast is not None:
            quick = reply is ReplyAs.AUTO
            seconds = replies.seconds_left(broadcast.log, self._clock.now()) if quick else None
            await self._wait(call, broadcast.wait_for_decision(), seconds)
            if broadcast.replies_with_message:
                # Wait until the turn has recorded its last event, so that a repeated request gets the same Message.
                await self._wait(call, broadcast.wait_for_end(), None)
            else:
                broadcast.reply_with_task()
        else:
            log = await log_of(self._store, admitted.key.task_id, call)
            seconds = replies.seconds_left(log.events, self._clock.now()) + READ_SECONDS
            await self._wait(call, self._wait_until_stopped(admitted), seconds)
        return replies.message_of(await self._task(call, admitted))

    async def _wait_until_stopped(self, admitted: Admission) -> None:
        after = admitted.after
        if admitted.broadcast is not None:
            await admitted.broadcast.wait_for_end()
            if admitted.broadcast.has_stopped():
                return
            after = admitted.broadcast.cursor()
        async for _ in subscription.tail(self._reads, admitted.key, self._clock, after=after):
            pass

    def _tail(
        self,
        call: CallContext,
        key: TaskKey,
        after: Cursor,
        ends: Collection[TaskState] = lifecycle.TERMINAL_OR_INTERRUPTED,
    ) -> AsyncGenerator[list[StreamItem], None]:
        until, leave = call.deadline.until, call.deadline.leave
        return subscription.tail(self._reads, key, self._clock, after=after, until=until, leave=leave, ends=ends)

    async def _wait(self, call: CallContext, coroutine: Coroutine[Any, Any, None], seconds: float | None) -> None:
        """Await the coroutine for at most these seconds (None for no limit), and raise its error.

        The response must be sent before this process ends, so the wait ends at the deadline or when the process stops.
        """
        if call.deadline.until is not None:
            left = (call.deadline.until - self._clock.now()).total_seconds() - subscription.LEAVE_SECONDS
            seconds = max(0.0, left if seconds is None else min(seconds, left))
        own: list[asyncio.Future[Any]] = [asyncio.ensure_future(coroutine)]
        if seconds is not None:
            own.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        leave = [] if call.deadline.leave is None else [call.deadline.leave]
        try:
            await asyncio.wait([*own, *leave], return_when=asyncio.FIRST_COMPLETED)
            if own[0].done():
                own[0].result()
        finally:
            for each in own:
                each.cancel()
