"""Executors inside a server of the a2a-sdk: in a request handler, or in an app with the handler's routes."""

from collections.abc import Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from aion_core.loading.frameworks import framework_of
from aion_core.protocol.card import as_card, is_card
from aion_core.protocol.types import AgentCard

_DEPTH = 5
"""Maximum number of steps from a route to its handler: SDK and FastAPI wrap the handler's methods."""


def is_server(value: object) -> bool:
    """Return True for a request handler of the a2a-sdk, or an app with routes."""
    return _is_handler(value) or _is_app(value)


def executor_in(server: Any) -> tuple[Any, AgentCard] | None:
    """Return the executor and the card of a request handler or app.

    None for an app without a handler, or with the handlers of several executors.
    """
    handlers = _handlers_in(server)
    if len(handlers) != 1:
        return None
    [handler] = handlers
    return handler.agent_executor, as_card(next(filter(is_card, vars(handler).values()), None))


def server_remedy(server: Any) -> str:
    """Return the remedy for an app that stands for no executor; "" for any other object."""
    if not _is_app(server):
        return ""
    if executors := [type(handler.agent_executor).__name__ for handler in _handlers_in(server)]:
        return (
            f"It has several executors: {', '.join(executors)}. Declare an agent in aion.yaml for each, with the "
            "executor's request handler as its `path`."
        )
    return (
        "Its routes lead to no request handler of the a2a-sdk. Create the handler at the top level of the module, not "
        "in a function that runs later, such as `lifespan`, and name the handler or its executor in `path`."
    )


def _handlers_in(server: Any) -> list[Any]:
    """Return a handler for each executor in the server."""
    handlers = [server] if _is_handler(server) else _handlers_of(server)
    return list({id(handler.agent_executor): handler for handler in handlers}.values())


def _is_handler(value: Any) -> bool:
    return framework_of(getattr(value, "agent_executor", None)) == "executor" and any(
        base.__name__ == "RequestHandler" and base.__module__.startswith("a2a.") for base in type(value).__mro__
    )


def _is_app(value: object) -> bool:
    """Return True for an app of Starlette or FastAPI, or their router."""
    return not isinstance(value, type) and type(value).__module__.split(".")[0] in ("starlette", "fastapi")


def _handlers_of(app: object) -> Iterator[Any]:
    for route in getattr(app, "routes", ()):
        inner = getattr(route, "app", None)
        if getattr(route, "routes", ()):
            yield from _handlers_of(route)
        yield from _reachable([getattr(route, "endpoint", None), inner])


def _reachable(values: Iterable[object], depth: int = _DEPTH) -> Iterator[Any]:
    """Yield the handlers that a route's function refers to: by its object, its closure, or the function that it wraps."""
    for value in values:
        if _is_handler(value):
            yield value
        elif depth and value is not None:
            yield from _reachable(_referred(value), depth - 1)


def _referred(value: object) -> Iterator[object]:
    if isinstance(value, MethodType):
        yield value.__self__
        yield value.__func__
    elif isinstance(value, FunctionType):
        yield vars(value).get("__wrapped__")
        yield from (cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY)
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif type(value).__module__.startswith("a2a.server."):
        yield from vars(value).values()


_EMPTY = CellType()
