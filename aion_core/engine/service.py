"""A2A operations on an agent's tasks, independent of transport and protocol version."""

from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping
from typing import Any

from aion_core.clock import Clock, within
from aion_core.engine import answer
from aion_core.engine.admission.admission import Admission, MessageAdmission
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.admission.repeats import repeated_at
from aion_core.engine.agent_options import AnswerAs, ReplyAs, WhenBusy
from aion_core.engine.call import CallContext
from aion_core.engine.cancellation import Cancellation
from aion_core.engine.isolation import visible_log
from aion_core.engine.queues import WorkQueue
from aion_core.engine.records import Cursor
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream import subscription
from aion_core.engine.stream.artifact_form import in_artifact_form
from aion_core.engine.stream.broadcast import StreamItem, StreamStart
from aion_core.engine.stream.event_ids import event_id
from aion_core.engine.stream.shared_reads import SharedReads
from aion_core.engine.task import projection, states
from aion_core.engine.task_store import TaskStore
from aion_core.errors import TaskFinished
from aion_core.protocol.adk_client import is_from_adk
from aion_core.protocol.types import Message, SendMessageRequest, Task, TaskState
from aion_core.table.keys import TaskKey

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
        blocking_wait: float | None = 240.0,
        double_texting: Mapping[str, WhenBusy] | None = None,
        replies: Mapping[str, ReplyAs] | None = None,
        answers: Mapping[str, AnswerAs] | None = None,
        open_tasks: OpenTasks | None = None,
    ) -> None:
        """`blocking_wait` is the longest wait of a blocking send in seconds.

        `replies` and `answers` map agents to their settings `reply` and `answer`.

        If `blocking_wait` is None, every send waits for the end of its turn, also with `returnImmediately`. That is for a
        process in which nothing runs after the response.
        See `MessageAdmission` for the other arguments.
        """
        self._store, self._clock = store, clock
        self._blocking_wait, self._replies, self._answers = blocking_wait, replies or {}, answers or {}
        self._reads = SharedReads(store, clock)
        self._cancellation = Cancellation(store, work_queue, clock)
        self._admission = MessageAdmission(
            store,
            self._cancellation,
            worker,
            work_queue,
            clock,
            double_texting=double_texting,
            open_tasks=open_tasks,
        )

    def waits(self, call: CallContext, request: SendMessageRequest) -> bool:
        """Return True if the response to the message waits for the agent, as it always does with `reply: message`."""
        return not self._returns_at_once(request) or self._replies.get(call.agent) is ReplyAs.MESSAGE

    async def send(self, call: CallContext, request: SendMessageRequest) -> Task | Message:
        """Return the message's task once it is terminal or interrupted, or after `blocking_wait` (A2A 3.1.1).

        With `returnImmediately` (A2A 3.2.2), return the working task; another function runs it. With `reply: message`,
        wait for the answer and return it as a Message. With `reply: auto`, return a quick answer as a Message, and with
        `reply: agent` a Message of the agent. A repeated message gets the first response again. Raises ClientError.
        """
        reply = self._replies.get(call.agent, ReplyAs.TASK)
        at_once = self.waits(call, request)
        admitted = await self._admission.accept(call, request, StreamStart.NO_STREAM, at_once=at_once)
        if self._returns_at_once(request) and (reply is not ReplyAs.MESSAGE or admitted.continues):
            return admitted.task or await self._task(call, admitted)
        await self._wait(call, self._wait_until_stopped(admitted), self._blocking_wait)
        task = await self._task(call, admitted)
        return task if reply is ReplyAs.TASK else answer.message_of(task) or task

    def stream(self, call: CallContext, request: SendMessageRequest) -> AsyncGenerator[list[StreamItem], None]:
        """Yield the task's events from the first until it is terminal or interrupted (A2A 3.1.2).

        If the answer is to be one Message (`reply: message`, a quick answer with `auto`, a Message of the agent with
        `agent`), yield an empty batch to start the response, then the Message. A repeated message subscribes to its
        task from the event that recorded the message, or after Last-Event-ID. The stream ends early if the process is
        about to end. Raises ClientError before the first batch.
        """
        return self._in_form(call, self._stream(call, request), request.message)

    async def _stream(self, call: CallContext, request: SendMessageRequest) -> AsyncGenerator[list[StreamItem], None]:
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
            yield [StreamItem(event_id(Cursor(after.generation)), admitted.task)]
        elif repeats:
            log = await visible_log(self._store, admitted.key.task_id, call)
            recorded_at = repeated_at(request.message, log)
            after, first = subscription.beginning(log, call.last_event_id, recorded_at)
            yield first
        async for batch in self._tail(call, admitted.key, after):
            yield batch

    def subscribe(
        self, call: CallContext, task_id: str, *, ends: Collection[TaskState] = states.TERMINAL
    ) -> AsyncGenerator[list[StreamItem], None]:
        """Yield the current task, then its events until its state is one of `ends`, by default terminal (A2A 3.1.6).

        With a Last-Event-ID of this task, yield only the items after that id. The stream ends early if the process is
        about to end; the client may resume it. Raises TaskNotFound, or TaskFinished if the task has no further events.
        """
        return self._in_form(call, self._subscribe(call, task_id, ends))

    async def _subscribe(
        self, call: CallContext, task_id: str, ends: Collection[TaskState]
    ) -> AsyncGenerator[list[StreamItem], None]:
        log = await visible_log(self._store, task_id, call)
        after, first = subscription.beginning(log, call.last_event_id, log.head.generation)
        if log.head.state in states.TERMINAL and after.generation == log.head.generation:
            raise TaskFinished("The task has ended; there is nothing to subscribe to. GetTask returns it.")
        yield first
        async for batch in self._tail(call, log.head.key, after, ends):
            yield batch

    async def get(self, call: CallContext, task_id: str) -> Task:
        """Return the caller's task with this id. Raises TaskNotFound."""
        return projection.fold((await visible_log(self._store, task_id, call)).events)

    async def cancel(self, call: CallContext, task_id: str) -> Task:
        """Cancel the task and return it (A2A 3.1.5).

        The store refuses later events of the agent, and the running turn stops within seconds. Raises TaskNotFound, or
        TaskNotCancelable if the task has ended.
        """
        await self._cancellation.cancel(call, task_id, "Canceled.")
        return await self.get(call, task_id)

    def _in_form(
        self, call: CallContext, batches: AsyncGenerator[list[StreamItem], None], message: Message | None = None
    ) -> AsyncGenerator[list[StreamItem], None]:
        """Return the stream in the form that the agent's `answer` asks for."""
        if self._answers.get(call.agent) is not AnswerAs.ARTIFACT:
            return batches
        return in_artifact_form(batches, ends_whole=is_from_adk(call.extensions, message))

    def _returns_at_once(self, request: SendMessageRequest) -> bool:
        return request.configuration.return_immediately and self._blocking_wait is not None

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
            seconds = answer.seconds_left(broadcast.log, self._clock.now()) if quick else None
            await self._wait(call, broadcast.wait_for_decision(), seconds)
            if broadcast.replies_with_message:
                # Wait until the turn has recorded its last event, so that a repeated request gets the same Message.
                await self._wait(call, broadcast.wait_for_end(), None)
            else:
                broadcast.reply_with_task()
        else:
            log = await visible_log(self._store, admitted.key.task_id, call)
            seconds = answer.seconds_left(log.events, self._clock.now()) + READ_SECONDS
            await self._wait(call, self._wait_until_stopped(admitted), seconds)
        return answer.message_of(await self._task(call, admitted))

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
        ends: Collection[TaskState] = states.TERMINAL_OR_INTERRUPTED,
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
        await within(self._clock, seconds, coroutine, call.deadline.leave)
