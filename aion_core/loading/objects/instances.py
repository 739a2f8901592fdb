"""Agents made by an author's class or function when they are loaded."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from aion_core.errors import AgentLoadError
from aion_core.loading.frameworks import framework_of
from aion_core.loading.load_errors.explain import explain_error, is_from_user
from aion_core.loading.load_errors.source_lines import source_location
from aion_core.loading.objects.per_turn import PerTurnFactory, is_opened, per_turn_factory


def instantiate(factory: Callable[..., Any], path: str, folder: Path) -> Any:
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
