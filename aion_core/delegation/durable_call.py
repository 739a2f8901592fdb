"""One call of a remote agent: it goes on after a lost connection, and after the loss of either process.

The message is stored before it is sent. A call that begins again sends the same message, or follows the remote task if
it is known: SubscribeToTask (A2A 3.1.6), else GetTask.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import Any

import httpx
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError, A2AClientTimeoutError, AgentCardResolutionError
from a2a.types import GetTaskRequest, SubscribeToTaskRequest
from a2a.utils.errors import A2AError, InternalError, TaskNotFoundError
from msgspec import Struct
from msgspec.structs import replace

from aion_core.agent_client.bounded import UnusableAnswer, is_connection_error
from aion_core.clock import Clock, SystemClock
from aion_core.delegation.callbacks import CallbackRequest
from aion_core.delegation.client import RemoteClient
from aion_core.delegation.kept_answer import KeptAnswer
from aion_core.delegation.news import RemoteNews
from aion_core.delegation.outcome import Outcome
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.remote_calls.turn_calls import TurnCalls
from aion_core.engine.task.states import INTERRUPTED
from aion_core.errors import RemoteAgentRefused, RemoteAgentUnreachable
from aion_core.protocol.errors import SERVICE_UNAVAILABLE
from aion_core.protocol.types import SendMessageRequest, StreamResponse, Task
from aion_core.table.times import milliseconds

logger = logging.getLogger(__name__)

TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which another attempt may succeed."""


FIRST_CONTACT_SECONDS = 90.0
"""Seconds until a call gives up on a remote agent that has never answered it."""

SILENCE_SECONDS = 600.0
"""Seconds until a call gives up on a remote agent that has accepted it and can no longer be reached."""

_BUSY = f"JSON-RPC Error {SERVICE_UNAVAILABLE}:"
"""Beginning of the error that the SDK's client makes of this server's answer while its store is busy."""


class Patience(Struct, frozen=True):
    """Times of the attempts to reach a remote agent."""

    first_wait: float = 0.5
    """Seconds before the second attempt; the wait doubles up to `longest_wait`."""
    longest_wait: float = 15.0
    first_contact: float = FIRST_CONTACT_SECONDS
    silence: float = SILENCE_SECONDS


