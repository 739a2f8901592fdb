"""aion.yaml → agents: finds what `path` names, and gives it the adapter of its framework.

A framework is imported when an agent of its kind is, never for the other.
"""

import asyncio
import importlib
import importlib.util
import inspect
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from aion_core.agents.config import AgentConfig
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, Asked, Emission

logger = logging.getLogger(__name__)

_LOADING = threading.Lock()
"""One at a time: two agents may share a module, and none is to find it half executed."""

AdapterFactory = Callable[[Any], Agent]
"""Makes the agent of a framework's object, such as a graph."""


class LoadedAtFirstTurn:
    """An agent whose code is imported when it is first needed, or when `load` is called: a card needs no graph."""

    def __init__(self, agent_id: str, config: AgentConfig, folder: Path, langgraph: AdapterFactory) -> None:
        self._id, self._config, self._folder, self._langgraph = agent_id, config, folder, langgraph
        self._agent: Agent | None = None

    def load(self) -> None:
        """See `ports.Agent.load`."""
        with _LOADING:
            if self._agent is None:
                self._agent = self._adapter(find(self._config.path, self._folder))
                self._agent.load()

    async def run(self, asked: Asked) -> AsyncGenerator[Emission, None]:
        """See `ports.Agent.run`."""
        if self._agent is None:
            # Not on the event loop: other requests go on while the agent's code is imported.
            await asyncio.to_thread(self.load)
        assert self._agent is not None  # noqa: S101  # load sets it or raises
        async for emission in self._agent.run(asked):
            yield emission

    def _adapter(self, found: Any) -> Agent:
        # `with_retry`, `with_config` and their like may wrap a graph, which is what they are bound to.
        graph = found if kind_of(found) else getattr(found, "bound", found)
        if kind_of(graph) == "langgraph":
            return self._langgraph(graph)
        raise ConfigurationError(
            f"{self._config.path} of agent {self._id!r} is a {type(found).__name__}; "
            "aion runs a LangGraph StateGraph, a compiled graph, or a function that returns one."
        )


def find(path: str, folder: Path) -> Any:
    """Return the object that `path` names, or the first agent in it where no name is given.

    A function without arguments is called. Raises ConfigurationError that says what is wrong.
    """
    place, _, name = path.partition(":")
    module = _module(place, folder)
    found = getattr(module, name, None) if name else _search(module)
    if found is None:
        raise ConfigurationError(
            f"{path}: there is no {name!r} in {place}."
            if name
            else f"{path}: there is no agent in {place}. Name it, as in {place}:graph."
        )
    if inspect.isfunction(found):
        return _call(found, path)
    return found


def kind_of(candidate: object) -> str | None:
    """Return the framework that the object is an agent of, None where it is none; imports nothing."""
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(candidate).__mro__}
    if kinds & {("langgraph", "StateGraph"), ("langgraph", "Pregel")}:
        return "langgraph"
    return None


def _module(place: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        # An agent's file imports its neighbours as it would when run from its own folder.
        sys.path.insert(0, str(folder))
    try:
        if place.endswith(".py"):
            return _module_of_file((folder / place).resolve())
        return importlib.import_module(place)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:  # the author's module may raise anything
        raise ConfigurationError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error


def _module_of_file(file: Path) -> ModuleType:
    if file.parent.is_dir() and str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    if not file.is_file():
        raise ConfigurationError(f"{file} does not exist; `path` is relative to aion.yaml's folder.")
    name = f"aion_agent_{file.stem}_{abs(hash(file))}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101  # the name ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    # Known by its name before it runs: dataclasses and get_type_hints look their module up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search(module: ModuleType) -> Any:
    """Return the first agent instance that the module defines, in its order."""
    return next((value for value in vars(module).values() if kind_of(value)), None)


def _call(factory: Callable[[], Any], path: str) -> Any:
    try:
        made = factory()
        # Loaded in a thread of its own, where no event loop runs.
        return asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made
    except (Exception, SystemExit) as error:  # the author's function may raise anything
        raise ConfigurationError(f"{path} raised {type(error).__name__}: {error}") from error


async def _awaited(made: Awaitable[Any]) -> Any:
    return await made
