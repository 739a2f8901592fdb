"""Execution of one turn of an ADK agent with ADK's Runner."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from typing import Any

from google.adk.agents.run_config import (  # type: ignore[attr-defined]  # ADK does not export RunConfig
    RunConfig,
    StreamingMode,
)
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.sessions._rewind_utils import compute_artifact_delta_for_rewind
from google.adk.utils._sync_runner import _use_executor_for_sync_callables
from google.genai import types as genai
from msgspec import Struct

from aion_core.agents.adk.callbacks import CallbackPlugin, StepRefused, call_site, running_agent
from aion_core.agents.adk.event_queue import EventChannel
from aion_core.agents.adk.invocation import RunningInvocation
from aion_core.agents.adk.node_steps import before_node
from aion_core.agents.adk.redeployment import AGENTS
from aion_core.agents.adk.remote_agents.durability import make_durable, remote_turn
from aion_core.agents.adk.remote_agents.turn_calls import RemoteTurn
from aion_core.agents.adk.rewind import TURN, rewind_event, turn_of
from aion_core.agents.adk.runner import TurnRunner
from aion_core.agents.adk.setup import AdkSetup
from aion_core.agents.adk.traced_callbacks import TracedPlugin
from aion_core.agents.adk.translation import AdkTranslator
from aion_core.agents.adk.turn_sessions import A2A_METADATA, TurnSessionService
from aion_core.agents.adk.waits.pauses import is_pause
from aion_core.agents.adk.waits.tool_calls import AdkToolCalls
from aion_core.agents.adk.waits.turn_waits import TurnWaits, turn_waits
from aion_core.agents.author_sleeps import AuthorSleeps
from aion_core.agents.reply_sink import TurnReplySink
from aion_core.agents.turn_context import context_of, inbox_of
from aion_core.authoring.context import aion_context_set
from aion_core.authoring.remote import remote_caller_set
from aion_core.authoring.sleeping import sleeper_set
from aion_core.delegation.author_calls import AuthorCalls
from aion_core.engine.agent import Emission, StepCompleted, TurnRequest
from aion_core.engine.fenced_writes import Fence
from aion_core.engine.process.exception_groups import ungrouped
from aion_core.errors import LeaseLost, StoreError

ABORT_SECONDS, STOP_SECONDS = 0.5, 1.0
"""Maximum seconds for a canceled invocation to stop by itself, and then for its canceled asyncio task to end."""


@contextmanager
def _one_thread_for_tools() -> Iterator[None]:
    """Run the synchronous tools and nodes of the turn in a thread of its own, so that they don't block the heartbeat.

    They run one after another, as in ADK's event loop: tools of one message often change the same key of the state.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="adk_tools")
    try:
        with _use_executor_for_sync_callables(executor):
            yield
    finally:
        # A canceled turn's tool may still run, and nothing can stop it.
        executor.shutdown(wait=False, cancel_futures=True)


class Drained(Exception):  # has the meaning of LangGraph's GraphDrained
    """Signal that the agent has stopped after a stored event, because its runner's deadline is near."""


class RunnerInput(Struct, frozen=True):
    """Input of ADK's Runner for one turn."""

    message: genai.Content | None
    invocation_id: str | None = None
    """Id of the invocation to resume; None if the message begins a new invocation or answers a pending call."""
    then: Sequence[genai.Content] = ()
    """Further messages, each for a further run of the Runner. They answer pending calls of other branches."""
    rejection: str = ""
    """Reason for refusing an answer to one of several pending calls; "" if all are accepted."""


