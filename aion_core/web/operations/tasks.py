"""GetTask, ListTasks and CancelTask (A2A 3.1.3 to 3.1.5)."""

from typing import Any

from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.task import apply_history_length

from aion_core.errors import InvalidMessage, TaskNotFound
from aion_core.protocol.ids import is_id
from aion_core.protocol.message_json import to_json
from aion_core.protocol.message_rules import check_history_length
from aion_core.protocol.types import ListTasksRequest, Task
from aion_core.web.operations.operation import Body, Doc, HttpRoute, Operation, V03Form
from aion_core.web.operations.services import AgentServices
from aion_core.web.request.call_context import call_of


def require_task_id(task_id: str) -> None:
    """Raise InvalidMessage if the task id is missing, and TaskNotFound if it is not a valid id."""
    if not task_id:
        raise InvalidMessage("id is missing: it is the task's id, from the answer to the message.", field="id")
    if not is_id(task_id):
        raise TaskNotFound(task_id)


async def _get(services: AgentServices, request: pb.GetTaskRequest, context: ServerCallContext) -> Task:
    require_task_id(request.id)
    check_history_length(request.history_length, "historyLength")
    return apply_history_length(await services.tasks.get(call_of(context), request.id), request)


GET_TASK = Operation(
    "GetTask",
    pb.GetTaskRequest,
    _get,
    response=Task,
    routes=(HttpRoute("GET", "/tasks/{id}"),),
    v03=V03Form("tasks/get", routes=(HttpRoute("GET", "/v1/tasks/{id}"),)),
    doc=Doc("Get a task.", "tasks", result="The task."),
)


async def _list(services: AgentServices, request: ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
    return await services.lister.list_tasks(call_of(context), request)


def _write_page(page: pb.ListTasksResponse, request: ListTasksRequest) -> Any:
    listed: dict[str, Any] = {"nextPageToken": "", "pageSize": 0, "totalSize": 0, **to_json(page)}
    listed["tasks"] = listed.get("tasks", [])
    if request.include_artifacts:
        # Add the field `artifacts` even if it is empty, because the client requests artifacts (A2A 3.1.4).
        for task in listed["tasks"]:
            task.setdefault("artifacts", [])
    return listed


LIST_TASKS = Operation(
    "ListTasks",
    ListTasksRequest,
    _list,
    response=pb.ListTasksResponse,
    write=_write_page,
    routes=(HttpRoute("GET", "/tasks"),),
    v03=V03Form(routes=(HttpRoute("GET", "/v1/tasks"),)),
    doc=Doc(
        "List the caller's tasks, latest status first.",
        "tasks",
        result='A page of tasks; nextPageToken is "" on the last page.',
    ),
)


async def _cancel(services: AgentServices, request: pb.CancelTaskRequest, context: ServerCallContext) -> Task:
    require_task_id(request.id)
    return await services.tasks.cancel(call_of(context), request.id)


CANCEL_TASK = Operation(
    "CancelTask",
    pb.CancelTaskRequest,
    _cancel,
    response=Task,
    routes=(HttpRoute("POST", "/tasks/{id}:cancel", Body.OPTIONAL),),
    v03=V03Form("tasks/cancel", routes=(HttpRoute("POST", "/v1/tasks/{id}:cancel"),)),
    doc=Doc("Cancel a task before its end.", "tasks", result="The canceled task."),
)
