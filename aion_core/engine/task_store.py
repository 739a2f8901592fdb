"""Task store: the store of messages and the store of turns in one object.

Code is given the narrowest of these classes that it needs:

    StoredTasks     reads heads, logs and streamed text: lists, streams, webhooks, agents
    MessageStore    also stores clients' messages: admission
    TurnStore       also begins, records and ends turns: worker, runner, heartbeat, cancellation, sweep
    TaskStore       both: `TaskService` and the wiring
"""

from aion_core.engine.admission.store import MessageStore
from aion_core.engine.turn.store import TurnStore


class TaskStore(MessageStore, TurnStore):
    """Store of tasks: an event log per task, and at most one running turn per context."""
