"""Loading of the agent object at a `path` from aion.yaml."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from aion_core.errors import AgentLoadError, ConfigurationError
from aion_core.loading.frameworks import framework_of
from aion_core.loading.importing.files import import_file, import_name
from aion_core.loading.importing.places import YAML_AGENT, agent_files, import_roots, put_on_path
from aion_core.loading.load_errors.explain import explain_error, is_from_user
from aion_core.loading.load_errors.source_lines import display_path, source_location
from aion_core.loading.objects.instances import instantiate
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.loading.objects.search import only_agent
from aion_core.loading.objects.servers import executor_in, is_server, server_remedy
from aion_core.loading.suggestions import did_you_mean


def load_object(path: str, folder: Path, roots: Sequence[Path] = ()) -> LoadedObject:
    """Return the agent object at `path`. If `path` has no name, return the only agent of the module or folder.

    A class, or a function without arguments, is called. A function becomes a `PerTurnFactory` if it takes the run's
    config or opens a context manager. A request handler or an app of the a2a-sdk stands for its executor. An ADK root_agent.yaml file is returned as a Path. Raises AgentLoadError.
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
        found = getattr(module, name, None) if name else only_agent(module, path, folder, of_folder=of_folder)
        if found is not None:
            return _as_loaded(found, module, name, path, folder)
    if not files:
        modules.append(module := _imported_module(place, None, starts))
        found = getattr(module, name, None) if name else only_agent(module, path, folder)
        if found is not None:
            return _as_loaded(found, module, name, path, folder)
    raise _not_found_error(place, name, modules, folder)


def _as_loaded(found: Any, module: ModuleType, name: str, path: str, folder: Path) -> LoadedObject:
    docstring = (inspect.getdoc(found) or "") if inspect.isfunction(found) else ""
    if inspect.isfunction(found) or inspect.isclass(found):
        found = instantiate(found, path, folder)
    name = name or _name_of(module, found)
    if is_server(found) and (inside := executor_in(found)) is not None:
        executor, card = inside
        return LoadedObject(executor, module, name, card, docstring)
    return LoadedObject(found, module, name, docstring=docstring)


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
    if pending := _coroutine_in(modules):
        do = f"Set {pending} to the async function itself, without calling it: it is awaited here."
        return AgentLoadError(f"{path}: {pending} is a coroutine, which nothing awaits", do=do, **where)
    if (folder / place).is_dir():
        do = f"Define root_agent in {place}/agent.py, or name what you mean, as in {place}/agent.py:name."
        return AgentLoadError(f"{path}: there is no root_agent in the folder {place}", do=do, **where)
    apps = (server_remedy(value) for module in modules for value in vars(module).values())
    do = next(filter(None, apps), f"Name it, as in {place}:graph.")
    return AgentLoadError(f"{path}: there is no agent in {place}", do=do, **where)


def _coroutine_in(modules: Sequence[ModuleType]) -> str:
    """Return the name of a coroutine that an async function has returned to the module; "" if there is none."""
    for module in modules:
        for name, value in vars(module).items():
            if inspect.iscoroutine(value):
                value.close()  # otherwise Python warns that it was never awaited
                return name
    return ""


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
