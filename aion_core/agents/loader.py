"""Lazy loading of an agent by its framework's adapter, and a guard against agent code that ends the process."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from aion_core.ports import Agent, Emission, TurnRequest

_LOADING = threading.Lock()
"""One agent at a time: two agents may share a module, and neither may see it half executed."""


class LazyAgent:
    """Agent that imports its code at its first turn or at `load`: a card needs no graph."""

    def __init__(
        self,
        agent_id: str,
        config: AgentConfig,
        folder: Path,
        dependencies: AgentDependencies,
        roots: Sequence[Path] = (),
    ) -> None:
        """Keep the agent's configuration; import nothing.

        `roots` are further folders for imports, beside `folder` and its `src`.
        """
        self._id, self._config, self._folder, self._dependencies = agent_id, config, folder, dependencies
        self._roots = roots
        self._agent: Agent | None = None
        self.framework = ""
        """Name of the framework in the registry, once the agent is loaded."""
        self.is_per_turn = False
        """True once the loaded agent is a factory called for each turn: its exceptions are raised by the turn."""

    def load(self) -> None:
        """Import the agent's code; raises AgentLoadError. See `ports.Agent.load`."""
        with _LOADING:
            if self._agent is None:
                try:
                    found = load_object(self._config.path, self._folder, self._roots)
                    agent = self._build(found)
                    agent.load()
                except AgentLoadError as error:
                    raise error.of_agent(self._id, self._config.path) from error.__cause__
                self._agent, self.is_per_turn = agent, isinstance(found.agent, PerTurnFactory)

    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """Run one turn of the agent. See `ports.Agent.run`."""
        if self._agent is None:
            # In a thread: the event loop serves other requests during the import.
            await asyncio.to_thread(self.load)
        assert self._agent is not None  # noqa: S101  # load sets it or raises
        # Closed together with this generator: the agent releases its resources now, not at garbage collection.
        async with aclosing(self._agent.run(request)) as emissions:
            async for emission in emissions:
                yield emission

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


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def _supported() -> str:
    return f"aion runs {', '.join(supported_objects())}, or a function that returns one."


_OPENED = "Name the function that makes it, not the result of one call: it is called for each turn."

# ── Agent code that would end the process ─────────────────────────────────────────────────────────────────────────────
# The guard covers nodes and everything they start: tools, tasks, conditional edges and subgraphs. asyncio passes
# SystemExit and KeyboardInterrupt from a task straight to the event loop, past every awaiting caller. Only the task
# itself can catch them before, so during a turn a task factory of ours wraps the loop's new tasks.

PROCESS_EXITS = (SystemExit, KeyboardInterrupt)
"""Exceptions that asyncio passes straight to the event loop."""

_EXIT_MESSAGE = "The agent tried to end its process."

_in_a_turn: ContextVar[bool] = ContextVar("aion_in_a_turn", default=False)
"""True in the code of an agent. Tasks of other code are not wrapped."""


@contextmanager
def exit_guard() -> Iterator[None]:
    """Raise AgentFailed for code within, or a task it starts, that would end the process."""
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
        # Another task may close an async generator; the value is not set in that task's context.
        with suppress(ValueError):
            _in_a_turn.reset(token)
        factory.turns -= 1
        # If other code has wrapped our factory since, that one stays, and ours only passes calls on.
        if not factory.turns and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


async def run_guarded(emissions: AsyncGenerator[Emission, None]) -> AsyncGenerator[Emission, None]:
    """Yield the emissions of an agent's turn under `exit_guard`."""
    with exit_guard():
        async with aclosing(emissions):
            async for emission in emissions:
                yield emission


class _TaskFactory:
    """Task factory of a loop during turns: wraps the tasks of agents, and uses the previous factory."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.turns = 0
        """Number of running turns. After the last one the loop gets its previous factory back."""

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        exit_guard = _GuardedCoroutine(work) if _in_a_turn.get() and asyncio.iscoroutine(work) else work
        if self.before is not None:
            return self.before(loop, exit_guard, **options)
        return asyncio.Task(exit_guard, loop=loop, **options)


class _GuardedCoroutine(Coroutine[Any, Any, Any]):
    """Coroutine that raises AgentFailed in place of an exception that would end the process."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        # asyncio shows this name for a task.
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

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()
