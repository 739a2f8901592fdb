"""An agent whose code is imported when it is needed."""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from pathlib import Path

from msgspec.structs import replace

from aion_core import log
from aion_core.engine.agent import Agent, Emission, InputRequired, TaskUsed, TurnRequest
from aion_core.engine.agent_options import ReplyAs
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.engine.task import states
from aion_core.errors import AgentLoadError, ConfigurationError
from aion_core.garbage import no_garbage_collection
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.build_agent import build_agent
from aion_core.loading.frameworks import FRAMEWORKS, AgentDependencies
from aion_core.loading.objects.load import load_object
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.loading.objects.per_turn import PerTurnFactory
from aion_core.protocol.types import Message, Part, Task

logger = logging.getLogger(__name__)

_LOADING = threading.Lock()
"""Lock for loading one agent at a time: imports in two threads may fail if two modules import each other."""
NOT_LOADED = (
    "The agent cannot be loaded at present, so your answer was not used. Send it again later, in a new message."
)
KNOWN_SECONDS = 20.0
"""Longest wait of a card for the agent's code. API Gateway waits 29 s for a response."""
OTHER_SECONDS = 30.0
"""Longest wait for the loading of another agent, because its import may never end."""


class LazyAgent:
    """Agent that imports its code at `load` or at its first turn. Its card can be served without the import."""

    def __init__(
        self,
        agent_id: str,
        config: AgentConfig,
        folder: Path,
        dependencies: AgentDependencies,
        roots: Sequence[Path] = (),
        *,
        is_only: bool = True,
    ) -> None:
        """Store the agent's configuration without importing its code.

        `roots` has folders for imports in addition to `folder` and its `src`. `is_only` is True for the only agent of a
        deployment.
        """
        self._id, self._config, self._folder, self._dependencies = agent_id, config, folder, dependencies
        self._roots, self._is_only = roots, is_only
        self._lock = threading.Lock()
        self._shared = threading.Lock()
        """Lock for `_loading`, because turns may run on several event loops."""
        self._loading: Future[None] | None = None
        """Last load in a thread of its own. The turns that wait for it share the thread."""
        self._has_been_loaded = threading.Event()
        """Set after the first attempt to load the code."""
        self._known_by = 0.0
        """Time of the monotonic clock until which a card waits for the code; 0 before the first card."""
        self._agent: Agent | None = None
        self._found: LoadedObject | None = None
        self._profile: AgentProfile | None = None
        self.framework = ""
        """Name of the agent's framework in the registry. It is set when the agent is loaded."""
        self.is_per_turn = False
        """True if the loaded agent is a factory. Each turn calls it, so its exceptions are raised in the turn."""

    @property
    def reply(self) -> ReplyAs:
        """Form of the response to a client. `agent` becomes `task` if the loaded agent's framework sends no Message."""
        is_task = self.framework and not FRAMEWORKS[self.framework].sends_messages
        return ReplyAs.TASK if self._config.reply is ReplyAs.AGENT and is_task else self._config.reply

    def load(self) -> None:
        """Import the agent's code. Raises AgentLoadError. See `Agent.load`."""
        with self._lock:
            if self._agent is None:
                is_alone = _LOADING.acquire(timeout=OTHER_SECONDS)
                try:
                    self._load()
                finally:
                    self._has_been_loaded.set()
                    if is_alone:
                        _LOADING.release()

    def _load(self) -> None:
        try:
            with no_garbage_collection(), log.kept_handlers():
                found = load_object(self._config.path, self._folder, self._roots)
                self.framework, agent = build_agent(found, self._config, self._folder, self._dependencies)
                agent.load()
        except AgentLoadError as error:
            raise error.of_agent(self._id, self._config.path) from error.__cause__
        self._found, self.is_per_turn = found, isinstance(found.agent, PerTurnFactory)
        self._agent = agent

    def stand_in(self, agent: Agent) -> None:
        """Let this agent run the turns and make the profile, in place of code that could not be loaded."""
        self._agent, self._profile = agent, agent.profile()

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of the agent. See `Agent.run`."""
        return self._load_and_run(request) if self._agent is None else self._agent.run(request)

    def profile(self) -> AgentProfile:
        """Return what the agent's code and the files beside it say about the agent. See `Agent.profile`."""
        if self._profile is None and self._agent is not None and self._found is not None:
            self._profile = self._full_profile(self._agent, self._found)
        return self._profile or UNKNOWN

    def _full_profile(self, agent: Agent, found: LoadedObject) -> AgentProfile:
        # Import late, because most processes serve no cards.
        from aion_core.loading.card_sources.sources import full_profile

        try:
            said = full_profile(found, agent.profile(), self._folder, self._roots, is_only=self._is_only)
        except Exception:  # the author's classes may raise any exception when they are inspected
            logger.exception("The card has only what aion.yaml says, because the agent's code cannot be inspected.")
            return UNKNOWN
        # Media types in aion.yaml are the author's word: the server neither refuses what they accept, nor adds others.
        return replace(said, reads=()) if "input_modes" in self._config.model_fields_set else said

    async def wait_until_known(self) -> None:
        """Wait until the agent's code was loaded or has failed, or for `KNOWN_SECONDS` from the first call.

        If nobody has loaded the code yet, load it.
        """
        if self._has_been_loaded.is_set():
            return
        self._known_by = self._known_by or time.monotonic() + KNOWN_SECONDS
        try:
            async with asyncio.timeout(max(0.0, self._known_by - time.monotonic())):
                await self._load_in_thread()
        except TimeoutError:
            logger.warning("The agent is still being loaded: its card has only what aion.yaml says.")
        except Exception:
            logger.warning("The agent cannot be loaded: its card has only what aion.yaml says.", exc_info=True)

    async def loaded(self) -> Agent:
        """Return the adapter of the agent's framework, and load the agent first. Raises AgentLoadError."""
        await self._load_in_thread()
        assert self._agent is not None  # noqa: S101  # load sets it or raises
        return self._agent

    async def _load_and_run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        # Import in a thread, so that the event loop can serve other requests.
        try:
            agent = await self.loaded()
        except ConfigurationError:
            # The question of a task may have waited for days, and its stored state is intact. The next deployment
            # corrects the code, and can then use an answer.
            question = _waiting_question(request)
            if question is None:
                raise
            logger.exception("The agent cannot be loaded. The answer is not used, and the question is asked again.")
            yield question
            return
        if not FRAMEWORKS[self.framework].sends_messages:
            yield TaskUsed()
        # Close the agent's generator together with this generator. Otherwise its resources are released only by garbage
        # collection.
        async with aclosing(agent.run(request)) as emissions:
            async for emission in emissions:
                yield emission

    async def _load_in_thread(self) -> None:
        """Load the agent in a thread that all waiting turns share. Raises AgentLoadError.

        A turn that ends early leaves no thread of its own: the import may never end, and the default executor has few
        threads. Python does not wait for a daemon thread at the end of the process.
        """
        with self._shared:
            loading = self._loading
            if loading is None or loading.done():
                loading = Future()
                loading.set_running_or_notify_cancel()  # so that no turn can cancel it
                context = contextvars.copy_context()
                threading.Thread(target=context.run, args=(self._load_for, loading), name="load", daemon=True).start()
                self._loading = loading
        await asyncio.wrap_future(loading)

    def _load_for(self, loading: Future[None]) -> None:
        try:
            self.load()
        except BaseException as error:
            loading.set_exception(error)
        else:
            loading.set_result(None)


class AgentReplies(Mapping[str, ReplyAs]):
    """`reply` setting of each agent. The value may change once, when the agent's code is loaded."""

    def __init__(self, agents: Mapping[str, LazyAgent]) -> None:
        self._agents = agents

    def __getitem__(self, agent_id: str) -> ReplyAs:
        return self._agents[agent_id].reply

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)


def _waiting_question(request: TurnRequest) -> InputRequired | None:
    """Return the question that the message answers, after the notice NOT_LOADED; None if no question waits.

    A turn that began before does not count, because the agent may have used the answer then.
    """
    status, turn = (request.before() or Task()).status, request.turn
    if status.state not in states.INTERRUPTED or turn.tries + turn.handoffs > 1:
        return None
    parts = [part for part in status.message.parts if part.text != NOT_LOADED]
    message = Message()
    message.CopyFrom(status.message)
    message.ClearField("message_id")
    message.ClearField("parts")
    message.parts.extend([Part(text=NOT_LOADED), *parts])
    return InputRequired(message, status.state)
