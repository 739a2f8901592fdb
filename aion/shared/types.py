"""The A2A envelopes that an agent's code reads and leaves, whatever its framework."""

from aion_core.authoring.types import A2AInbox, A2AOutbox

__all__ = ["A2AInbox", "A2AOutbox"]
