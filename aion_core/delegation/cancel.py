"""Cancellation of a call's remote task (A2A 3.1.5), also of a task whose id the caller has never learned."""

from typing import TYPE_CHECKING

from a2a.types import CancelTaskRequest, ListTasksRequest
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError

from aion_core.delegation.client import RemoteClient
from aion_core.delegation.durable_call import is_transient
from aion_core.engine.remote_calls.cancellation import Canceled
from aion_core.engine.remote_calls.records import CallToCancel, RemoteCall

if TYPE_CHECKING:
    from a2a.client.client import ClientCallContext

ARRIVAL_SECONDS = 540
"""Seconds after the caller's cancellation in which its message may still arrive, if the caller's process was frozen."""

LAST_TASKS = 50
"""Number of a context's tasks among which the call's task is searched."""


async def cancel_remote_task(
    client: RemoteClient, to_cancel: CallToCancel, *, now: int, context: "ClientCallContext | None" = None
) -> Canceled:
    """Ask the remote agent to cancel the task of the call. `now` is the current time in milliseconds."""
    call = to_cancel.call
    try:
        task_id = call.remote_task or call.message.task_id or await _find(client, call, context)
        if task_id is None:
            return Canceled.NOT_YET
        if not task_id:
            has_arrived = now - to_cancel.canceled_at > ARRIVAL_SECONDS * 1000
            return Canceled.DONE if has_arrived else Canceled.NOT_YET
        await client.cancel_task(CancelTaskRequest(id=task_id), context=context)
    except (TaskNotCancelableError, TaskNotFoundError):
        return Canceled.DONE
    except A2AError as error:
        return Canceled.NOT_YET if is_transient(error) else Canceled.NEVER
    return Canceled.DONE


async def _find(client: RemoteClient, call: RemoteCall, context: "ClientCallContext | None") -> str | None:
    """Return the id of the task that the call's message has created; "" if the message has not arrived.

    Return None for a remote agent that lists no tasks. Sending the message again would tell its task's id, but might
    begin a second task.
    """
    message = call.message
    try:
        request = ListTasksRequest(context_id=message.context_id, page_size=LAST_TASKS, history_length=LAST_TASKS)
        listed = await client.list_tasks(request, context=context)
    except (A2AError, NotImplementedError) as error:
        if is_transient(error):
            raise
        return None
    ids = {each.message_id: task.id for task in listed.tasks for each in task.history}
    return ids.get(message.message_id, "")
