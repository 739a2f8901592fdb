"""Library for authors of LangGraph graphs: the turn's context, emissions of a node, and a router of events."""

from pkgutil import extend_path

from aion_core.authoring.context import AgentIdentity, AionContext, Event, Message, Thread, get_aion_context
from aion_core.authoring.emit import emit_data, emit_file, emit_message, emit_task_metadata
from aion_core.authoring.events import create_event_router

# Another distribution may add modules to this package.
__path__ = extend_path(__path__, __name__)

__all__ = [
    "AgentIdentity",
    "AionContext",
    "Event",
    "Message",
    "Thread",
    "create_event_router",
    "emit_data",
    "emit_file",
    "emit_message",
    "emit_task_metadata",
    "get_aion_context",
]
