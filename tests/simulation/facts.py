"""Facts about a world's history, shared by several invariants."""

from typing import TYPE_CHECKING

from aion_core.engine.task import projection
from aion_core.protocol.types import Task, TaskState
from aion_core.table.keys import TaskKey
from tests.simulation.agents import text_of
from tests.simulation.faults import Fault
from tests.simulation.history import users_messages

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

ASKS = {TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED}
ENDS = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}


def folded(world: "SimWorld", key: TaskKey) -> Task | None:
    """Return the task folded from its recorded events."""
    entries = world.history.log.get(key)
    return projection.fold(entry.numbered for entry in entries) if entries else None


def texts_of(world: "SimWorld", key: TaskKey) -> set[str]:
    """Return the texts of the client's messages in the task; each text is the name of a program."""
    task = folded(world, key)
    return {text_of(message) for message in users_messages(task)} if task else set()


def happened(world: "SimWorld", *faults: Fault) -> bool:
    """Return True if one of these faults has happened in the schedule."""
    return any(fault in {one.value for one in faults} for _, fault, _, _ in world.history.faults)


def is_undisturbed(world: "SimWorld", *but: Fault) -> bool:
    """Return True if no process died, and no fault happened except those in `but`."""
    return not world.history.deaths and all(
        fault in {one.value for one in but} for _, fault, _, _ in world.history.faults
    )


def late_actions(world: "SimWorld") -> set[str]:
    """Return what agents did although another process had taken over their turn."""
    return {
        did.what
        for did in world.history.agent
        if any(
            hold.context == did.context and hold.turn == did.turn and hold.fence > did.fence and hold.at <= did.at
            for hold in world.history.holds
        )
    }


def expires_after(world: "SimWorld", key: TaskKey) -> float | None:
    """Return the latest time at which the task may expire: the retention after its newest message."""
    entries = world.history.log.get(key)
    messages = [
        entry.at for entry in entries or () if entry.numbered.message is not None or entry.numbered.generation == 1
    ]
    retention = world.deployment.retention.total_seconds()
    return max(messages) + retention if messages else None


def has_expired(world: "SimWorld", key: TaskKey, at: float) -> bool:
    """Return True if the task may have expired at the time `at`."""
    ends = expires_after(world, key)
    # Allow an expiry in the second half of the retention: a message renews the task's TTL only if this prolongs the
    # TTL by more than a day, or by more than half of a shorter retention.
    return world.forgets and ends is not None and at > ends - world.deployment.retention.total_seconds() / 2
