"""aion.yaml → agents: finds what `path` names, and gives it the adapter of its framework.

A framework is imported when an agent of its kind is, never for the other.
"""

import ast
import asyncio
import importlib
import importlib.util
import inspect
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

from aion_core.agents.config import AgentConfig
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, Asked, Emission

logger = logging.getLogger(__name__)

_LOADING = threading.Lock()
"""One at a time: two agents may share a module, and none is to find it half executed."""


@dataclass(frozen=True, slots=True)
class Found:
    """What `path` names, and where it was found."""

    agent: Any
    module: ModuleType


AdapterFactory = Callable[[Found, AgentConfig], Agent]
"""Makes the agent of a framework's object, such as a graph, as its author has configured it.

Raises ConfigurationError where it cannot be served so.
"""


class LoadedAtFirstTurn:
    """An agent whose code is imported when it is first needed, or when `load` is called: a card needs no graph."""

    def __init__(
        self, agent_id: str, config: AgentConfig, folder: Path, adapters: Mapping[str, AdapterFactory]
    ) -> None:
        """`adapters` holds, by the kind of `kind_of`, what makes the agent of such an object."""
        self._id, self._config, self._folder, self._adapters = agent_id, config, folder, adapters
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
        # Closed with this one: an agent whose turn is over lets go of what it holds now, not when memory is tidied.
        async with aclosing(self._agent.run(asked)) as emissions:
            async for emission in emissions:
                yield emission

    def _adapter(self, found: Found) -> Agent:
        # `with_retry`, `with_config` and their like may wrap a graph, which is what they are bound to.
        agent = found.agent if kind_of(found.agent) else getattr(found.agent, "bound", found.agent)
        kind = kind_of(agent)
        if kind is None:
            raise ConfigurationError(
                f"{self._config.path} of agent {self._id!r} is a {type(found.agent).__name__}; "
                "aion runs a LangGraph StateGraph, a compiled graph, an ADK agent or App, an a2a-sdk AgentExecutor, or a "
                "function that returns one."
            )
        try:
            return self._adapters[kind](replace(found, agent=agent), self._config)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._config.path} of agent {self._id!r}: {error}") from error


def find(path: str, folder: Path) -> Found:
    """Return the object that `path` names, or the one agent of the module where no name is given.

    A function without arguments, or a class, is called. Raises ConfigurationError that says what is wrong.
    """
    place, _, name = path.partition(":")
    module = _module(place, folder)
    found = getattr(module, name, None) if name else _search(module, path)
    if found is None:
        raise ConfigurationError(
            f"{path}: there is no {name!r} in {place}."
            if name
            else f"{path}: there is no agent in {place}. Name it, as in {place}:graph."
        )
    if inspect.isfunction(found) or inspect.isclass(found):
        found = _call(found, path)
    return Found(found, module)


KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "langgraph": (("langgraph", "StateGraph"), ("langgraph", "Pregel")),
    "executor": (("a2a", "AgentExecutor"),),
    "adk": (("google.adk", "BaseAgent"), ("google.adk", "Workflow"), ("google.adk", "App")),
}
"""The classes of which each framework's agents are: the package they are defined in, and their name."""


def kind_of(candidate: object) -> str | None:
    """Return the framework that the object, or the class, is an agent of, None where it is none; imports nothing."""
    own = candidate if isinstance(candidate, type) else type(candidate)
    for kind, classes in KINDS.items():
        for base in own.__mro__:
            if any(
                base.__name__ == name and f"{base.__module__}.".startswith(f"{package}.") for package, name in classes
            ):
                return kind
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
    if _imports_by_dots(file):
        # It is a module of its package, and nothing without it.
        package = list(takewhile(lambda folder: (folder / "__init__.py").is_file(), file.parents)) or [file.parent]
        if str(package[-1].parent) not in sys.path:
            sys.path.insert(0, str(package[-1].parent))
        return importlib.import_module(".".join([*(folder.name for folder in reversed(package)), file.stem]))
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


def _imports_by_dots(file: Path) -> bool:
    """Tell whether the file imports its neighbours as `from .tools import …`."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        # Python says what is wrong with it when it is imported.
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def _search(module: ModuleType, path: str) -> Any:
    """Return the agent that the module defines: of its instances, else of its classes; None where it has none.

    What it imports is another module's, and counts only where there is nothing else. Raises ConfigurationError where
    there are several.
    """
    imported = _imported(module)
    agents = {name: value for name, value in vars(module).items() if kind_of(value)}
    instances = {name: value for name, value in agents.items() if not isinstance(value, type)}
    classes = {name: value for name, value in agents.items() if getattr(value, "__module__", "") == module.__name__}
    own = {name: value for name, value in instances.items() if name not in imported}
    found = _each_once(own) or _each_once(instances) or _each_once(classes)
    if len(found) > 1:
        raise ConfigurationError(
            f"{path} holds several agents: {', '.join(found)}. Name one, as in {path}:{next(iter(found))}."
        )
    return next(iter(found.values()), None)


def _each_once(agents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agents by their first names, without those that are part of another one there."""
    seen = {id(part) for agent in agents.values() for part in _parts(agent)}
    once: dict[str, Any] = {}
    for name, agent in agents.items():
        if id(agent) not in seen:
            seen.add(id(agent))
            once[name] = agent
    return once


def _parts(agent: Any) -> Iterator[Any]:
    """Yield what is an agent by itself, and served as part of this one: a graph's builder, an App's root, sub-agents."""
    yield getattr(agent, "builder", None)
    # Of an App: an agent's own `root_agent` is the one above it.
    root = getattr(agent, "root_agent", None) if not hasattr(agent, "sub_agents") else None
    nodes = getattr(getattr(agent, "graph", None), "nodes", ())
    tools = [getattr(tool, "agent", None) for tool in getattr(agent, "tools", None) or ()]
    inner = [each for each in (root, *getattr(agent, "sub_agents", ()), *nodes, *tools) if kind_of(each)]
    for each in inner:
        yield each
        yield from _parts(each)


def _imported(module: ModuleType) -> set[str]:
    """Return the names that the module's own import statements give to what they import."""
    try:
        source = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        # It comes without its source: nothing can be told.
        return set()
    statements = (node for node in ast.walk(source) if isinstance(node, ast.Import | ast.ImportFrom))
    return {alias.asname or alias.name for statement in statements for alias in statement.names}


def _call(factory: Callable[..., Any], path: str) -> Any:
    named = getattr(factory, "model_fields", {}).get("name") if inspect.isclass(factory) else None
    if named is not None and named.is_required():
        # A class of ADK's: an agent's name is the first thing that it needs.
        factory = partial(factory, name=getattr(factory, "__name__", ""))
    try:
        made = factory()
        # Loaded in a thread of its own, where no event loop runs.
        return asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made
    except (Exception, SystemExit) as error:  # the author's function may raise anything
        raise ConfigurationError(f"{path} raised {type(error).__name__}: {error}") from error


async def _awaited(made: Awaitable[Any]) -> Any:
    return await made
