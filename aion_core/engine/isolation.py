"""Isolation of tasks: another caller's task, and another agent's, looks like a task that does not exist.

This is the only place that decides so. A caller's key holds its owner, so no read reaches another owner's task; the
agent is compared here.
"""

from aion_core.engine.call import CallContext
from aion_core.engine.records import Head, Log
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.errors import TaskNotFound
from aion_core.table.keys import TaskKey


async def visible_log(store: StoredTasks, task_id: str, call: CallContext) -> Log:
    """Return the event log of one of the caller's tasks. Raises TaskNotFound."""
    log = await store.log(TaskKey(call.owner, task_id))
    if log is None or not is_visible(log.head, call.owner, call.agent):
        raise TaskNotFound(task_id)
    return log


async def visible_head(store: StoredTasks, task_id: str, call: CallContext) -> Head:
    """Return the head (state and event number) of one of the caller's tasks. Raises TaskNotFound."""
    head = await store.head(TaskKey(call.owner, task_id))
    if head is None or not is_visible(head, call.owner, call.agent):
        raise TaskNotFound(task_id)
    return head


def is_visible(head: Head, owner: str, agent: str) -> bool:
    """Return True if the task with this head belongs to this caller and agent: nobody else may learn that it exists."""
    return (head.key.owner, head.context.agent) == (owner, agent)
