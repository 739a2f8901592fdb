"""An agent of aion.yaml: loaded by its framework's adapter when it is first needed, and kept from ending the process.

A framework is imported when an agent of its kind is, never for the other.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from aion_core.agents.config import AgentConfig
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
"""One at a time: two agents may share a module, and none is to find it half executed."""

AdapterFactory = Callable[[LoadedObject, AgentConfig], Agent]
"""Makes the agent of a framework's object, such as a graph, as its author has configured it.

Raises ConfigurationError where it cannot be served so.
"""


class LazyAgent:
    """An agent whose code is imported when it is first needed, or when `load` is called: a card needs no graph."""

    def __init__(
        self,
        agent_id: str,
        config: AgentConfig,
        folder: Path,
        adapters: Mapping[str, AdapterFactory],
        roots: Sequence[Path] = (),
    ) -> None:
        """`adapters` holds, by the kind of `framework_of`, what makes the agent of such an object.

        `roots` are folders that imports start from, beside the folder and its `src`.
        """
        self._id, self._config, self._folder, self._adapters = agent_id, config, folder, adapters
        self._roots = roots
        self._agent: Agent | None = None
        self.is_per_turn = False
        """True once the loaded agent is a factory that each turn calls: what it raises, a turn raises."""

    def load(self) -> None:
        """See `ports.Agent.load`; the error is an AgentLoadError."""
        with _LOADING:
            if self._agent is None:
                try:
                    found = load_object(self._config.path, self._folder, self._roots)
                    agent = self._adapter(found)
                    agent.load()
                except AgentLoadError as error:
                    raise error.of_agent(self._id, self._config.path) from error.__cause__
                self._agent, self.is_per_turn = agent, isinstance(found.agent, PerTurnFactory)

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        if self._agent is None:
            # Not on the event loop: other requests go on while the agent's code is imported.
            await asyncio.to_thread(self.load)
        assert self._agent is not None  # noqa: S101  # load sets it or raises
        # Closed with this one: an agent whose turn is over lets go of what it holds now, not when memory is tidied.
        async with aclosing(self._agent.run(asked)) as emissions:
            async for emission in emissions:
                yield emission

    def _adapter(self, found: LoadedObject) -> Agent:
        # `with_retry`, `with_config` and their like may wrap a graph, which is what they are bound to.
        agent = found.agent if framework_of_loaded(found.agent) else getattr(found.agent, "bound", found.agent)
        kind = framework_of_loaded(agent)
        path, folder = self._config.path, self._folder
        if kind is None:
            raise AgentLoadError(
                f"{path} is {_with_article(type(found.agent).__name__)}, which is no agent",
                do=_OPENED if is_opened(agent) else _TAKEN,
                **object_location(found, folder),
            )
        try:
            return self._adapters[kind](replace(found, agent=agent), self._config)
        except AgentLoadError as error:
            do, own = error.do, {"where": error.where, "source": error.source}
            raise AgentLoadError(
                f"{path}: {error.what}", do=do, **(own if error.where else object_location(found, folder))
            ) from error
        except ConfigurationError as error:
            raise AgentLoadError(f"{path}: {error}", **object_location(found, folder)) from error
        except (Exception, SystemExit) as error:  # compiling a graph runs the author's code, and LangGraph's checks
            explained = explain_error(error, path, folder, "cannot be served:")
            if explained.where:
                raise explained from error
            raise AgentLoadError(explained.what, do=_MEND[kind], **object_location(found, folder)) from error


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


_TAKEN = (
    "aion runs a LangGraph StateGraph, a compiled graph, an ADK agent or App, an a2a-sdk AgentExecutor, or a function that "
    "returns one."
)
_OPENED = "Name the function that makes it, not what one call has returned: it is called for each turn."
_MEND = {
    "langgraph": "Mend the graph's nodes and edges.",
    "adk": "Mend the agent's definition.",
    "executor": "Mend the executor's class.",
}


# ── Agent code that would end the process ─────────────────────────────────────────────────────────────────────────────
#
# Whatever ends so fails, as what raises does. That is nodes, and whatever they start: tools, tasks, conditional edges,
# subgraphs. Where such an error leaves an asyncio task, asyncio lets it through to the event loop, whoever awaits the
# task: the only place before that is the task itself, so while a turn runs the loop makes its tasks by a factory of ours.

ENDINGS = (SystemExit, KeyboardInterrupt)
"""What asyncio lets through to the event loop, whatever stands between."""

_SENTENCE = "The agent tried to end its process."

_in_a_turn: ContextVar[bool] = ContextVar("aion_in_a_turn", default=False)
"""Whether the code that runs is an agent's: all other tasks of the loop are made as ever."""


@contextmanager
def exit_guard() -> Iterator[None]:
    """Let nothing that is run, or started as a task, within end the process; raises AgentFailed in its place."""
    loop = asyncio.get_running_loop()
    there = loop.get_task_factory()
    factory = there if isinstance(there, _TaskFactory) else _TaskFactory(there)
    loop.set_task_factory(factory)
    factory.turns += 1
    token = _in_a_turn.set(True)
    try:
        yield
    except ENDINGS as error:
        raise AgentFailed(_SENTENCE) from error
    finally:
        # An async generator may be closed by another task than the one it began in; the value is not set in that one.
        with suppress(ValueError):
            _in_a_turn.reset(token)
        factory.turns -= 1
        # Where somebody has put another factory around it since, that one stays; ours only passes on then.
        if not factory.turns and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


async def run_guarded(emissions: AsyncGenerator[Emission, None]) -> AsyncGenerator[Emission, None]:
    """Yield what an agent's turn yields, which ends no process."""
    with exit_guard():
        async with aclosing(emissions):
            async for emission in emissions:
                yield emission


class _TaskFactory:
    """Makes a loop's tasks while turns run, by the factory that was there before; those of the turns do not let out."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.turns = 0
        """How many are under way: when the last has ended, the loop is as it was."""

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> Any:
        exit_guard = _Staying(work) if _in_a_turn.get() and asyncio.iscoroutine(work) else work
        if self.before is not None:
            return self.before(loop, exit_guard, **options)
        return asyncio.Task(exit_guard, loop=loop, **options)


class _Staying(Coroutine[Any, Any, Any]):
    """A coroutine in all that it does, but that it fails where it would end the process."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        # By which asyncio tells of a task.
        self.__qualname__ = getattr(work, "__qualname__", type(work).__qualname__)

    def send(self, value: Any) -> Any:
        try:
            return self._work.send(value)
        except ENDINGS as error:
            raise AgentFailed(_SENTENCE) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._work.throw(*error)
        except ENDINGS as raised:
            raise AgentFailed(_SENTENCE) from raised

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()
