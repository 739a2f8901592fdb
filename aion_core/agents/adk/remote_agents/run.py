"""One run of a RemoteA2aAgent: ADK's own code, with a client that sends the message by a durable call."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

from a2a.client.client import ClientCallContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.events._node_path_builder import _NodePathBuilder
from google.adk.utils._agent_mode import AgentMode
from google.genai import types as genai

from aion_core.agents.adk.markers import is_marker
from aion_core.agents.adk.parts import parts_of_event
from aion_core.agents.adk.remote_agents.answers import answers_as_input
from aion_core.agents.adk.remote_agents.call_places import digest_of, place_of, remote_of, turn_of_open_call
from aion_core.agents.adk.remote_agents.contact import contact
from aion_core.agents.adk.remote_agents.marks import EarlierCalls, Mark, mark, mark_of
from aion_core.agents.adk.remote_agents.running_task import interceptor_reads_task, intercepts_responses
from aion_core.agents.adk.remote_agents.turn_calls import RemoteTurn
from aion_core.agents.adk.remote_agents.whole_responses import TRANSIENT, WholeResponses
from aion_core.agents.adk.waits.pauses import pause_event
from aion_core.agents.adk.waits.tool_runs import running_tool
from aion_core.delegation import ids
from aion_core.delegation.callbacks import CallbackRequest
from aion_core.delegation.client import RemoteClient
from aion_core.delegation.depth import next_depth
from aion_core.delegation.durable_call import DurableCall, Patience
from aion_core.delegation.patience import SUSPEND_SECONDS, StopsWaiting, check_limit, patient
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.engine.task.states import INTERRUPTED, state_name
from aion_core.errors import AgentFailed, RemoteAgentFailed
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message, SendMessageRequest, StreamResponse, TaskState, TaskStatus

PATIENCE = Patience()
"""Times of the attempts to reach a remote agent, from the first contact on."""

REMOTE_FAILED = "REMOTE_AGENT_FAILED"
"""Error code of the ADK event for a call that the remote agent has not answered."""

_FAILURES = (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_CANCELED)
"""States of a remote task that has ended without an answer."""

Original = Callable[[Any, InvocationContext], AsyncGenerator[Event, None]]


class RemoteRun:
    """One run of a RemoteA2aAgent, and the agent itself for ADK's code, which reads all else from the agent."""

    def __init__(self, agent: Any, ctx: InvocationContext, turn: RemoteTurn, original: Original) -> None:
        """`original` is ADK's code of the run."""
        self._agent, self._ctx, self._turn, self._original = agent, ctx, turn, original
        tool = running_tool.get()
        self._in_tool = tool.call_id if tool is not None else ""
        path = ctx.node_path or ""
        self._is_node = _NodePathBuilder.from_string(path).node_name == agent.name
        """True if ADK runs the agent as a node: after a crash it takes any event of the node for the node's end."""
        self._place = place_of(agent, ctx, self._in_tool)
        self._earlier = self._calls_of(turn.calls.turn_id)
        self._stored: RemoteCall | None = None
        """The call of an earlier attempt at this place."""
        self._call: DurableCall | None = None
        self._clients = AsyncExitStack()
        """Clients of remote agents by name, which are closed after the run."""
        self._error: Exception | None = None
        self._heard = ""
        """Id of the message or artifact in the response that ADK converts."""
        self._is_last = False
        """True once ADK has received the last response."""
        self._awaited: AwaitedCall | None = None
        """The call, if the turn is suspended until it has an answer."""
        self._state, self._reason = TaskState.TASK_STATE_UNSPECIFIED, ""
        """State of the remote task, as last heard; and the text of its message, if it has ended without an answer."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run. Raises what `_events` raises."""
        async with self._clients, aclosing(self._events()) as events:
            async for event in events:
                yield event

    async def _events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run.

        Raises AgentFailed if the remote agent gives no answer. In a tool and in task mode the event says so instead,
        because the model that has called the agent decides what to do.
        """
        if (last := self._earlier.last) is not None:
            async for event in self._repeated(last):
                yield event
            return
        known = await self._turn.calls.all()
        if turn_id := turn_of_open_call(known, self._place, self._ctx, in_tool=bool(self._in_tool)):
            self._earlier = self._calls_of(turn_id)
        key = self._earlier.open or self._earlier.next
        self._stored = next((call for call in known if call.key == key), None)
        held: Event | None = None
        parts: list[genai.Part] = []
        async with aclosing(self._run()) as events:
            async for event in events:
                self._raise_error()
                if self._call is None or event.partial:
                    yield event
                    continue
                mark(event, Mark(self._call.call.key, self._heard))
                if not self._is_last:
                    if not self._is_node:
                        yield event
                    else:
                        parts += [part for part in parts_of_event(event) if not part.thought]
                    continue
                if held is not None:
                    yield held
                held = event
        self._raise_error()
        if self._awaited is not None:
            async for event in self._pause(self._awaited):
                yield event
            return
        if self._call is None or not self._is_last:
            return
        last = held or Event(author=self.name, invocation_id=self._ctx.invocation_id, branch=self._ctx.branch)
        if parts:
            last.content = genai.Content(role="model", parts=[*parts, *parts_of_event(last)])
        failure = self._finish(last)
        yield last
        if failure is not None and self._raises:
            raise failure

    async def _run(self) -> AsyncGenerator[Event, None]:
        """Yield the events of ADK's code, until it ends or the turn is suspended."""
        interceptor_reads_task.set(intercepts_responses(self._agent))
        try:
            async with aclosing(self._original(self, self._ctx)) as events:
                async for event in events:
                    yield event
        except StopsWaiting:
            pass

    async def _pause(self, awaited: AwaitedCall) -> AsyncGenerator[Event, None]:
        """Stop this agent and those above, until another run of it finds the answer."""
        tool = running_tool.get()
        if tool is not None:
            tool.wait = tool.wait or awaited
            return  # the tool stops, and ADK forgets the session of its agent
        # The agent's callbacks come after its end.
        self._ctx.end_invocation = True
        self._turn.waits.add(self._place, awaited)
        yield pause_event(self.name, self._ctx)

    def _calls_of(self, turn_id: str) -> EarlierCalls:
        return EarlierCalls(f"{turn_id}/{self._place}", self._ctx.session.events, self._agent)

    async def _ensure_resolved(self, ctx: InvocationContext | None = None) -> Any:
        """Return the client for ADK's code. Any error is raised by `events`, because ADK makes it an event."""
        if self._stored is not None and self._stored.answer is not None:
            return _Client(self, None)
        try:
            client = await self._client_of(ctx)
        except Exception as error:
            self._error = error
            raise
        return _Client(self, client)

    async def _client_of(self, ctx: InvocationContext | None) -> RemoteClient:
        remotes, name = self._turn.remotes, self._agent._agent_card_source
        if name in remotes:
            # This client has the credentials of aion.yaml, and reads the card at its first request.
            return await self._clients.enter_async_context(remotes.client(name))
        reached = self._stored is not None and self._stored.remote_task
        seconds = PATIENCE.silence if reached else PATIENCE.first_contact
        return await contact(
            lambda: self._agent._ensure_resolved(ctx), name=self.name, patience=PATIENCE, seconds=seconds
        )

    def _create_a2a_request_for_user_function_response(self, ctx: InvocationContext) -> Message | None:
        """Return the stored message of a call that goes on, because the session has events of half an attempt."""
        if self._stored is not None and self._continues:
            message = Message()
            message.CopyFrom(self._stored.message)
            return message
        events = ctx.session.events
        while events and is_marker(events[-1]):
            # A workflow records its progress after the user's answer, and ADK reads the last event only.
            events = events[:-1]
        session = ctx.session.model_copy(update={"events": answers_as_input(events, self.name)})
        answered = ctx.model_copy(update={"session": session})
        made: Message | None = self._agent._create_a2a_request_for_user_function_response(answered)
        return made

    @property
    def _continues(self) -> bool:
        return bool(self._earlier.open) or not self._turn.restarted

    @property
    def _raises(self) -> bool:
        return not self._in_tool and self.mode != AgentMode.TASK

    async def responses(
        self, client: Any, request: SendMessageRequest, context: ClientCallContext | None
    ) -> AsyncGenerator[StreamResponse, None]:
        """Yield the remote agent's responses to ADK's request. Any error is raised by `events`."""
        try:
            stored = self._call_of(request.message)
            self._call = call = DurableCall(
                client,
                self._turn.calls,
                stored,
                name=self.name,
                patience=PATIENCE,
                callback=self._callback(client, stored),
            )
            metadata = {**to_json(request.metadata), **next_depth(self._turn.request.request, self.name)}
            heard, whole = self._earlier.heard(self._call.call.key), WholeResponses()
            rest: list[StreamResponse] = []
            heard_of = call.responses(heard=heard, metadata=metadata, context=context)
            async with aclosing(patient(heard_of, lambda: self._suspends(call), self._patience)) as responses:
                async for response in responses:
                    for each in whole.of(response):
                        if self._call.is_settled:
                            rest.append(each)
                        else:
                            self._note(each)
                            yield each
            for index, each in enumerate(rest):
                self._is_last = index == len(rest) - 1
                self._note(each)
                yield each
        except Exception as error:
            self._error = error
            raise

    def _callback(self, client: Any, call: RemoteCall) -> CallbackRequest | None:
        """Return a request for a callback, for a new message that may suspend the turn to an agent of aion.yaml."""
        if self._patience is None or call.remote_task or call.remote not in self._turn.remotes:
            return None
        return self._turn.remotes.callback(call.remote, client)

    @property
    def _patience(self) -> float | None:
        return SUSPEND_SECONDS if self._turn.request.sleeps is not None and self._may_stop else None

    @property
    def _may_stop(self) -> bool:
        """True if the agents above, or the tool, stop with this agent, and run it again."""
        tool = running_tool.get()
        if tool is None:
            return True
        return self._turn.waits.may_suspend(tool) and getattr(tool.tool, "agent", None) is self._agent

    def _suspends(self, call: DurableCall) -> bool:
        """Return True if the turn should wait for the call without a process. Raises RemoteAgentUnreachable."""
        sleeps, stored = self._turn.request.sleeps, call.call
        if sleeps is None or not sleeps.may_suspend() or not call.remote_task or call.is_settled:
            return False
        if not self._turn.waits.can_resume():
            return False
        check_limit(self._turn.request, stored.key, self.name)
        agent = "" if stored.remote in self._turn.remotes else self.name
        self._awaited = AwaitedCall(
            stored.key, stored.remote, call.remote_task, agent, calls_back=bool(stored.callback)
        )
        return True

    def _call_of(self, given: Message) -> RemoteCall:
        """Return the call for ADK's message: that of an earlier attempt, or a new one."""
        stored, key = self._stored, self._earlier.open or self._earlier.next
        if stored is not None:
            if self._continues or list(stored.message.parts) == list(given.parts):
                return stored
            # A turn that has started over says something else now, so the earlier answer does not fit.
            key = f"{key}#{digest_of(given.parts)}"
        calls, remote, message = self._turn.calls, remote_of(self._agent), Message()
        message.CopyFrom(given)
        message.message_id = ids.message_id(calls.context, calls.task.task_id, key)
        if not message.context_id and not message.task_id:
            # ADK sends a first message without contextId, and later ones with the remote agent's. Each first call has a
            # conversation of its own, so that parallel calls of one remote agent do not wait for each other.
            message.context_id = ids.context_id(calls.context, remote, branch=f"{calls.task.task_id}/{key}")
        return RemoteCall(key, remote, message, agent=self.name)

    def _note(self, response: StreamResponse) -> None:
        match response.WhichOneof("payload"):
            case "message":
                self._heard = response.message.message_id
            case "task":
                self._note_status(response.task.status)
            case "status_update":
                self._note_status(response.status_update.status)
            case "artifact_update":
                artifact_id = response.artifact_update.artifact.artifact_id
                self._heard = "" if artifact_id in TRANSIENT else artifact_id

    def _note_status(self, status: TaskStatus) -> None:
        # Don't keep the status itself: it keeps the whole response in memory.
        self._heard, self._state = status.message.message_id, status.state
        self._reason = "".join(part.text for part in status.message.parts) if status.state in _FAILURES else ""

    def _finish(self, last: Event) -> RemoteAgentFailed | None:
        """Mark the last event of the call. Return the error of a remote agent that has given no answer."""
        assert self._call is not None  # noqa: S101  # `events` has checked it
        asks = self._state in INTERRUPTED
        failure = None
        if self._state in _FAILURES:
            failure = RemoteAgentFailed(agent=self.name, state=state_name(self._state), reason=self._reason)
            if self.mode != AgentMode.TASK:
                last.error_code, last.error_message = REMOTE_FAILED, str(failure)
                text = genai.Part(text=str(failure))
                last.content = genai.Content(role="model", parts=[text]) if self._in_tool else None
        said = str(failure) if failure is not None else ""
        mark(last, Mark(self._call.call.key, self._heard, ended=not asks, asks=asks, failure=said))
        return failure

    async def _repeated(self, last: Event) -> AsyncGenerator[Event, None]:
        """Report the end of the call again, because the agent above has not recorded it.

        A question is repeated as the same event, so that ADK pauses the agents above too. Raises AgentFailed.
        """
        found = mark_of(last)
        if found is not None and found.failure and self._raises:
            raise AgentFailed(found.failure)
        if found is not None and found.asks:
            yield last.model_copy(deep=True)

    def _raise_error(self) -> None:
        if self._error is not None and (self._raises or not isinstance(self._error, AgentFailed)):
            raise self._error


class _Client:
    """A2A client for ADK's code."""

    def __init__(self, run: RemoteRun, client: RemoteClient | None) -> None:
        """`client` is None for a call whose answer is known."""
        self._run, self._client = run, client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext | None = None
    ) -> AsyncGenerator[StreamResponse, None]:
        return self._run.responses(self._client, request, context)
