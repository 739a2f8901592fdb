"""GetTask, ListTasks and CancelTask (A2A 3.1.3 to 3.1.5)."""

from collections.abc import Callable
from typing import Any

from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.task import apply_history_length

from aion_core.protocol.message_rules import check_history_length
from aion_core.protocol.types import ListTasksRequest, Task, to_json
from aion_core.web.operations.operation import (
    AgentServices,
    Body,
    Doc,
    HttpRoute,
    Operation,
    V03Form,
    require_task_id,
)
from aion_core.web.request_body import StrictRequest, read_params, read_query
from aion_core.web.request_context import call_of
from aion_core.web.v03_proto import task_json

# ── GetTask ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _get(services: AgentServices, request: pb.GetTaskRequest, context: ServerCallContext) -> Task:
    require_task_id(request.id)
    check_history_length(request.history_length, "historyLength")
    return apply_history_length(await services.tasks.get(call_of(context), request.id), request)


async def _read_get_v03(request: StrictRequest) -> pb.GetTaskRequest:
    query = read_query(request.query_params, pb.GetTaskRequest)
    params = read_params({**query, **request.path_params}, pb.GetTaskRequest)
    if params.history_length == 0:
        # In v0.3, 0 means no limit.
        params.ClearField("history_length")
    return params


GET_TASK = Operation(
    "GetTask",
    pb.GetTaskRequest,
    _get,
    response=Task,
    routes=(HttpRoute("GET", "/tasks/{id}"),),
    v03=V03Form(
        "tasks/get",
        v03.GetTaskRequest,
        conversions.to_core_get_task_request,
        conversions.to_compat_task,
        routes=(HttpRoute("GET", "/v1/tasks/{id}"),),
        read_http=_read_get_v03,
        write_http=task_json,
    ),
    doc=Doc("Get a task.", "tasks", result="The task."),
)

# ── ListTasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_CANCELED = {"TASK_STATE_CANCELLED": "TASK_STATE_CANCELED"}
"""v1.0's spelling of the canceled state, by the spelling in v0.3's proto file."""


async def _list(services: AgentServices, request: ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
    return await services.lister.list_tasks(call_of(context), request)


def _write_page(page: pb.ListTasksResponse, request: ListTasksRequest) -> Any:
    listed: dict[str, Any] = {"nextPageToken": "", "pageSize": 0, "totalSize": 0, **to_json(page)}
    listed["tasks"] = listed.get("tasks", [])
    if request.include_artifacts:
        # A2A 3.1.4: the field is present, and possibly empty, if the client asks for it.
        for task in listed["tasks"]:
            task.setdefault("artifacts", [])
    return listed


async def _read_list_v03(request: StrictRequest) -> ListTasksRequest:
    # The v0.3 specification names no parameters for this path: accept v1.0's. A state may have its v0.3 spelling.
    params = read_query(request.query_params, ListTasksRequest)
    if "status" in params:
        params["status"] = _CANCELED.get(params["status"], params["status"])
    return read_params(params, ListTasksRequest)


def _write_page_v03(page: pb.ListTasksResponse, write: Callable[[Task], Any] = conversions.to_compat_task) -> Any:
    return {
        "tasks": [write(task) for task in page.tasks],
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


LIST_TASKS = Operation(
    "ListTasks",
    ListTasksRequest,
    _list,
    response=pb.ListTasksResponse,
    write=_write_page,
    routes=(HttpRoute("GET", "/tasks"),),
    v03=V03Form(
        routes=(HttpRoute("GET", "/v1/tasks"),),
        read_http=_read_list_v03,
        write=_write_page_v03,
        write_http=lambda page: _write_page_v03(page, task_json),
    ),
    doc=Doc(
        "List the caller's tasks, latest status first.",
        "tasks",
        result='A page of tasks; nextPageToken is "" on the last page.',
    ),
)

# ── CancelTask ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _cancel(services: AgentServices, request: pb.CancelTaskRequest, context: ServerCallContext) -> Task:
    require_task_id(request.id)
    return await services.tasks.cancel(call_of(context), request.id)


async def _read_cancel_v03(request: StrictRequest) -> pb.CancelTaskRequest:
    # The body contains at most the task's resource name, so use the id in the path. Parse it to refuse invalid JSON.
    await request.json_object(optional=True)
    return pb.CancelTaskRequest(id=request.path_params["id"])


CANCEL_TASK = Operation(
    "CancelTask",
    pb.CancelTaskRequest,
    _cancel,
    response=Task,
    routes=(HttpRoute("POST", "/tasks/{id}:cancel", Body.OPTIONAL),),
    v03=V03Form(
        "tasks/cancel",
        v03.CancelTaskRequest,
        conversions.to_core_cancel_task_request,
        conversions.to_compat_task,
        routes=(HttpRoute("POST", "/v1/tasks/{id}:cancel"),),
        read_http=_read_cancel_v03,
        write_http=task_json,
    ),
    doc=Doc("Cancel a task before its end.", "tasks", result="The canceled task."),
)
