"""One turn of an ADK agent: where it is kept, what ADK's Runner is called with, and what comes of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.adk.agents.run_config import (  # type: ignore[attr-defined]  # ADK names it here
    RunConfig,
    StreamingMode,
    ToolThreadPoolConfig,
)
from google.adk.apps import App
from google.adk.artifacts import BaseArtifactService
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService, Session
from google.adk.workflow import BaseNode
from google.genai import types as genai

from aion_core.agents.adk import fingerprint
from aion_core.agents.adk.envelope import TurnSessions
from aion_core.agents.adk.going_on import can_go_on, is_finished, may_stop
from aion_core.agents.adk.handover import Handover, reading
from aion_core.agents.adk.observed import Observer
from aion_core.agents.adk.outbound import Outbound
from aion_core.agents.adk.runner import TurnRunner
from aion_core.agents.adk.sink import HandedSink
from aion_core.agents.inbound import context_of, inbox_of
from aion_core.authoring.context import aion_context_set
from aion_core.errors import LeaseLost
from aion_core.ports import Emission, StepCompleted, TurnRequest

Sessions = Callable[[TurnRequest], BaseSessionService]
"""Makes the session service of one turn: it writes by the turn's lease."""
Artifacts = Callable[[TurnRequest], BaseArtifactService]
"""Makes the artifact service of one turn."""

TURN = "aion:turn"
"""The key of an event's metadata under which the turn stands that it belongs to: an answer goes on with the invocation
that asked, and is another turn."""
TOOL_THREADS = 8
"""How many synchronous tools run at once: in threads, so that none of them keeps the others, or the lease, waiting."""
ABORT_SECONDS, STOP_SECONDS = 0.5, 1.0
"""How long an invocation that is canceled may take to stop by itself, and then, cut, to let go."""


class Drained(Exception):  # as LangGraph names what its graphs raise
    """The agent has stopped after an event that is stored, since its runner's time is up."""


@dataclass(frozen=True, slots=True)
class Call:
    """What ADK's Runner is called with."""

    message: genai.Content | None
    invocation_id: str | None = None
    """Of the invocation that goes on; None where the message says it, or begins one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What all turns of an agent are given."""

    name: str
    """The agent's own."""
    app: App
    root: BaseNode
    """The App's root: an agent, or a workflow."""
    agents: str
    """The root's fingerprint."""
    sessions: Sessions
    artifacts: Artifacts | None
    configuration: Mapping[str, Any]
    """The author's own settings; they are in the session's state."""
    memory: BaseMemoryService
    credentials: BaseCredentialService


