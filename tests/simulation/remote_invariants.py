"""Invariants of calls of a remote agent under every fault, each a function of the history."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from aion_core.delegation.cancel import ARRIVAL_SECONDS
from aion_core.protocol.types import TaskState
from tests.simulation.facts import folded, is_undisturbed
from tests.simulation.faults import HARMLESS, Fault

if TYPE_CHECKING:
    from tests.simulation.remotes import RemoteTask
    from tests.simulation.world import SimWorld


def _caller(task: "RemoteTask") -> tuple[str, str]:
    """Return the caller's task id, and the position of the call in it."""
    return task.message.parts[1].text, task.message.parts[2].text


def i30_each_call_begins_one_remote_task(world: "SimWorld") -> Iterator[str]:
    for (task_id, key), times in Counter(map(_caller, world.remote.tasks.values())).items():
        if times > 1:
            yield f"The call {key} of {task_id} began {times} remote tasks."


def i31_completed_task_has_remote_answers(world: "SimWorld") -> Iterator[str]:
    by_task: dict[str, list[str]] = {}
    for task_id, key in map(_caller, world.remote.tasks.values()):
        by_task.setdefault(task_id, []).append(key)
    for task in world.history.log:
        found = folded(world, task)
        if found is None or found.status.state != TaskState.TASK_STATE_COMPLETED:
            continue
        said = {message.message_id: "".join(part.text for part in message.parts) for message in found.history}
        for key in by_task.get(task.task_id, []):
            if said.get(key) != f"word {key}":
                yield f"{task.task_id} is complete, and the answer of its call {key} is {said.get(key)!r}."


def i32_remote_tasks_of_canceled_task_are_canceled(world: "SimWorld") -> Iterator[str]:
    ids = {task.task_id: task for task in world.history.log}
    for remote in world.remote.tasks.values():
        task_id, key = _caller(remote)
        found = folded(world, ids[task_id]) if task_id in ids else None
        if found is None or found.status.state != TaskState.TASK_STATE_CANCELED:
            continue
        canceled = world.history.log[ids[task_id]][-1].at
        # Accept a message that arrives after the last attempt, from a process that was frozen for as long and then died.
        if not world.remote.is_over(remote) and remote.began < canceled + ARRIVAL_SECONDS:
            yield f"{task_id} is canceled, and the remote task of its call {key} still runs."


SOON_SECONDS = 30.0
"""Time from a look that finds an answer to the turn's next event."""


def i37_callback_ends_wait_soon(world: "SimWorld") -> Iterator[str]:
    """Report a turn that goes on late after a callback; after one that comes too early, it is polled."""
    if world.remote.is_gone or not is_undisturbed(world, *HARMLESS - {Fault.TIME_IS_SHORT, Fault.REDRIVEN}):
        return
    ids = {task.task_id: task for task in world.history.log}
    for at, remote in world.remote.heard_back:
        task_id, key = _caller(remote)
        entries = world.history.log[ids[task_id]]
        told = max(at, remote.ends, world.remote.down[1])
        poll = min(max((told - remote.began) / 2, 5.0), 300.0) if at < told else 0.0
        soon = told + poll + SOON_SECONDS
        is_canceled = any(entry.state == TaskState.TASK_STATE_CANCELED for entry in entries)
        if not is_canceled and not any(entry.at < soon and entry.numbered.key == key for entry in entries):
            yield f"A callback came at {at:.0f} s, and {task_id} did not go on with {key} until {soon:.0f} s."


REMOTE_CHECKS: tuple[Callable[["SimWorld"], Iterator[str]], ...] = (
    i30_each_call_begins_one_remote_task,
    i31_completed_task_has_remote_answers,
    i32_remote_tasks_of_canceled_task_are_canceled,
    i37_callback_ends_wait_soon,
)
