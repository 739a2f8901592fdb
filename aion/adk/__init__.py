"""Library for authors of ADK agents: the context of the running turn."""

from pkgutil import extend_path

from aion_core.authoring.context import AgentIdentity, AionContext, Event, Message, Thread, get_aion_context

# Another distribution may add modules to this package.
__path__ = extend_path(__path__, __name__)

__all__ = [
    "AgentIdentity",
    "AionContext",
    "Event",
    "Message",
    "Thread",
    "get_aion_context",
]
