"""What becomes of a message that comes in: a task of its own, one more word to another, or nothing that was not there."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict
from uuid_utils.compat import uuid7

from aion_core.errors import ClientError, ContextBusy, InvalidMessage, LeaseLost, TaskNotCancelable
from aion_core.ports import (
    Begun,
    Bell,
    Bells,
    Busy,
    Clock,
    ContextKey,
    Cursor,
    Interrupted,
    Log,
    NewTask,
    Numbered,
    Repeated,
    TaskKey,
    TaskStore,
    Waiting,
    WhenBusy,
)
from aion_core.protocol.types import Message, SendMessageRequest, Task
from aion_core.tasks import admission, lifecycle, projection, questions
from aion_core.tasks.call import Call, head_of, log_of
from aion_core.tasks.notifications import wake
from aion_core.tasks.quotas import OpenTasks
from aion_core.tasks.run import Listen, Run
from aion_core.tasks.runner import Worker

logger = logging.getLogger(__name__)

RETRIES = 5
"""How often a message is looked at anew whose task goes on while it is being taken."""

CANCEL_RETRIES = 50
"""How often a cancel is tried against an agent that speaks: each of its words may come in between."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that was taken, and how what comes of it is heard."""

    key: TaskKey
    run: Run | None = None
    """The turn, where this call runs it; else somebody else does, and the log is read."""
    task: Task | None = None
    """The task as it was when the message was taken, where that is known."""
    after: Cursor = Cursor()  # noqa: RUF009  # frozen
    """Where in the log that is."""
    continues: bool = False
    """Whether the message goes to a task that its client knows."""


class _NothingAsked(Exception):
    """The context's task, which asked something a moment ago, asks nothing any more."""


class Intake:
    """Keeps each message once, and sees to it that its turn runs."""

    def __init__(
        self,
        store: TaskStore,
        worker: Worker,
        bells: Bells,
        clock: Clock,
        *,
        double_texting: Mapping[str, WhenBusy] | None = None,
        open_tasks: OpenTasks | None = None,
    ) -> None:
        """`double_texting`: what becomes of a message whose context is at work, by agent; it waits where none is said.

        `open_tasks` counts those of each caller, where they are limited.
        """
        self._store, self._worker, self._bells, self._clock = store, worker, bells, clock
        self._double_texting, self._open_tasks = double_texting or {}, open_tasks

    async def accept(self, call: Call, request: SendMessageRequest, listen: Listen, *, at_once: bool) -> Accepted:
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
    ) -> Accepted:
        """Make the task, unless the message turns out to make none."""
        context = new.context
        policy = self._double_texting.get(call.agent, WhenBusy.ENQUEUE)
        for attempt in range(RETRIES):
            when_busy = WhenBusy.ENQUEUE if policy is WhenBusy.INTERRUPT and attempt + 1 == RETRIES else policy
            outcome = await self._store.create(new, holder=_holder(at_once), when_busy=when_busy)
            match outcome:
                case Begun():
                    run = Run(admission.first_log(new), listen=listen)
                    call.go(self._worker.run(outcome, run, call.time_up))
                    return Accepted(new.key, run)
                case Waiting():
                    await self._see_to(call, outcome, at_once=at_once)
                    return Accepted(new.key, task=projection.fold(admission.first_log(new)))
                case Repeated():
                    return self._repeated(call, context, outcome.task_id, at_once=at_once)
                case Interrupted():
                    try:
                        return await self._continue(call, request, outcome.task_id, listen, at_once=at_once)
                    except _NothingAsked:
                        # Another message has answered meanwhile: this one, which names no task, makes its own.
                        continue
                case Busy() if policy is WhenBusy.REJECT:
                    raise _busy()
                case Busy():
                    await self._interrupt(call, outcome)
        raise _busy()

    async def _continue(
        self, call: Call, request: SendMessageRequest, task_id: str, listen: Listen, *, at_once: bool
    ) -> Accepted:
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
    ) -> Accepted:
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
        questions.check_answer(task, message)
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
            case Begun():
                entry = Numbered(outcome.head.generation, follow_up.event, follow_up.asked, request=follow_up.request)
                run = Run([*log.events, entry], listen=Listen.NOT if listen is Listen.NOT else Listen.FROM_NOW)
                call.go(self._worker.run(outcome, run, call.time_up))
                return Accepted(log.head.key, run, continues=True)
            case Waiting():
                await self._see_to(call, outcome, at_once=at_once)
                if outcome.head.generation != log.head.generation:
                    log = await log_of(self._store, task.id, call)
                return Accepted(
                    log.head.key, task=projection.fold(log.events), after=Cursor(log.head.generation), continues=True
                )
            case Busy():
                raise _busy()
        return self._repeated(call, context, outcome.task_id, at_once=at_once)

    def _repeated(self, call: Call, context: ContextKey, task_id: str, *, at_once: bool) -> Accepted:
        """Follow a task that there is; should its turn have lost its holder, this call is as good a one as any."""
        # Known by its Idempotency-Key, the message is in another context than the one that was made up for it.
        if at_once and not call.idempotency_key:
            call.go(self._worker.answer(Bell(context), until=call.time_up.until))
        return Accepted(TaskKey(call.owner, task_id))

    async def _see_to(self, call: Call, waiting: Waiting, *, at_once: bool) -> None:
        """Let somebody wake up for a turn that waits, unless whoever runs the one before it will see to it."""
        context = waiting.head.context
        if not at_once:
            await wake(self._bells, context)
        elif waiting.until is None or waiting.until <= self._clock.now():
            call.go(self._worker.answer(Bell(context), until=call.time_up.until))

    async def _interrupt(self, call: Call, busy: Busy) -> None:
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
                await wake(self._bells, head.context)
            return
        raise ContextBusy("The task goes on faster than it can be canceled. Try again in a moment.")


def _holder(at_once: bool) -> str | None:
    return str(uuid7()) if at_once else None


def _busy() -> ContextBusy:
    return ContextBusy("The agent is at work in this context, and takes one message at a time. Send it afterwards.")
