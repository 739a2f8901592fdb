"""Facts that several invariants look up in a world's history."""

from typing import TYPE_CHECKING

from aion_core.ports import TaskKey
from aion_core.protocol.types import Task, TaskState
from aion_core.tasks import projection
from tests.simulation.agents import text_of
from tests.simulation.faults import Fault
from tests.simulation.history import users_messages

if TYPE_CHECKING:
    from tests.simulation.world import World

ASKS = {TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED}
ENDS = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}


def folded(world: "World", key: TaskKey) -> Task | None:
    """Return the task as its recorded events add up to it."""
    entries = world.history.log.get(key)
    return projection.fold(entry.numbered for entry in entries) if entries else None


def texts_of(world: "World", key: TaskKey) -> set[str]:
    """Return the programs that the task's messages name."""
    task = folded(world, key)
    return {text_of(message) for message in users_messages(task)} if task else set()


def happened(world: "World", *faults: Fault) -> bool:
    """True if one of these faults has happened."""
    return any(fault in {one.value for one in faults} for _, fault, _, _ in world.history.faults)


def is_undisturbed(world: "World", *but: Fault) -> bool:
    """True if no process died, and no fault happened but these."""
    return not world.history.deaths and all(
        fault in {one.value for one in but} for _, fault, _, _ in world.history.faults
    )


def expires_after(world: "World", key: TaskKey) -> float | None:
    """Return the time until which the task is stored: it lives on from its newest message, or nearly so."""
    entries = world.history.log.get(key)
    messages = [
        entry.at for entry in entries or () if entry.numbered.message is not None or entry.numbered.generation == 1
    ]
    retention = world.deployment.retention.total_seconds()
    return max(messages) + retention if messages else None


def has_expired(world: "World", key: TaskKey, at: float) -> bool:
    """True if the task may have expired by then."""
    ends = expires_after(world, key)
    # A message makes a task's life longer only if it does so by a good part of it.
    return world.forgets and ends is not None and at > ends - world.deployment.retention.total_seconds() / 2