class DurableCall:
    """A call of a remote agent by a turn. `responses` may be iterated once; a new attempt of the turn makes a new one."""

    def __init__(
        self,
        client: RemoteClient,
        calls: TurnCalls,
        call: RemoteCall,
        *,
        name: str,
        clock: Clock | None = None,
        patience: Patience | None = None,
        keeps_answer: bool = False,
        callback: CallbackRequest | None = None,
    ) -> None:
        """`name` is what the caller's client may read about the remote agent in an error.

        With `keeps_answer`, the answer is stored with the call. With `callback`, a new message asks the remote agent to
        report the end of its task; `call.callback` is set while it has agreed to.
        """
        self._callback = callback
        if callback is not None:
            call = replace(call, callback=callback.token_hash)
        self._keeps_answer, self._answer = keeps_answer, KeptAnswer(keeps_responses=keeps_answer)
        self._client, self._calls, self.call, self._name = client, calls, call, name
        self._clock, self._patience = clock or SystemClock(), patience or Patience()
        self._news = RemoteNews()
        self._may_have_sent = False
        self._wait, self._silent_since = 0.0, milliseconds(self._clock.now())

    @property
    def remote_task(self) -> str:
        """Id of the remote agent's task; "" before the remote agent has told it, and if it answers with a message."""
        return self._news.task_id

    @property
    def is_settled(self) -> bool:
        """True once the remote agent has answered: with a message, or a task that has ended or asks a question."""
        return self._news.is_settled

    async def responses(
        self,
        *,
        heard: Collection[str] = (),
        metadata: Mapping[str, Any] | None = None,
        context: ClientCallContext | None = None,
    ) -> AsyncGenerator[StreamResponse, None]:
        """Yield the remote agent's responses until it has answered.

        `heard` has the ids of the messages and artifacts that an earlier attempt has recorded: they are not repeated.
        Raises RemoteAgentRefused if the remote agent does not accept the message; RemoteAgentUnreachable if it cannot
        be reached or no longer knows the task; and LeaseLost if the caller's task was canceled.
        """
        new, self.call = self.call, await self._calls.begin(self.call)
        self._may_have_sent = self.call is not new
        if self._may_have_sent and not self.call.remote_task:
            # Only the process that sent the message had the token. The remote agent may have it, or not.
            self._drop_callback()
        self._news = RemoteNews(heard)
        if self.call.remote_task:
            self._news.resumes(self.call.remote_task)
        if self.call.answer is not None:
            # A look at a suspended turn has stored it, or the turn's former process. The remote agent may have forgotten its
            # task since.
            self._answer.add(self.call.answer)
            for each in list(self._news.of(self.call.answer)):
                yield each
            return
        reached = bool(self.call.remote_task)
        while True:
            source, last = self._follow(context) if reached else self._send(metadata or {}, context), None
            try:
                async with aclosing(source) as stream:
                    async for response in stream:
                        news = list(self._news.of(response))
                        if self._news.task_id and not reached:
                            reached = True
                            await self._calls.reached(self.call, self._news.task_id)
                        self._heard(news=bool(news))
                        if self._news.is_settled:
                            last = news
                            break
                        for each in news:
                            self._answer.add(each)
                            yield each
                if last is not None:
                    # The readers of the stream, which have copies of the whole answer, are gone by now.
                    last = [*[late async for late in self._missing(context)], *last]
                    for each in last:
                        self._answer.add(each)
                    await self._settle()
                    for each in last:
                        yield each
                    return
            except A2AError as error:
                self._check(error, reached=reached)
            except asyncio.CancelledError:
                if not reached:
                    await self._calls.stopped_in_flight(self.call)
                raise
            else:
                self._check(A2AClientTimeoutError("its responses end without an answer."), reached=reached)
            self._news.lost_stream()
            await self._pause()

    async def _send(
        self, metadata: Mapping[str, Any], context: ClientCallContext | None
    ) -> AsyncGenerator[StreamResponse, None]:
        request = SendMessageRequest(message=self.call.message)
        if metadata:
            request.metadata.update(metadata)
        if (config := await self._callback.config() if self._callback is not None else None) is not None:
            request.configuration.task_push_notification_config.CopyFrom(config)
        else:
            self._drop_callback()
        if self._may_have_sent and (answered := await self._answered_task(context)) is not None:
            yield StreamResponse(task=answered)
            return
        self._may_have_sent = True
        try:
            async with aclosing(self._client.send_message(request, context=context)) as responses:
                async for response in responses:
                    yield response
        except A2AError as error:
            if self._callback is not None and self._callback.is_refused(error):
                self._drop_callback()
                async for response in self._send(metadata, context):
                    yield response
                return
            # Another answer was faster, or the remote agent has gone on by itself, as after an authorization.
            if is_transient(error) or (answered := await self._answered_task(context)) is None:
                raise
            yield StreamResponse(task=answered)

    def _drop_callback(self) -> None:
        self._callback, self.call = None, replace(self.call, callback="")

    async def _answered_task(self, context: ClientCallContext | None) -> Task | None:
        """Return the remote task whose question the message answers, if it has the answer or waits for none; else None."""
        message = self.call.message
        if not message.task_id:
            return None
        task = await self._client.get_task(GetTaskRequest(id=message.task_id), context=context)
        has_answer = any(each.message_id == message.message_id for each in task.history)
        return task if has_answer or task.status.state not in INTERRUPTED else None

    async def _follow(self, context: ClientCallContext | None) -> AsyncGenerator[StreamResponse, None]:
        """Yield the responses of a subscription to the remote task, or the task itself if it cannot be subscribed to."""
        task_id = self._news.task_id
        try:
            request = SubscribeToTaskRequest(id=task_id)
            async with aclosing(self._client.subscribe(request, context=context)) as responses:
                async for response in responses:
                    yield response
        except (A2AError, NotImplementedError) as error:
            if is_transient(error) or isinstance(error, TaskNotFoundError):
                raise
            # The task has ended, or the remote agent does not stream.
            yield StreamResponse(task=await self._client.get_task(GetTaskRequest(id=task_id), context=context))

    async def _missing(self, context: ClientCallContext | None) -> AsyncGenerator[StreamResponse, None]:
        """Yield the artifacts of which a lost stream has delivered only a part, whole."""
        if not self._news.is_incomplete:
            return
        task = await self._client.get_task(GetTaskRequest(id=self._news.task_id), context=context)
        for response in self._news.of(StreamResponse(task=task)):
            if response.HasField("artifact_update"):
                yield response

    async def _settle(self) -> None:
        if self._news.state in INTERRUPTED:
            await self._calls.settle(self.call, CallState.ASKS)
            return
        answer = self.outcome.response() if self._keeps_answer else None
        await self._calls.settle(self.call, CallState.ENDED, answer)

    @property
    def outcome(self) -> Outcome:
        """Return the remote agent's answer, after the last response of a call that keeps its answer."""
        return self._answer.outcome

    def _heard(self, *, news: bool) -> None:
        self._silent_since = milliseconds(self._clock.now())
        if news:
            self._wait = 0.0
        self._calls.progressed()

    def _check(self, error: A2AError, *, reached: bool) -> None:
        """Raise RemoteAgentError if another attempt would not help, or if the remote agent has been silent for too long."""
        agent, reason = self._name, reason_of(error)
        if isinstance(error, TaskNotFoundError) and (reached or self.call.message.task_id):
            text = f"The agent {agent} no longer knows the task that it had begun."
            raise RemoteAgentUnreachable(text, agent=agent, reason=reason) from error
        if not is_transient(error, sends=not reached):
            what = (
                "gave an answer that cannot be used" if isinstance(error, UnusableAnswer) else "has refused the message"
            )
            text = f"The agent {agent} {what}: {reason}"
            raise RemoteAgentRefused(text, agent=agent, reason=reason) from error
        silent = (milliseconds(self._clock.now()) - self._silent_since) / 1000
        if silent >= (self._patience.silence if reached else self._patience.first_contact):
            text = f"The agent {agent} could not be reached for {silent:.0f} s: {reason}"
            raise RemoteAgentUnreachable(text, agent=agent, reason=reason) from error
        logger.info("The agent %s cannot be reached and is tried again: %s", agent, error)

    async def _pause(self) -> None:
        """Wait before the next attempt. The waits grow until the remote agent says something new."""
        self._wait = min(max(self._wait * 2, self._patience.first_wait), self._patience.longest_wait)
        await self._clock.sleep(self._wait)


def is_transient(error: BaseException, *, sends: bool = False) -> bool:
    """Return True if the same request may succeed later: no connection, a broken stream, an overloaded server.

    After an internal error, a request that `sends` a message is not repeated: the agent's own code may have failed, and
    another vendor's server would run it again each time.
    """
    if isinstance(error, A2AClientTimeoutError):
        return True
    if isinstance(error, InternalError):
        return not sends
    if str(error).startswith(_BUSY):
        return True
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        return cause.response.status_code in TRANSIENT
    return isinstance(error, A2AClientError) and is_connection_error(cause)


def reason_of(error: A2AError) -> str:
    """Return why the remote agent has not answered, for the caller's client: without addresses of the caller's network."""
    cause = error.__cause__
    if isinstance(cause, httpx.HTTPStatusError):
        return f"it answers with HTTP status {cause.response.status_code}."
    if isinstance(cause, httpx.TimeoutException):
        return "it does not answer in time."
    if isinstance(cause, httpx.RequestError):
        return "there is no connection to it."
    if isinstance(error, AgentCardResolutionError):
        return "its card is missing or invalid."
    return str(error) or type(error).__name__
