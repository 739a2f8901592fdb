"""An a2a-sdk `AgentExecutor` as an agent: one `execute()` is a turn."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    InvalidRequestError,
    UnsupportedOperationError,
)

from aion_core.agents.executor.inbound import request_of
from aion_core.agents.executor.outbound import Outbound
from aion_core.agents.executor.queue import RecordingQueue
from aion_core.agents.executor.sink import QueueSink
from aion_core.agents.inbound import context_of
from aion_core.agents.loader import run_guarded
from aion_core.authoring.context import aion_context_set
from aion_core.errors import AgentFailed, StoreError
from aion_core.ports import AfterCrash, Emission, TaskKey, TaskStore, TurnRequest
from aion_core.protocol.types import TaskState

logger = logging.getLogger(__name__)

CANCEL_SECONDS, STOP_SECONDS = 1.0, 0.5
"""How long `cancel()` may take, and then `execute()` to stop: together less than the runner waits for an agent."""

MAX_RUNS = 3
"""How often a turn is run from its message, by `resume: restart`: one that never fits into a process is not for ever."""

NOT_RESUMABLE = (
    "The server stopped in the middle of this turn, and the agent is not resumable: it has no step to go on from. "
    "Send the message again with a new id."
)
TOO_OFTEN = (
    f"The turn was run {MAX_RUNS} times from its beginning and did not end. Send the message again with a new id."
)
REFUSALS = (InvalidParamsError, InvalidRequestError, UnsupportedOperationError, ContentTypeNotSupportedError)
"""The SDK's words for a client that asked for what cannot be done; their sentence is meant for that client."""
CUT_SHORT = "The agent canceled its own work."


class ExecutorAgent:
    """`ports.Agent` of an executor; the author's object is left as it is, and used for all turns, as by the SDK."""

    def __init__(
        self,
        executor: AgentExecutor,
        tasks: TaskStore,
        *,
        name: str = "",
        resume: AfterCrash = AfterCrash.FAIL,
        configuration: Mapping[str, Any] | None = None,
    ) -> None:
        """`tasks` is read, for the tasks that a message refers to; `resume` says what becomes of a turn that was cut."""
        self._executor, self._tasks = executor, tasks
        self._name, self._resume, self._configuration = name, resume, configuration or {}

    def load(self) -> None:
        """See `ports.Agent.load`: whoever has an executor has imported it."""

    def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        return run_guarded(self._run(asked))

    async def _run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self._check_again(asked)
        request = await request_of(asked, self._tasks, self._configuration)
        queue, outbound = RecordingQueue(), Outbound(asked, repeats=self._resume is AfterCrash.RESTART)
        with aion_context_set(context_of(asked, QueueSink(asked, queue), name=self._name)):
            # In a task of its own, as the SDK runs it: canceled by itself, and only after `cancel()` was called.
            work = asyncio.create_task(_awaited(self._executor.execute(request, queue)))
        try:
            async with aclosing(queue.until(work)) as entries:
                async for entry in entries:
                    for emission in outbound.hear(entry.what):
                        yield emission
                    # Whoever asks for what comes next has recorded what came.
                    entry.settle()
            _check_done(work, ended=outbound.ending is not None)
            if outbound.ending is None:
                yield outbound.returned()
        finally:
            if not work.done():
                await self._stop(work, asked, request, ended=outbound.ending is not None)
            queue.close()

    def _check_again(self, asked: TurnRequest) -> None:
        """Raise AgentFailed where an earlier try of the turn was cut, unless it is to be run again."""
        runs = asked.turn.tries + asked.turn.handoffs
        if runs <= 1:
            return
        if self._resume is AfterCrash.FAIL:
            raise AgentFailed(NOT_RESUMABLE)
        if runs > MAX_RUNS:
            raise AgentFailed(TOO_OFTEN)

    async def _stop(
        self, work: "asyncio.Task[None]", asked: TurnRequest, request: RequestContext, *, ended: bool
    ) -> None:
        """Stop an executor whose turn is over; where its client has canceled the task, it is told so first."""
        # Whoever waits in `enqueue_event` waits on: what is not recorded has not been said.
        telling = asyncio.create_task(self._tell_canceled(asked, request)) if not ended else None
        if telling is not None:
            await asyncio.wait({telling}, timeout=CANCEL_SECONDS)
            telling.cancel()
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECONDS)
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            logger.error("An executor failed as it was stopped.", exc_info=error)
        elif not work.done():
            logger.warning("An executor does not stop; what it says is dropped.", extra={"task_id": asked.task.id})

    async def _tell_canceled(self, asked: TurnRequest, request: RequestContext) -> None:
        try:
            head = await self._tasks.head(TaskKey(asked.context.owner, asked.task.id))
            if head is None or head.state != TaskState.TASK_STATE_CANCELED:
                # Its time is up, or another holder has the turn.
                return
            # The task is canceled already: what it says now can no longer be recorded.
            over = RecordingQueue()
            over.close()
            await self._executor.cancel(request, over)
        except StoreError as error:
            logger.warning("Whether the task was canceled could not be read: %s", error)
        except Exception:
            logger.exception("An executor's cancel() failed.", extra={"task_id": asked.task.id})


async def _awaited(execution: Coroutine[Any, Any, None]) -> None:
    try:
        await execution
    except REFUSALS as error:
        raise AgentFailed(f"{type(error).__name__}: {error.message}") from error


def _check_done(work: "asyncio.Task[None]", *, ended: bool) -> None:
    """Raise what `execute()` has raised; where the turn has ended before, the end stays, and the log has the error."""
    error = AgentFailed(CUT_SHORT) if work.cancelled() else work.exception()
    if error is None:
        return
    if not ended:
        raise error
    logger.error("An executor failed after its end, which stays.", exc_info=error)