class AdkTurn:
    """Execution of one turn of an ADK agent, with its own session service and Runner."""

    def __init__(self, request: TurnRequest, setup: AdkSetup) -> None:
        self._request, self._setup = request, setup
        self._channel = EventChannel(alone=(Event, StepRefused))
        self.waits = TurnWaits(setup.root, self._can_resume_here, self.stored)
        """Waits of the turn."""
        observed = request.task.id, setup.root.name, self._channel.send, request.check_lease, self.waits
        self._callbacks = TracedPlugin(*observed, request.trace) if request.trace else CallbackPlugin(*observed)
        if request.trace is not None:
            request.trace.framework_exports = True  # ADK makes spans by the same conventions
        self._invocation = RunningInvocation(setup.root, request.turn.id)
        self._sessions = TurnSessionService(
            setup.sessions(Fence(request.context, request.fence)),
            setup.configuration,
            self._invocation.add,
            self.waits.prepare,
        )
        self._artifacts = setup.artifacts(request) if setup.artifacts is not None else None
        self._abort = asyncio.Event()
        self._inbox = inbox_of(request)
        self._runner = TurnRunner(
            turn_id=request.turn.id,
            inbox=self._inbox,
            # Put this plugin first: if a plugin responds in a callback, later plugins do not get the callback.
            app=setup.app.model_copy(update={"plugins": [self._callbacks, *setup.app.plugins]}),
            app_name=request.context.agent,
            session_service=self._sessions,
            artifact_service=self._artifacts,
            memory_service=setup.memory,
            credential_service=setup.credentials,
        )

    @property
    def resumes_by_id(self) -> bool:
        """True if ADK can resume an invocation of this App by its id, without the message."""
        config = self._setup.app.resumability_config
        return config is not None and config.is_resumable

    async def session(self) -> Session:
        """Return the ADK session for the turn's context and owner. Create it if it does not exist.

        ADK's Runner uses an existing session too. It would otherwise read all events of the conversation again.
        """
        key: dict[str, Any] = {
            "app_name": self._request.context.agent,
            "user_id": self._request.context.owner,
            "session_id": self._request.context.context_id,
        }
        session = await self._sessions.get_session(**key)
        if session is None:
            return await self._sessions.create_session(**key)
        self._sessions.keep(session)
        self._invocation.begin(session.events)
        return session

    def events(self, session: Session) -> list[Event]:
        """Return the events that this turn has stored in the session."""
        return [event for event in session.events if turn_of(event) == self._request.turn.id]

    def invocation(self, session: Session) -> list[Event]:
        """Return all events of the turn's ADK invocation in the session.

        They may include events of earlier turns, because an answer continues the invocation of an earlier turn.
        """
        ids = {event.invocation_id for event in self.events(session)}
        return [event for event in session.events if event.invocation_id in ids]

    def stored(self) -> list[Event]:
        """Return all events stored so far in the session of the running invocation."""
        return list(self._runner.session.events) if self._runner.session is not None else []

    @property
    def restarts(self) -> int:
        """Number of times that the turn has started over."""
        return sum(turn_id == self._request.turn.id for turn_id in self._sessions.rewound.values())

    async def rewind(self, session: Session) -> None:
        """Return the session to its state before the turn, because the turn starts over.

        The artifacts that the turn has saved get the content they had before; a file of the user keeps its new content.
        """
        turn_id, app_name = self._request.turn.id, self._request.context.agent
        first = next(index for index, event in enumerate(session.events) if turn_of(event) == turn_id)
        artifacts = await compute_artifact_delta_for_rewind(
            session, first, artifact_service=self._artifacts, app_name=app_name
        )
        await self._sessions.append_event(session, rewind_event(turn_id, session.events, artifacts))
        self._sessions.prepare(session)
        self._invocation.begin(session.events)

    async def append(self, session: Session, event: Event) -> None:
        """Append an event created by this adapter to the session."""
        await self._sessions.append_event(session, event)

    async def renew(self, session: Session) -> None:
        """Renew the session of an open question, because this turn has extended the task but appends no event."""
        await self._sessions.renew(session)

    async def load_artifact(self, name: str, version: int) -> genai.Part | None:
        """Return one version of an artifact that the agent has saved; None if it does not exist."""
        if self._artifacts is None:
            return None
        return await self._artifacts.load_artifact(
            app_name=self._request.context.agent,
            user_id=self._request.context.owner,
            session_id=self._request.context.context_id,
            filename=name,
            version=version,
        )

    async def stream(self, given: RunnerInput, translator: AdkTranslator) -> AsyncGenerator[Emission, None]:
        """Run the agent and yield its emissions, until it ends or the runner's deadline stops it.

        Raises Drained if the deadline has stopped the agent, LeaseLost if another turn has taken over the session, and
        the exceptions of the agent's own code.
        """
        work = asyncio.create_task(self._run(given))
        try:
            async with self._channel.receiving() as received:
                async for events in received:
                    event = events[0]
                    if isinstance(event, StepRefused):
                        raise event.error
                    if not isinstance(event, Event):
                        for emission in translator.helper_calls(events):
                            yield emission
                    elif not is_pause(event) and not (event.partial and event.author in self._setup.planning_agents):
                        async with aclosing(translator.translate(event)) as emissions:
                            async for emission in emissions:
                                yield emission
                        if not event.partial:
                            self._callbacks.event_stored()
                            if self._can_resume_here():
                                yield StepCompleted()
                                if self._request.drain.is_set() and self._invocation.progress.can_stop:
                                    raise Drained
                    # Let the senders continue only under the lease. Their events are recorded: the runner records an
                    # emission before it requests the next.
                    self._request.check_lease()
            await work
        except StaleSessionError as error:
            raise LeaseLost("The session belongs to another turn now.") from error
        except asyncio.CancelledError:
            # If the client has canceled the task, let ADK stop its tools by itself.
            if not self._request.drain.is_set():
                self._abort.set()
            raise
        finally:
            # Close the session first. Otherwise ADK would store that the invocation was aborted, and the invocation
            # could never resume.
            self._sessions.close()
            await self._stop(work)
            self.waits.let_go()

    def _can_resume_here(self) -> bool:
        """Return True if the turn is unfinished, and another process could resume it after the last stored event."""
        if not self.resumes_by_id:
            return False
        progress = self._invocation.progress
        return not progress.is_finished and progress.can_resume

    async def _run(self, given: RunnerInput) -> None:
        """Run ADK's Runner and send its events to the channel."""
        sink = TurnReplySink(
            self._request,
            self._channel.send,
            self._channel.send_nowait,
            ids_of=self._request.turn.id,
            site=call_site.get,
            speaker=running_agent.get,
        )
        metadata: dict[str, Any] = {TURN: self._request.turn.id, AGENTS: self._setup.agent_names}
        if self._inbox.metadata:
            metadata[A2A_METADATA] = self._inbox.metadata
        arguments: dict[str, Any] = {
            "user_id": self._request.context.owner,
            "session_id": self._request.context.context_id,
            "run_config": RunConfig(
                streaming_mode=StreamingMode.SSE,
                custom_metadata=metadata,
            ),
            "abort_signal": self._abort,
        }
        make_durable()
        calls, remotes = self._request.calls, self._setup.remotes
        turn_waits.set(self.waits)
        before_node.set(self._callbacks.before_step)
        remote_turn.set(
            RemoteTurn(calls, self._request, self.restarts > 0, remotes, self.waits) if calls is not None else None
        )
        calling = AdkToolCalls(self._request, self.waits, self._channel.send)
        remote_calls, sleeps = AuthorCalls(self._request, remotes, calling), AuthorSleeps(self._request.sleeps, calling)
        try:
            context = context_of(self._request, sink, name=self._setup.name)
            with (
                ungrouped(LeaseLost, StoreError, StaleSessionError),
                aion_context_set(context),
                remote_caller_set(remote_calls.call),
                sleeper_set(sleeps.sleep),
                _one_thread_for_tools(),
            ):
                inputs = [(given.message, given.invocation_id), *((message, None) for message in given.then)]
                for message, invocation_id in inputs:
                    run = self._runner.run_async(new_message=message, invocation_id=invocation_id, **arguments)
                    async with aclosing(run) as events:
                        async for event in events:
                            if not self._abort.is_set():
                                await self._channel.send(event)
        finally:
            remote_calls.close()
            self._channel.finish()

    async def _stop(self, work: asyncio.Task[None]) -> None:
        if self._abort.is_set():
            await asyncio.wait({work}, timeout=ABORT_SECONDS)
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=STOP_SECONDS)
        if work.done() and not work.cancelled():
            # Retrieve the exception of the asyncio task, because asyncio logs every exception that nobody retrieves.
            # This exception was raised to the caller already, or stopping the agent has caused it.
            work.exception()
