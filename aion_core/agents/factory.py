"""Graph factories: functions of the author's that make the graph of each turn."""

import inspect
import typing
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from aion_core.errors import AgentLoadError

_CONFIG = "config"
"""The parameter that LangGraph's server fills in, too."""


@dataclass(frozen=True, slots=True)
class PerTurn:
    """A factory that is called for each turn, since it takes the turn's config or gives back what it has opened."""

    make: Callable[..., Any]
    parameter: str | None
    """The name of the parameter that takes the config; None for a factory without one."""

    @asynccontextmanager
    async def made(self, config: Any) -> AsyncIterator[Any]:
        """Give what the factory makes; a context manager is left in the task that entered it, with the turn's error."""
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


def per_turn(function: Callable[..., Any], path: str) -> PerTurn | None:
    """Return the factory, None for a function that is called once, when the agent is loaded.

    Raises AgentLoadError where the function requires an argument that nobody gives it.
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
    return PerTurn(function, config) if config is not None or opens else None


def is_opened(made: object) -> bool:
    """Tell whether the object is a context manager, plain or async."""
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
