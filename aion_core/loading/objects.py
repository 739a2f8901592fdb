"""Loading of the agent object at a `path` from aion.yaml."""

import ast
import asyncio
import inspect
import threading
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from aion_core import log
from aion_core.errors import AgentLoadError, ConfigurationError
from aion_core.loading.frameworks import framework_of, framework_of_factories, framework_of_file
from aion_core.loading.importing import YAML_AGENT, agent_files, import_file, import_name, import_roots, put_on_path
from aion_core.loading.load_errors import assignment_line, did_you_mean, display_path, explain_error, source_location


class LoadedObject(Struct, frozen=True):
    """Agent object, with its module and its name in that module."""

    agent: Any
    module: ModuleType | None
    """Module with the agent; None for an agent in a root_agent.yaml file of ADK."""
    name: str = ""
    """Name of the agent object in its module, or "" if it has no name there."""


def load_object(path: str, folder: Path, roots: Sequence[Path] = ()) -> LoadedObject:
    """Return the agent object at `path`. If `path` has no name, return the only agent of the module or folder.

    A class, or a function without arguments, is called. A function becomes a `PerTurnFactory` if it takes the run's
    config or opens a context manager. An ADK root_agent.yaml file is returned as a Path. Raises AgentLoadError.
    """
    place, _, name = path.partition(":")
    starts = import_roots(folder, roots)
    files = agent_files(place, starts)
    of_folder = not place.endswith(".py") and (
        (folder / place).is_dir() or any(file.name == "__init__.py" for file in files)
    )
    modules: list[ModuleType] = []
    for file in files:
        if file.name == YAML_AGENT and not name:
            put_on_path([*starts, file.parent.parent])
            return LoadedObject(file, None)
        modules.append(module := _imported_module(place, file, starts))
        found = getattr(module, name, None) if name else _search(module, path, folder, of_folder=of_folder)
        if found is not None:
            return _as_loaded(found, module, name, path, folder)
    if not files:
        modules.append(module := _imported_module(place, None, starts))
        found = getattr(module, name, None) if name else _search(module, path, folder)
        if found is not None:
            return _as_loaded(found, module, name, path, folder)
    raise _not_found_error(place, name, modules, folder)


def _as_loaded(found: Any, module: ModuleType, name: str, path: str, folder: Path) -> LoadedObject:
    if inspect.isfunction(found) or inspect.isclass(found):
        found = _instantiate(found, path, folder)
    return LoadedObject(found, module, name or _name_of(module, found))


def _name_of(module: ModuleType, found: Any) -> str:
    return next((name for name, value in vars(module).items() if value is found), "")


def _not_found_error(place: str, name: str, modules: Sequence[ModuleType], folder: Path) -> AgentLoadError:
    """Return the AgentLoadError for a module or folder without the agent."""
    file = next((module.__file__ for module in reversed(modules) if getattr(module, "__file__", None)), None)
    where = source_location(file, [], folder)
    path = f"{place}:{name}" if name else place
    if name:
        known = {
            known: value for module in modules for known, value in vars(module).items() if not known.startswith("_")
        }
        agents = [
            known_name for known_name, value in known.items() if framework_of(value) and not isinstance(value, type)
        ]
        do = did_you_mean(name, agents) or did_you_mean(name, known)
        do = do or (f"It has {', '.join(agents)}." if agents else f"Define {name!r} there, or fix `path`.")
        return AgentLoadError(f"{path}: there is no {name!r} in {place}", do=do, **where)
    if (folder / place).is_dir():
        do = f"Define root_agent in {place}/agent.py, or name what you mean, as in {place}/agent.py:name."
        return AgentLoadError(f"{path}: there is no root_agent in the folder {place}", do=do, **where)
    return AgentLoadError(f"{path}: there is no agent in {place}", do=f"Name it, as in {place}:graph.", **where)


def _imported_module(place: str, file: Path | None, roots: Sequence[Path]) -> ModuleType:
    """Import a file, or if `file` is None a module by its name. Raises AgentLoadError."""
    folder = roots[-1]
    if file is not None and not file.is_file():
        near = did_you_mean(file.name, [path.name for path in file.parent.glob("*.py")] if file.parent.is_dir() else [])
        raise AgentLoadError(
            f"{place} does not exist",
            where=str(file),
            do=f"{near} `path` is relative to aion.yaml's folder, {folder}.".strip(),
        )
    subject = display_path(file, folder) if file is not None else place
    try:
        return import_file(file, roots) if file is not None else import_name(place, roots)
    except ConfigurationError:
        raise
    except BaseException as error:  # the author's module may raise any exception, as the panic of a library in Rust
        if is_from_user(error):
            raise
        if isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            looked = ", ".join(str(root) for root in roots)
            raise AgentLoadError(
                f"there is no module {place}",
                where=f"not in {looked}, and not installed",
                do="Fix `path`: file.py:name, relative to aion.yaml's folder, or package.module:name.",
            ) from error
        raise explain_error(error, subject, folder, file=file) from error


