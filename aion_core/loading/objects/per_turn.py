"""Factories of agents: an author's function that each turn calls, from its config or as a context manager."""

import inspect
import typing
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from msgspec import Struct

from aion_core import log
from aion_core.errors import AgentLoadError

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
