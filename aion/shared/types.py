"""A2A envelopes for agents of any framework."""

from aion_core.authoring.types import A2AInbox, A2AOutbox

__all__ = ["A2AInbox", "A2AOutbox"]