def is_from_user(error: BaseException) -> bool:
    """Return True if the user has pressed Ctrl-C. Python raises its KeyboardInterrupt in the main thread only."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def framework_of_loaded(agent: object) -> str | None:
    """Return the framework name of a loaded agent object; None if the object is not supported."""
    if isinstance(agent, PerTurnFactory):
        return framework_of_factories()
    return framework_of_file(agent.name) if isinstance(agent, Path) else framework_of(agent)


def object_location(found: LoadedObject, folder: Path) -> dict[str, str]:
    """Return the arguments `where` and `source` of an AgentLoadError about a loaded object."""
    if found.module is None:
        return source_location(found.agent, [], folder) if isinstance(found.agent, Path) else {}
    return source_location(found.module.__file__, [assignment_line(found.module, found.name)], folder)


def _search(module: ModuleType, path: str, folder: Path, *, of_folder: bool = False) -> Any:
    """Return the only agent among the module's instances, or else among its classes; None if there is none.

    An imported agent counts only if the module itself defines no instance. With `of_folder`, an ADK `app` or
    `root_agent` of the module has precedence, as in `adk web`. Raises AgentLoadError for several agents.
    """
    if of_folder:
        known = (getattr(module, name, None) for name in ("app", "root_agent"))
        if (named := next((agent for agent in known if framework_of(agent) == "adk"), None)) is not None:
            return named
    imported = _imported_names(module)
    agents = {name: value for name, value in vars(module).items() if framework_of(value)}
    instances = {name: value for name, value in agents.items() if not isinstance(value, type)}
    classes = {name: value for name, value in agents.items() if getattr(value, "__module__", "") == module.__name__}
    own = {name: value for name, value in instances.items() if name not in imported}
    concrete = {name: value for name, value in classes.items() if not inspect.isabstract(value)}
    found = next(filter(None, map(_without_parts, (own, instances, concrete, classes))), {})
    if len(found) > 1:
        raise AgentLoadError(
            f"{path} holds several agents: {', '.join(found)}",
            do=f"Name one, as in {path}:{next(iter(found))}.",
            **source_location(module.__file__, [assignment_line(module, name) for name in found], folder),
        )
    return next(iter(found.values()), None)


def _without_parts(agents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agents by name. Omit an agent that is part of another agent, and further names of the same agent."""
    seen = {id(part) for agent in agents.values() for part in _parts(agent)}
    once: dict[str, Any] = {}
    for name, agent in agents.items():
        if id(agent) not in seen:
            seen.add(id(agent))
            once[name] = agent
    return once


def _parts(agent: Any) -> Iterator[Any]:
    """Yield the agents contained in an agent: a graph's builder, an App's root agent, sub-agents, agents of tools."""
    yield getattr(agent, "builder", None)
    # Skip the `root_agent` of a sub-agent, because it is the sub-agent's top ancestor. The `root_agent` of an App is a
    # part of the App.
    root = getattr(agent, "root_agent", None) if not hasattr(agent, "sub_agents") else None
    nodes = getattr(getattr(agent, "graph", None), "nodes", ())
    tools = [getattr(tool, "agent", None) for tool in getattr(agent, "tools", None) or ()]
    inner = [each for each in (root, *getattr(agent, "sub_agents", ()), *nodes, *tools) if framework_of(each)]
    for each in inner:
        yield each
        yield from _parts(each)


def _imported_names(module: ModuleType) -> set[str]:
    """Return the names that the module's import statements bind."""
    try:
        source = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        # Return no names, because the module's source is not available.
        return set()
    statements = (node for node in ast.walk(source) if isinstance(node, ast.Import | ast.ImportFrom))
    return {alias.asname or alias.name for statement in statements for alias in statement.names}


