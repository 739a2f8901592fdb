"""Conversions of the operations on messages and tasks, from and to v0.3."""

from collections.abc import Callable
from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.types import a2a_pb2 as pb

from aion_core.protocol.types import ListTasksRequest, Message, Task
from aion_core.web.request.body import StrictRequest
from aion_core.web.request.params import read_params, read_query

_CANCELED = {"TASK_STATE_CANCELLED": "TASK_STATE_CANCELED"}
"""v1.0's spelling of the canceled state, by the spelling in v0.3's proto file."""


def write_answer(answer: Task | Message) -> v03.Task | v03.Message:
    """Convert the answer to a message, a task or a message, to v0.3's types."""
    return conversions.to_compat_task(answer) if isinstance(answer, Task) else conversions.to_compat_message(answer)


async def read_subscribe(request: StrictRequest) -> pb.SubscribeToTaskRequest:
    """Return the SubscribeToTask request of an HTTP+JSON request."""
    return pb.SubscribeToTaskRequest(id=request.path_params["id"])


async def read_get(request: StrictRequest) -> pb.GetTaskRequest:
    """Return the GetTask request of an HTTP+JSON request."""
    query = read_query(request.query_params, pb.GetTaskRequest)
    params = read_params({**query, **request.path_params}, pb.GetTaskRequest)
    if params.history_length == 0:
        # Remove a history length of 0, because it means no limit in v0.3.
        params.ClearField("history_length")
    return params


async def read_list(request: StrictRequest) -> ListTasksRequest:
    """Return the ListTasks request of an HTTP+JSON request."""
    # Accept v1.0's parameters, also with v0.3's spelling of a state, because the v0.3 specification defines no
    # parameters for this path.
    params = read_query(request.query_params, ListTasksRequest)
    if "status" in params:
        params["status"] = _CANCELED.get(params["status"], params["status"])
    return read_params(params, ListTasksRequest)


def write_page(page: pb.ListTasksResponse, write: Callable[[Task], Any] = conversions.to_compat_task) -> Any:
    """Return the JSON of a page of tasks, each converted by `write`."""
    return {
        "tasks": [write(task) for task in page.tasks],
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


async def read_cancel(request: StrictRequest) -> pb.CancelTaskRequest:
    """Return the CancelTask request of an HTTP+JSON request."""
    # Use the id in the path, because the body has at most the task's resource name. Parse the body only to refuse
    # invalid JSON.
    await request.json_object(optional=True)
    return pb.CancelTaskRequest(id=request.path_params["id"])
