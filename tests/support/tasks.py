"""Tasks of dead workers for tests."""

from datetime import UTC, datetime

from aion_core.clock import SystemClock
from aion_core.engine.admission import messages
from aion_core.engine.outcomes import TurnQueued, TurnStarted
from aion_core.engine.records import Head
from aion_core.protocol.types import Message, Part, Role
from aion_core.table.keys import ContextKey
from tests.support.databases import ReachableStack
from tests.support.stores import dynamodb_store, new_owner


async def orphan(stack: ReachableStack, text: str, *, agent: str = "echo", waits: bool = False) -> Head:
    """Create a running task of a dead worker, with an expired lease. With `waits`, its turn waits without a message."""
    store = dynamodb_store(stack, SystemClock(), lease_seconds=0.001)
    context = ContextKey(new_owner(), agent, "c-1")
    message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=text)])
    task_id = f"t-{context.owner}"
    new = messages.new_task(
        message, context, task_id=task_id, turn_id=f"turn-{task_id}", at=datetime.now(UTC), context_is_new=False
    )
    begun = await store.create(new, holder=None if waits else "gone")
    assert isinstance(begun, TurnQueued if waits else TurnStarted)
    return begun.head