class AdkTurn:
    """A turn whose message is asked."""

    def __init__(self, asked: TurnRequest, given: Given) -> None:
        self._asked, self._given = asked, given
        self._handover = Handover()
        self._observer = Observer(asked.task.id, given.root.name, self._handover.hand)
        self._sessions = TurnSessions(given.sessions(asked), given.configuration)
        self._artifacts = given.artifacts(asked) if given.artifacts is not None else None
        self._abort = asyncio.Event()
        self._runner = TurnRunner(
            turn_id=asked.turn.id,
            inbox=inbox_of(asked),
            # The first of the plugins: one that answers in a callback keeps it from those after it.
            app=given.app.model_copy(update={"plugins": [self._observer, *given.app.plugins]}),
            app_name=asked.context.agent,
            session_service=self._sessions,
            artifact_service=self._artifacts,
            memory_service=given.memory,
            credential_service=given.credentials,
        )

    @property
    def is_resumable(self) -> bool:
        """Whether ADK takes an invocation up again without its message."""
        config = self._given.app.resumability_config
        return config is not None and config.is_resumable

    async def session(self) -> Session:
        """Return the context's session, which is its owner's; a new one where there is none."""
        names: dict[str, Any] = {
            "app_name": self._asked.context.agent,
            "user_id": self._asked.context.owner,
            "session_id": self._asked.context.context_id,
        }
        return await self._sessions.get_session(**names) or await self._sessions.create_session(**names)

    def events(self, session: Session) -> list[Event]:
        """Return what the session holds of this turn."""
        return [event for event in session.events if _turn_of(event) == self._asked.turn.id]

    def invocation(self, session: Session) -> list[Event]:
        """Return what the session holds of the invocation that the turn runs: an answer's is the one that asked."""
        ids = {event.invocation_id for event in self.events(session)}
        return [event for event in session.events if event.invocation_id in ids]

    def stored(self) -> list[Event]:
        """Return all that the session that was run holds by now."""
        return list(self._runner.session.events) if self._runner.session is not None else []

    async def append(self, session: Session, event: Event) -> None:
        """Store an event that is none of the agent's own."""
        await self._sessions.append_event(session, event)

    async def load(self, name: str, version: int) -> genai.Part | None:
        """Return a version of an artifact that the agent has saved."""
        if self._artifacts is None:
            return None
        return await self._artifacts.load_artifact(
            app_name=self._asked.context.agent,
            user_id=self._asked.context.owner,
            session_id=self._asked.context.context_id,
            filename=name,
            version=version,
        )

    async def stream(self, call: Call, outbound: Outbound) -> AsyncGenerator[Emission, None]:
        """Run the agent as far as it goes.

        Raises Drained where it was asked to stop before its end, LeaseLost where the session is somebody else's by now,
        and what the agent's own code raises.
        """
        pump = asyncio.create_task(self._pump(call))
        try:
            async with reading(self._handover) as handed:
                async for given in handed:
                    async with aclosing(outbound.hear(given)) as emissions:
                        async for emission in emissions:
                            yield emission
                    if isinstance(given, Event) and not given.partial:
                        self._observer.stepped()
                        if self._goes_on():
                            yield StepCompleted()
                            if self._asked.drain.is_set() and self._may_stop():
                                raise Drained
            await pump
        except StaleSessionError as error:
            raise LeaseLost("The session belongs to another turn now.") from error
        except asyncio.CancelledError:
            # Canceled: ADK stops its tools by itself.
            if not self._asked.drain.is_set():
                self._abort.set()
            raise
        finally:
            # ADK would write down that the invocation was aborted, and nobody could go on with it.
            self._sessions.close()
            await self._stop(pump)

    def _goes_on(self) -> bool:
        """Tell whether another process can go on from here, and has anything left to do."""
        if not self.is_resumable or self._runner.session is None:
            return False
        root, events = self._given.root, self.invocation(self._runner.session)
        return not is_finished(root, events) and can_go_on(root, events)

    def _may_stop(self) -> bool:
        return self._runner.session is not None and may_stop(self._given.root, self.invocation(self._runner.session))

    async def _pump(self, call: Call) -> None:
        context = context_of(self._asked, HandedSink(self._asked, self._handover), name=self._given.name)
        arguments: dict[str, Any] = {
            "user_id": self._asked.context.owner,
            "session_id": self._asked.context.context_id,
            "new_message": call.message,
            "invocation_id": call.invocation_id,
            "run_config": RunConfig(
                streaming_mode=StreamingMode.SSE,
                tool_thread_pool_config=ToolThreadPoolConfig(max_workers=TOOL_THREADS),
                custom_metadata={TURN: self._asked.turn.id, fingerprint.AGENTS: self._given.agents},
            ),
            "abort_signal": self._abort,
        }
        try:
            with aion_context_set(context):
                async with aclosing(self._runner.run_async(**arguments)) as events:
                    async for event in events:
                        if not self._abort.is_set():
                            await self._handover.hand(event)
        finally:
            self._handover.end()

    async def _stop(self, pump: asyncio.Task[None]) -> None:
        if self._abort.is_set():
            await asyncio.wait({pump}, timeout=ABORT_SECONDS)
        if not pump.done():
            pump.cancel()
            await asyncio.wait({pump}, timeout=STOP_SECONDS)
        if pump.done() and not pump.cancelled():
            # Seen here: what it raised is raised already, or comes of its being cut.
            pump.exception()


def _turn_of(event: Event) -> str:
    return str((event.custom_metadata or {}).get(TURN, ""))
