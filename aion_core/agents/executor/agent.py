"""Adapter for an `AgentExecutor` of the a2a-sdk. One call of `execute()` is one turn."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from copy import copy
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    InvalidRequestError,
    UnsupportedOperationError,
)
from google.protobuf.message import Message as AnyMessage

from aion_core.agents.addressing import addressed
from aion_core.agents.executor.event_queue import RecordingQueue
from aion_core.agents.executor.remote_calls import ExecutorCalls, as_first, first_message, question_in
from aion_core.agents.executor.request_context import cancel_context, request_context, task_before_cancellation
from aion_core.agents.executor.resumption import check_restart
from aion_core.agents.executor.translation import ExecutorTranslator
from aion_core.agents.reply_sink import TurnReplySink
from aion_core.agents.turn_context import context_of
from aion_core.agents.waiting import together
from aion_core.authoring.context import aion_context_set
from aion_core.authoring.remote import remote_caller_set
from aion_core.delegation.author_calls import AuthorCalls
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import Agent, Emission, TurnRequest
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.task import states
from aion_core.errors import CANCELED_ITSELF, AgentFailed, StoreError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import AgentDependencies
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.protocol.types import TaskState
from aion_core.table.keys import TaskKey

logger = logging.getLogger(__name__)

CANCEL_SECONDS, STOP_SECONDS = 1.0, 0.5
"""Maximum seconds to wait for `cancel()`, and then for `execute()` to stop. The runner waits longer than their sum."""

TOLD_SECONDS = 20.0
"""Maximum seconds to wait for the `cancel()` of a task that waited for the client."""

RETURN_SECONDS = 0.1
"""Seconds for `execute()` to return after a request for an authorization, before clients see that it continues."""

_OLD_SDK = re.compile(
    r"^Enum \w+ has no value defined|^Protocol message \w+ has no|^TaskUpdater\.\w+\(\) got an unexpected keyword"
    r"|^'RequestContext' object has no attribute"
)
"""Errors of code that uses the names of a2a-sdk 0.2 and 0.3."""

CLIENT_ERRORS = (InvalidParamsError, InvalidRequestError, UnsupportedOperationError, ContentTypeNotSupportedError)
"""Errors of the SDK for an invalid request. Their messages may be shown to the client."""


class ExecutorAgent:
    """Adapter of an AgentExecutor to the `Agent` protocol.

    As in the SDK, one executor object serves all turns. The adapter does not change this object.
    """

    def __init__(
        self,
        executor: AgentExecutor,
        tasks: StoredTasks,
        *,
        name: str = "",
        resume: AfterCrash = AfterCrash.FAIL,
        configuration: Mapping[str, Any] | None = None,
        remotes: Remotes | None = None,
    ) -> None:
        """Adapt an executor object, which may call the agents in `remotes` by name.

        `tasks` is the store of the tasks that messages reference. `resume` is the policy for an interrupted turn.
        """
        self._remotes = remotes or Remotes()
        self._executor, self._tasks = executor, tasks
        self._name, self._resume, self._configuration = name, resume, configuration or {}

    def load(self) -> None:
        """Do nothing, because the executor's code is already imported. See `Agent.load`."""

    def profile(self) -> AgentProfile:
        """Return nothing: its card is in the module. See `Agent.profile`."""
        return UNKNOWN

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run `execute()` for one turn and yield the emissions. See `Agent.run`."""
        return addressed(request, self._run(request))

    async def _run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        await check_restart(request, self._resume)
        first = await first_message(request)
        seen = request if first is request.message else as_first(request, first)
        context = await request_context(seen, self._tasks, self._configuration)
        queue, translator = RecordingQueue(), ExecutorTranslator(request, restarts=self._resume is AfterCrash.RESTART)
        sink = TurnReplySink(request, queue.send, queue.put)
        remote_calls = AuthorCalls(request, self._remotes, ExecutorCalls(request, first, queue.send))
        request.check_lease()
        with aion_context_set(context_of(seen, sink, name=self._name)), remote_caller_set(remote_calls.call):
            # As in the SDK, run `execute()` in a separate asyncio task. After a cancellation, call the executor's
            # `cancel()` before cancelling that asyncio task.
            work = asyncio.create_task(_execution(self._executor.execute(context, queue)))
        try:
            async with aclosing(queue.until(work)) as batches:
                async for entries in batches:
                    for emission in together(each for entry in entries for each in translator.translate(entry.event)):
                        yield emission
                    # Let `execute()` continue only under the lease. Its events are recorded: the runner records an
                    # emission before it requests the next.
                    if translator.ending is None:
                        request.check_lease()
                    for entry in entries:
                        entry.set_recorded()
                    if translator.is_announcing():
                        await asyncio.wait({work}, timeout=RETURN_SECONDS)
                        if not _has_returned(work):
                            for announcement in translator.announce():
                                yield announcement
            question = None if work.cancelled() else question_in(work.exception())
            if question is None:
                _check_result(work, ended=translator.ending is not None)
            if translator.ending is None:
                for chunk in translator.close_streams():
                    yield chunk
                yield translator.end() if question is None else question.ending()
        finally:
            if not work.done():
                await self._stop(work, request, context, queue, ended=translator.ending is not None)
            remote_calls.close()
            queue.end()

    async def _stop(
        self,
        work: "asyncio.Task[None]",
        request: TurnRequest,
        context: RequestContext,
        queue: RecordingQueue,
        *,
        ended: bool,
    ) -> None:
        """Stop `execute()` after the turn has ended. If the client has canceled the task, call `cancel()` first."""
        # Call `cancel()` before `work.cancel()`. Until then, an `enqueue_event` of `execute()` stays blocked, because
        # the runner records no more events. Then close the queue, because `execute()` may report its cancellation.
        canceling = asyncio.create_task(self._call_cancel(request, context)) if not ended else None
        if canceling is not None:
            await asyncio.wait({canceling}, timeout=CANCEL_SECONDS)
            canceling.cancel()
            queue.end(warn=False)
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECONDS)
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            logger.error("An executor failed as it was stopped.", exc_info=error)
        elif not work.done():
            logger.warning("An executor does not stop; its events are dropped.", extra={"task_id": request.task.id})

    async def _call_cancel(self, request: TurnRequest, context: RequestContext) -> None:
        """Call the executor's `cancel()` if the client has canceled the task."""
        try:
            log = await self._tasks.log(TaskKey(request.context.owner, request.task.id))
        except StoreError as error:
            logger.warning("The state of a stopped executor's task could not be read: %s", error)
            return
        if log is None or log.head.state != TaskState.TASK_STATE_CANCELED:
            # Skip `cancel()`, because the client has not canceled the task: the turn has reached its deadline, or
            # another process holds its lease.
            return
        # As in the SDK, `current_task` is the running task.
        canceling = copy(context)
        canceling.current_task = task_before_cancellation(log)
        await self._cancel(canceling)

    async def canceled(self, task: TaskKey) -> None:
        """Call the executor's `cancel()` for a task that waited for the client. See `NoticesCancellations`."""
        log = await self._tasks.log(task)
        if log is None or log.head.state != TaskState.TASK_STATE_CANCELED:
            return
        context = cancel_context(log, self._configuration)
        if context.current_task is not None and context.current_task.status.state in states.INTERRUPTED:
            # Limit the time, because `cancel()` may wait for ever for an execution that is in another process.
            canceling = asyncio.create_task(self._cancel(context))
            await asyncio.wait({canceling}, timeout=TOLD_SECONDS)
            canceling.cancel()

    async def _cancel(self, context: RequestContext) -> None:
        # Give `cancel()` a closed queue, because its events cannot be recorded: the task is already in a terminal
        # state.
        closed = RecordingQueue()
        closed.end(warn=False)
        try:
            await self._executor.cancel(context, closed)
        except Exception:
            logger.exception("An executor's cancel() failed.", extra={"task_id": context.task_id})


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Return the `Agent` of a loaded executor."""
    kept = map(type, getattr(loaded.agent, "__dict__", {}).values())
    if any(each.__module__.startswith("a2a.server.tasks.") and each.__name__.endswith("TaskStore") for each in kept):
        logger.warning(
            "The executor of %s keeps a task store of the a2a-sdk, which stays empty here. Read earlier messages with "
            "get_aion_context().thread.history(), see docs/executor.md#a-server-of-the-a2a-sdk",
            config.path,
        )
    return ExecutorAgent(
        loaded.agent,
        dependencies.tasks,
        name=config.name,
        resume=config.resume,
        configuration=config.configuration,
        remotes=dependencies.remotes,
    )


async def _execution(execution: Coroutine[Any, Any, None]) -> None:
    """Await `execute()`. Convert the SDK's errors for invalid requests to AgentFailed."""
    try:
        await execution
    except CLIENT_ERRORS as error:
        raise AgentFailed(f"{type(error).__name__}: {error.message}") from error
    except (AttributeError, TypeError, ValueError) as error:
        if _OLD_SDK.search(str(error)) or isinstance(getattr(error, "obj", None), AnyMessage):
            error.add_note(
                "If the code was written for a2a-sdk 0.2 or 0.3, change it as in "
                "docs/from-a2a-sdk.md#names-of-a2a-sdk-02-and-03"
            )
        raise


def _has_returned(work: "asyncio.Task[None]") -> bool:
    return work.done() and not work.cancelled() and work.exception() is None


def _check_result(work: "asyncio.Task[None]", *, ended: bool) -> None:
    """Raise the exception of `execute()`, if any. If the turn has already ended, only log the exception."""
    error = AgentFailed(CANCELED_ITSELF) if work.cancelled() else work.exception()
    if error is None:
        return
    if not ended:
        raise error
    logger.error("An executor failed after the end of its turn; the ending is unchanged.", exc_info=error)
