"""Admission of messages: stores each message once, then starts or queues its turn."""

import logging
from collections.abc import Mapping

from msgspec import Struct
from uuid_utils import uuid7

from aion_core.clock import Clock
from aion_core.engine import resume_input
from aion_core.engine.admission import messages, new_tasks, repeats
from aion_core.engine.admission.messages import NewTask
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.admission.store import MessageStore
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.call import CallContext
from aion_core.engine.cancellation import Cancellation
from aion_core.engine.isolation import visible_log
from aion_core.engine.outcomes import ContextInUse, Duplicate, Interrupted, TurnQueued, TurnStarted
from aion_core.engine.queues import WakeUp, WorkQueue
from aion_core.engine.records import Cursor, Log, Numbered
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream.broadcast import EventBroadcast, StreamStart
from aion_core.engine.task import projection, states
from aion_core.engine.wake_ups import wake
from aion_core.errors import ClientError, ContextBusy, InputNotRequired, InvalidMessage, LeaseLost, TaskNotCancelable
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import SendMessageRequest, Task
from aion_core.table.keys import ContextKey, TaskKey

logger = logging.getLogger(__name__)

RETRIES = 5
"""Limit of attempts to admit one message while its task changes."""


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
        store: MessageStore,
        cancellation: Cancellation,
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
        self._store, self._cancellation, self._worker = store, cancellation, worker
        self._work_queue, self._clock = work_queue, clock
        self._double_texting, self._open_tasks = double_texting or {}, open_tasks

    async def accept(
        self, call: CallContext, request: SendMessageRequest, start: StreamStart, *, at_once: bool
    ) -> Admission:
        """Store the message once. Start its turn in this process if `at_once`, otherwise queue the turn."""
        message = request.message
        if message.task_id:
            return await self._continue(call, request, message.task_id, start, at_once=at_once)
        context = ContextKey(call.owner, call.agent, message.context_id or str(uuid7()))
        new = messages.new_task(
            message,
            context,
            task_id=str(uuid7()),
            turn_id=str(uuid7()),
            at=self._clock.now(),
            context_is_new=not message.context_id,
            request=to_json(request.metadata),
            push=call.push,
            idempotency_key="" if message.context_id else call.idempotency_key,
            start_refusal=call.start_refusal,
            first_refusal=call.first_refusal,
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
                    broadcast = EventBroadcast(new_tasks.first_log(new), start=start, is_for_client=True)
                    call.background.start(self._worker.run(outcome, broadcast, call.deadline))
                    return Admission(new.key, broadcast)
                case TurnQueued():
                    await self._wake_for(call, outcome, at_once=at_once)
                    return Admission(new.key, task=projection.fold(new_tasks.first_log(new)))
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
            log = await visible_log(self._store, task_id, call)
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
        task = projection.fold(log.events)
        known = await self._store.known(context, message.message_id, repeats.content_hash(message))
        if known is not None:
            # The client has sent this messageId before: return the task of the first copy. That may be another task
            # than the one that requires input now.
            return self._existing(call, context, known.task_id, at_once=at_once, continues=True)
        if repeats.holds_message(task, message):
            return self._existing(call, context, task.id, at_once=at_once, continues=True)
        resume_input.check_resume_input(task, message)
        if call.start_refusal is not None and task.status.state not in states.INTERRUPTED:
            raise call.start_refusal
        follow_up = messages.follow_up(
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
        if policy is WhenBusy.INTERRUPT and log.head.calls:
            await wake(self._work_queue, context, canceled_task=task.id)
        match outcome:
            case TurnStarted():
                entry = Numbered(outcome.head.generation, follow_up.event, follow_up.message, request=follow_up.request)
                broadcast = EventBroadcast(
                    [*log.events, entry],
                    start=start if start is StreamStart.NO_STREAM else StreamStart.CURRENT_TASK,
                    is_for_client=True,
                )
                call.background.start(self._worker.run(outcome, broadcast, call.deadline))
                return Admission(log.head.key, broadcast, continues=True)
            case TurnQueued():
                await self._wake_for(call, outcome, at_once=at_once)
                if outcome.head.generation != log.head.generation:
                    log = await visible_log(self._store, task.id, call)
                return Admission(
                    log.head.key, task=projection.fold(log.events), after=Cursor(log.head.generation), continues=True
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
            await self._cancellation.cancel(call, busy.task_id, "Canceled by a newer message.")
        except TaskNotCancelable:
            logger.info("The task to be canceled has already ended.")


def _holder(at_once: bool) -> str | None:
    return str(uuid7()) if at_once else None


def _busy() -> ContextBusy:
    return ContextBusy(
        "The agent is running in this context and takes one message at a time. Send the message afterwards."
    )
