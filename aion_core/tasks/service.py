"""The operations of A2A on an agent's tasks, in the domain's own terms: what a front calls, whatever its dialect."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any

from aion_core.errors import TaskFinished
from aion_core.ports import Bells, Clock, Cursor, Log, ReplyAs, TaskKey, TaskStore, WhenBusy
from aion_core.protocol.types import Message, SendMessageRequest, Task
from aion_core.tasks import lifecycle, projection, replies, subscription
from aion_core.tasks.call import Call, log_of
from aion_core.tasks.intake import Accepted, Intake
from aion_core.tasks.quotas import OpenTasks
from aion_core.tasks.run import Listen, Resumed, Spoken
from aion_core.tasks.runner import Worker
from aion_core.tasks.shared_reads import SharedReads

SETTLED_SECONDS = 1.0
"""How much longer a reader of the log waits, by `reply: auto`, than the turn has: what it records is read later."""


class TaskService:
    """Sends, streams, reads and cancels tasks; a turn that it starts goes on when the caller leaves."""

    def __init__(
        self,
        store: TaskStore,
        worker: Worker,
        bells: Bells,
        clock: Clock,
        *,
        blocking_wait: float = 240.0,
        double_texting: Mapping[str, WhenBusy] | None = None,
        replies: Mapping[str, ReplyAs] | None = None,
        open_tasks: OpenTasks | None = None,
    ) -> None:
        """`blocking_wait`: after so many seconds a blocking send answers with the task as it stands.

        `replies`: what a client gets for its message, for each agent; its task where none is said (R23). The rest is as
        `Intake` has it.
        """
        self._store, self._clock = store, clock
        self._blocking_wait, self._replies = blocking_wait, replies or {}
        self._reads = SharedReads(store, clock)
        self._intake = Intake(store, worker, bells, clock, double_texting=double_texting, open_tasks=open_tasks)

    # ── The operations ────────────────────────────────────────────────────────────────────────────────────────────────

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

    async def stream(self, call: Call, request: SendMessageRequest) -> AsyncGenerator[list[Spoken], None]:
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
                yield [Spoken("", message)]
                return
            if reply is ReplyAs.MESSAGE:
                # The task it is, then: all of it is in the log.
                accepted = Accepted(accepted.key)
        after = accepted.after
        if accepted.run is not None:
            async for batch in accepted.run.batches():
                yield batch
            if accepted.run.rests():
                return
            # The turn was taken over or handed on: the log goes on.
            after = accepted.run.cursor()
        elif accepted.task is not None and after.generation:
            yield [Spoken(str(after.generation), accepted.task)]
        async for batch in self._tail(call, accepted.key, after):
            yield batch

    async def subscribe(self, call: Call, task_id: str) -> AsyncGenerator[list[Spoken], None]:
        """Yield the task as it stands, then what is said until it rests (spec 3.1.6).

        A client that comes back with the last id it heard (`Last-Event-ID`) hears what came after that instead; an id
        that is none of this task's is as none. Ends early, to be come back to, when this process has no time left.
        Raises TaskNotFound, and TaskFinished where nothing can follow any more.
        """
        log = await log_of(self._store, task_id, call)
        after = subscription.place_of(call.last_heard, log.head)
        if log.head.state in lifecycle.TERMINAL and (after is None or after.generation == log.head.generation):
            raise TaskFinished("The task has ended; there is nothing to subscribe to. GetTask returns it.")
        if after is None:
            after = Cursor(log.head.generation)
            yield [Spoken(str(after.generation), _task(log))]
        else:
            yield [Spoken("", Resumed(log.head.key.task_id, log.head.context.context_id))]
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

    # ── What is heard ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _reply(self, call: Call) -> ReplyAs:
        return self._replies.get(call.agent, ReplyAs.TASK)

    async def _as_it_stands(self, call: Call, accepted: Accepted) -> Task:
        if accepted.task is not None:
            return accepted.task
        return (
            accepted.run.task()
            if accepted.run is not None
            else _task(await log_of(self._store, accepted.key.task_id, call))
        )

    async def _message(self, call: Call, accepted: Accepted, reply: ReplyAs) -> Message | None:
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

    async def _rested(self, accepted: Accepted) -> None:
        after = accepted.after
        if accepted.run is not None:
            await accepted.run.ended()
            if accepted.run.rests():
                return
            after = accepted.run.cursor()
        async for _ in subscription.tail(self._reads, accepted.key, self._clock, after=after):
            pass

    def _tail(self, call: Call, key: TaskKey, after: Cursor) -> AsyncGenerator[list[Spoken], None]:
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
