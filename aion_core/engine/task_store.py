"""Task store: what the store of messages and the store of turns do, in one object for one table."""

from aion_core.engine.admission.store import MessageStore
from aion_core.engine.turn.store import TurnStore


class TaskStore(MessageStore, TurnStore):
    """Store of tasks: an event log per task, and at most one running turn per context."""
