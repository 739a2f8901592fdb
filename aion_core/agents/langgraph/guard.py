"""Keeps a node that would end the process from ending the server, and all that others have under way in it."""

import copy
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph._internal._runnable import RunnableCallable
from langgraph.pregel import Pregel
from langgraph.pregel._read import PregelNode

from aion_core.errors import AgentFailed

ENDINGS = (SystemExit, KeyboardInterrupt)
"""What asyncio lets through to the event loop, whatever stands between."""

_SENTENCE = "The agent tried to end its process."


def guarded(graph: Pregel[Any, Any, Any, Any]) -> Pregel[Any, Any, Any, Any]:
    """Return the graph with its function nodes guarded: one that exits fails, as one that raises does."""
    nodes = {name: _guarded(node) for name, node in graph.nodes.items()}
    return graph.copy(update={"nodes": nodes})


def _guarded(node: PregelNode) -> PregelNode:
    if not isinstance(node.bound, RunnableCallable):
        return node
    bound = copy.copy(node.bound)
    if bound.func is not None:
        bound.func = _staying(bound.func)
    if bound.afunc is not None:
        bound.afunc = _astaying(bound.afunc)
    return node.copy({"bound": bound})


def _staying(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def stays(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ENDINGS as error:
            raise AgentFailed(_SENTENCE) from error

    return stays


def _astaying(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def stays(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except ENDINGS as error:
            raise AgentFailed(_SENTENCE) from error

    return stays
