"""The remote task as ADK's code follows it through the responses of a call: its ids, its state and its metadata."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from aion_core.protocol.types import Message, StreamResponse, Task, TaskStatusUpdateEvent, unwrap

interceptor_reads_task: ContextVar[bool] = ContextVar("aion_adk_interceptor_reads_task", default=False)
"""True in the run of an agent whose author has an interceptor for responses: it may read the whole task."""


def intercepts_responses(agent: Any) -> bool:
    """Return True if an interceptor of the RemoteA2aAgent reads the responses."""
    return any(each.after_request for each in agent._config.request_interceptors or ())


def follow_task() -> Callable[[StreamResponse], Any]:
    """Return a function that gives each response of one call the form in which ADK reads it.

    A message stays alone. Any other response comes with the task as it is by then, without its messages and artifacts: ADK
    doesn't read them there, and would copy everything received so far for each response.
    """
    known = Task()

    def of(response: StreamResponse) -> Any:
        event = unwrap(response)
        if isinstance(event, Message):
            return event
        if isinstance(event, Task):
            known.Clear()
            known.id, known.context_id = event.id, event.context_id
        elif not known.id:
            known.id, known.context_id = event.task_id, event.context_id
        if isinstance(event, Task | TaskStatusUpdateEvent):
            known.status.state = event.status.state
            if event.HasField("metadata"):
                known.metadata.MergeFrom(event.metadata)
        return (event, None) if isinstance(event, Task) else (known, event)

    return of
