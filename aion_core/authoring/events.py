"""LangGraph node that calls a handler for the kind of the turn's event."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aion_core.authoring.context import AionContext, get_aion_context
from aion_core.protocol.aion.extensions import EventKind

Handler = Callable[..., Any]
"""Author's function, `def` or `async def`, that declares its inputs as parameters and returns a node's output."""

_OURS: dict[str, Callable[[AionContext], Any]] = {
    "context": lambda context: context,
    "event": lambda context: context.event,
    "inbox": lambda context: context.inbox,
    "thread": lambda context: context.thread,
    "message": lambda context: context.message,
    "self": lambda context: context.self,
    "identity": lambda context: context.self,
}
_LANGGRAPHS = ("config", "store", "writer", "previous", "error")
"""Names of the parameters that LangGraph passes to a node, in addition to `runtime`."""


def create_event_router(
    *,
    on_message: Handler | None = None,
    on_reaction: Handler | None = None,
    on_command: Handler | None = None,
    on_card_action: Handler | None = None,
    default: Handler | None = None,
) -> Callable[..., Any]:
    """Return a LangGraph node that calls the handler for the kind of the turn's event.

    Parameters are `state`, `runtime`, `context` (the AionContext), `event`, `inbox`, `thread`, `message` (None for an
    event without a message), `self` or `identity` (the AgentIdentity), and LangGraph's own: `config`, `store`,
    `writer`. A `def` handler runs in a thread, like a `def` node of LangGraph. An event without a handler goes to
    `default`; without a default, the node changes nothing.

    Raises TypeError for a handler with any other required parameter.
    """
    named: dict[EventKind, Handler | None] = {
        "message": on_message,
        "reaction": on_reaction,
        "command": on_command,
        "card_action": on_card_action,
    }
    handlers = {kind: (handler, _declared(handler)) for kind, handler in named.items() if handler}
    otherwise = (default, _declared(default)) if default else None

    async def event_router(state: Any, runtime: Any, **langgraphs: Any) -> Any:
        context = runtime.context if isinstance(runtime.context, AionContext) else get_aion_context()
        found = handlers.get(context.event.kind, otherwise)
        if found is None:
            return {}
        handler, declared = found
        ours = {name: pick(context) for name, pick in _OURS.items()}
        given = {"state": state, "runtime": runtime, **ours, **langgraphs}
        return await _call(handler, {name: given[name] for name in declared if name in given})

    # Declare the parameters of all handlers, because LangGraph passes a node only the parameters in its signature.
    event_router.__signature__ = _signature(  # type: ignore[attr-defined]
        declared for _, declared in [*handlers.values(), *filter(None, [otherwise])]
    )
    return event_router


async def _call(handler: Handler, given: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(handler):
        return await handler(**given)
    returned = await asyncio.to_thread(handler, **given)
    # Await the result if it is awaitable. The handler's own kind does not show this: it may be a lambda around an async
    # call, or an object with an async `__call__`.
    return await returned if inspect.isawaitable(returned) else returned


def _declared(handler: Handler) -> dict[str, inspect.Parameter]:
    declared = {}
    for name, parameter in inspect.signature(handler).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        known = name in ("state", "runtime", *_OURS, *_LANGGRAPHS) and parameter.kind != parameter.POSITIONAL_ONLY
        if known:
            declared[name] = parameter
        elif parameter.default is parameter.empty:
            raise TypeError(
                f"The handler {getattr(handler, '__name__', handler)!r} requires {name!r}, which is not available. It may "
                f"declare {', '.join(['state', 'runtime', *_OURS, *_LANGGRAPHS])}."
            )
    return declared


def _signature(declared: Iterable[Mapping[str, inspect.Parameter]]) -> inspect.Signature:
    node = {name: inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("state", "runtime")}
    for parameters in declared:
        # Keep the parameter's annotation, because LangGraph also chooses arguments by annotation.
        node |= {
            name: parameter.replace(kind=parameter.KEYWORD_ONLY, default=parameter.empty)
            for name, parameter in parameters.items()
            if name in _LANGGRAPHS
        }
    return inspect.Signature(list(node.values()))
