"""Lazy loading of an agent by its framework's adapter, and a guard against agent code that exits the process."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from aion_core.agents.config import AgentConfig
from aion_core.agents.frameworks import FRAMEWORKS, AgentDependencies, supported_objects
from aion_core.agents.load_errors import explain_error
from aion_core.agents.objects import (
    LoadedObject,
    PerTurnFactory,
    framework_of_loaded,
    is_opened,
    load_object,
    object_location,
)
from aion_core.errors import AgentFailed, AgentLoadError, ConfigurationError
from aion_core.garbage import no_garbage_collection
from aion_core.ports import (
    Agent,
    ContextKey,
    Emission,
    InputAwareAgent,
    InspectableAgent,
    ReplyAs,
    StoredState,
    TaskUsed,
    TurnRequest,
)

_LOADING = threading.Lock()
"""Lock for loading one agent at a time. Two agents may share a module, and its import must finish first."""


class LazyAgent:
    """Agent that imports its code at `load` or at its first turn. Serving its card needs no import."""

    def __init__(
        self,
        agent_id: str,
        config: AgentConfig,
        folder: Path,
        dependencies: AgentDependencies,
        roots: Sequence[Path] = (),
    ) -> None:
        """Store the agent's configuration without importing its code.

        `roots` are further folders for imports, beside `folder` and its `src`.
        """
        self._id, self._config, self._folder, self._dependencies = agent_id, config, folder, dependencies
        self._roots = roots
        self._agent: Agent | None = None
        self.framework = ""
        """Name of the agent's framework in the registry, set when the agent is loaded."""
        self.is_per_turn = False
        """True if the loaded agent is a factory called for each turn, so that the turn raises its exceptions."""
        self.input_modes: tuple[str, ...] = ()
        """Media types that reach the loaded agent, if aion.yaml names none; empty for those of its card."""

    @property
    def reply(self) -> ReplyAs:
        """Form of the response to a client. `agent` means `task` for a loaded agent that never sends a Message."""
        is_task = self.framework and not FRAMEWORKS[self.framework].sends_messages
        return ReplyAs.TASK if self._config.reply is ReplyAs.AGENT and is_task else self._config.reply

    def load(self) -> None:
        """Import the agent's code. Raises AgentLoadError. See `ports.Agent.load`."""
        with _LOADING:
            if self._agent is None:
                try:
                    with no_garbage_collection():
                        found = load_object(self._config.path, self._folder, self._roots)
                        agent = self._build(found)
                        agent.load()
                except AgentLoadError as error:
                    raise error.of_agent(self._id, self._config.path) from error.__cause__
                if isinstance(agent, InputAwareAgent) and "input_modes" not in self._config.model_fields_set:
                    self.input_modes = agent.input_modes()
                self._agent, self.is_per_turn = agent, isinstance(found.agent, PerTurnFactory)

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of the agent. See `ports.Agent.run`."""
        return self._load_and_run(request) if self._agent is None else self._agent.run(request)

    async def _load_and_run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        # A thread runs the import, so that the event loop can serve other requests meanwhile.
        await asyncio.to_thread(self.load)
        if not FRAMEWORKS[self.framework].sends_messages:
            yield TaskUsed()
        assert self._agent is not None  # noqa: S101  # load sets it or raises
        # Close the agent's generator with this one, so that the agent releases its resources before garbage collection.
        async with aclosing(self._agent.run(request)) as emissions:
            async for emission in emissions:
                yield emission

    async def stored_state(self, context: ContextKey, *, limit: int) -> StoredState | None:
        """Return the context's stored state; None for a framework without one. See `ports.InspectableAgent`."""
        await asyncio.to_thread(self.load)
        if not isinstance(self._agent, InspectableAgent):
            return None
        return await self._agent.stored_state(context, limit=limit)

    def _build(self, found: LoadedObject) -> Agent:
        # `with_retry`, `with_config` and the like wrap a graph and hold it as `bound`.
        agent = found.agent if framework_of_loaded(found.agent) else getattr(found.agent, "bound", found.agent)
        name = framework_of_loaded(agent)
        path, folder = self._config.path, self._folder
        if name is None:
            raise AgentLoadError(
                f"{path} is {_with_article(type(found.agent).__name__)}, which is not an agent",
                do=_OPENED if is_opened(agent) else _supported(),
                **object_location(found, folder),
            )
        framework = FRAMEWORKS[name]
        if self._config.recursion_limit is not None and not framework.limits_steps:
            raise AgentLoadError(
                f"{path} is {framework.title}, and `recursion_limit` limits the steps of a LangGraph graph only",
                do="Remove the key in aion.yaml.",
            )
        try:
            built = framework.builder()(replace(found, agent=agent), self._config, self._dependencies)
        except AgentLoadError as error:
            do, own = error.do, {"where": error.where, "source": error.source}
            raise AgentLoadError(
                f"{path}: {error.what}", do=do, **(own if error.where else object_location(found, folder))
            ) from error
        except ConfigurationError as error:
            raise AgentLoadError(f"{path}: {error}", **object_location(found, folder)) from error
        except (Exception, SystemExit) as error:  # compiling a graph runs the author's code and LangGraph's checks
            explained = explain_error(error, path, folder, "cannot be served:")
            if explained.where:
                raise explained from error
            raise AgentLoadError(explained.what, do=framework.remedy, **object_location(found, folder)) from error
        self.framework = name
        return built