def _instantiate(factory: Callable[..., Any], path: str, folder: Path) -> Any:
    """Call an agent's class or function and return the result. Return a PerTurnFactory if each turn must call it."""
    if not inspect.isclass(factory):
        try:
            made_per_turn = per_turn_factory(factory, path)
        except AgentLoadError as error:
            raise AgentLoadError(error.what, do=error.do, **_definition_location(factory, folder)) from None
        if made_per_turn is not None:
            return made_per_turn
    named = getattr(factory, "model_fields", {}).get("name") if inspect.isclass(factory) else None
    call = factory
    if named is not None and named.is_required():
        # Pass the class's name as `name`, because the class of an ADK agent may require this field.
        call = partial(factory, name=getattr(factory, "__name__", ""))
    try:
        made = call()
        # Run an async function by `asyncio.run`, because the thread that loads agents has no event loop.
        made = asyncio.run(_await_value(made)) if inspect.isawaitable(made) else made
    except BaseException as error:  # the author's function may raise any exception
        if is_from_user(error):
            raise
        explained = explain_error(error, path, folder, "raised")
        if not explained.where:
            do = _arguments_remedy(factory) if isinstance(error, TypeError) else explained.do
            explained = AgentLoadError(explained.what, do=do, **_definition_location(factory, folder))
        raise explained from error
    # Each turn must call the factory again, because a context manager's resources belong to one turn.
    return PerTurnFactory(factory, None) if is_opened(made) and not framework_of(made) else made


def _arguments_remedy(factory: Callable[..., Any]) -> str:
    """Return the remedy for a class or function that cannot be called without arguments."""
    name = getattr(factory, "__name__", "it")
    if missing := getattr(factory, "__abstractmethods__", ()):
        return f"Define {' and '.join(sorted(missing))} in {name}, or name another class in `path`."
    return (
        f"Name an instance in `path`, or a function without arguments that returns one: `def make(): return {name}(…)`."
    )


async def _await_value(made: Awaitable[Any]) -> Any:
    return await made


def _definition_location(made_by: Any, folder: Path) -> dict[str, str]:
    """Return the arguments `where` and `source` of an AgentLoadError about a function or class; {} if unknown."""
    try:
        file, line = inspect.getsourcefile(made_by), inspect.getsourcelines(made_by)[1]
    except (OSError, TypeError):
        return {}
    return source_location(file, [line], folder)


# ── Graph factories ───────────────────────────────────────────────────────────────────────────────────────────────────

_CONFIG = "config"
"""Name of the parameter for the run's config, as in LangGraph's server."""


class PerTurnFactory(Struct, frozen=True):
    """Author's function that makes the agent for each turn, from the turn's config or as a context manager."""

    make: Callable[..., Any]
    parameter: str | None
    """Name of the function's parameter for the config; None without such a parameter."""

    @asynccontextmanager
    async def made(self, config: Any) -> AsyncIterator[Any]:
        """Call the factory and yield the agent that it returns.

        A context manager is entered and exited in the same asyncio task. Its exit receives the turn's exception.
        """
        with log.kept_handlers():
            made = self.make(**{self.parameter: config}) if self.parameter else self.make()
            if inspect.isawaitable(made):
                made = await made
        if inspect.isasyncgen(made):
            made = asynccontextmanager(lambda: made)()
        elif inspect.isgenerator(made):
            made = contextmanager(lambda: made)()
        if hasattr(made, "__aenter__"):
            async with made as entered:
                yield entered
        elif hasattr(made, "__enter__"):
            with made as entered:
                yield entered
        else:
            yield made


def per_turn_factory(function: Callable[..., Any], path: str) -> PerTurnFactory | None:
    """Return a PerTurnFactory if each turn must call the function; None if it is called once, at load.

    Raises AgentLoadError if the function requires another argument than the config.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    config = next((parameter.name for parameter in parameters if _takes_config(parameter, function)), None)
    for parameter in parameters:
        if parameter.name != config and parameter.default is parameter.empty and parameter.kind not in _VARIADIC:
            raise AgentLoadError(
                f"{path} requires an argument {parameter.name!r}",
                do="A factory takes no argument, or the run's config: `def make(config: RunnableConfig)`.",
            )
    own = inspect.unwrap(function)
    opens = inspect.isgeneratorfunction(own) or inspect.isasyncgenfunction(own)
    return PerTurnFactory(function, config) if config is not None or opens else None


def is_opened(made: object) -> bool:
    """Return True if the object is a synchronous or asynchronous context manager."""
    return hasattr(made, "__aenter__") or hasattr(made, "__enter__")


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _takes_config(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    if parameter.kind in (*_VARIADIC, inspect.Parameter.POSITIONAL_ONLY):
        return False
    if parameter.name == _CONFIG:
        return True
    try:
        annotation = typing.get_type_hints(inspect.unwrap(function)).get(parameter.name)
    except (NameError, TypeError, AttributeError):
        annotation = parameter.annotation
    names = {getattr(each, "__name__", str(each)) for each in (annotation, *typing.get_args(annotation))}
    return "RunnableConfig" in names
