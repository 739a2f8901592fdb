"""Count of a caller's open tasks, in one item. Pure."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

from aion_core.engine.limits.limits import OpenTask
from aion_core.engine.records import Head
from aion_core.engine.task import states
from aion_core.table.conditions import Exists, ShorterThan
from aion_core.table.item import Item
from aion_core.table.keys import TaskKey
from aion_core.table.stamp import stamp
from aion_core.table.times import milliseconds, moment
from aion_core.table.writes import Change

BEING_CREATED = timedelta(minutes=1)
"""Longest time between counting a task and creating it. Afterwards, a task that does not exist is no longer counted."""


def counted(caller: str, task: OpenTask, *, most: int, expires: int) -> Change:
    """Return the change to count an open task of the caller. It fails if `most` tasks are counted already."""
    return Change(
        values=stamp(caller, expires),
        add_members={"tasks": _members(caller, [task])},
        only_if=ShorterThan("tasks", most),
    )


def forgotten(caller: str, tasks: Iterable[OpenTask]) -> Change:
    """Return the change to remove these tasks from the caller's count."""
    return Change(remove_members={"tasks": _members(caller, tasks)}, only_if=Exists())


def open_tasks(caller: str, item: Item | None) -> list[OpenTask]:
    """Return the open tasks counted in the caller's item; empty if the item does not exist."""
    members = ((*json.loads(member), caller)[:3] for member in (item or {}).get("tasks", ()))
    return [OpenTask(TaskKey(task_owner, task_id), moment(since)) for since, task_id, task_owner in members]


def has_ended(task: OpenTask, head: Head | None, now: datetime) -> bool:
    """Return True if a counted task has ended, or was counted over a minute ago and does not exist (`head` is None)."""
    if head is None:
        return now - task.since > BEING_CREATED
    return head.state in states.TERMINAL


def owner_named_in(member: str) -> str:
    """Return the owner in a member of `tasks`; "" if it is the caller, whose item this is."""
    return str((*json.loads(member), "")[2])


def _members(caller: str, tasks: Iterable[OpenTask]) -> frozenset[str]:
    """Return the tasks as JSON arrays of time, task id and, if it is not the caller, the task's owner."""
    fields = (
        [milliseconds(task.since), task.key.task_id, *([task.key.owner] if task.key.owner != caller else [])]
        for task in tasks
    )
    return frozenset(json.dumps(each, separators=(",", ":")) for each in fields)