class AgentReplies(Mapping[str, ReplyAs]):
    """`reply` setting of each agent. The value of an agent may change once, when its code is loaded."""

    def __init__(self, agents: Mapping[str, LazyAgent]) -> None:
        self._agents = agents

    def __getitem__(self, agent_id: str) -> ReplyAs:
        return self._agents[agent_id].reply

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def _supported() -> str:
    return f"aion runs {', '.join(supported_objects())}, or a function that returns one."


_OPENED = "Name the function that makes it, not the result of one call: it is called for each turn."

# ── Agent code that would end the process ─────────────────────────────────────────────────────────────────────────────
# The guard covers an agent's code and every asyncio task that it starts. asyncio passes SystemExit and
# KeyboardInterrupt from a task straight to the event loop, past every awaiting caller. Only the task's own coroutine
# can catch them earlier. So during a turn, a task factory wraps the coroutine of every task created by the agent.

PROCESS_EXITS = (SystemExit, KeyboardInterrupt)
"""Exceptions that asyncio passes straight to the event loop."""

_EXIT_MESSAGE = "The agent tried to end its process."

_in_a_turn: ContextVar[bool] = ContextVar("aion_in_a_turn", default=False)
"""True while an agent's code runs. The task factory wraps only tasks created by such code."""


@contextmanager
def exit_guard() -> Iterator[None]:
    """Context manager that raises AgentFailed if the code within it, or a task of that code, exits the process."""
    loop = asyncio.get_running_loop()
    previous = loop.get_task_factory()
    factory = previous if isinstance(previous, _TaskFactory) else _TaskFactory(previous)
    loop.set_task_factory(factory)
    factory.turns += 1
    token = _in_a_turn.set(True)
    try:
        yield
    except PROCESS_EXITS as error:
        raise AgentFailed(_EXIT_MESSAGE) from error
    finally:
        # If another task closes the async generator, the token belongs to a different context.
        with suppress(ValueError):
            _in_a_turn.reset(token)
        factory.turns -= 1
        # If other code has wrapped this factory since, that wrapper stays, and this factory no longer guards tasks.
        if not factory.turns and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


async def run_guarded(emissions: AsyncGenerator[Emission, None]) -> AsyncGenerator[Emission, None]:
    """Yield the emissions of an agent's turn while `exit_guard` is active."""
    with exit_guard():
        async with aclosing(emissions):
            async for emission in emissions:
                yield emission


class _TaskFactory:
    """Task factory of an event loop during turns. It guards the agents' tasks and calls the loop's previous factory."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.turns = 0
        """Number of running turns. After the last turn, the event loop gets its previous factory back."""

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        exit_guard = _GuardedCoroutine(work) if _in_a_turn.get() and asyncio.iscoroutine(work) else work
        if self.before is not None:
            return self.before(loop, exit_guard, **options)
        return asyncio.Task(exit_guard, loop=loop, **options)


class _GuardedCoroutine(Coroutine[Any, Any, Any]):
    """Coroutine that runs another one and replaces its SystemExit or KeyboardInterrupt with AgentFailed."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        # asyncio shows this name in the task's description.
        self.__qualname__ = getattr(work, "__qualname__", type(work).__qualname__)

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except PROCESS_EXITS as error:
            raise AgentFailed(_EXIT_MESSAGE) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except PROCESS_EXITS as raised:
            raise AgentFailed(_EXIT_MESSAGE) from raised
        finally:
            # The error's traceback has this frame: with the error in it, only the garbage collector would free both.
            del error

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()
