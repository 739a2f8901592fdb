"""The id of the LangGraph thread of a context. Pure."""

import hashlib

from aion_core.ports import ContextKey


def thread_id(context: ContextKey) -> str:
    """Return LangGraph's persistence id: of this owner, agent and context and of no other (R56)."""
    whole = "\0".join((context.owner, context.agent, context.context_id))
    return hashlib.sha256(whole.encode()).hexdigest()
