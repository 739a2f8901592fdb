"""Context of an A2A call, and functions to read the caller's tasks."""

from msgspec import Struct, field

from aion_core.errors import TaskNotFound
from aion_core.ports import Head, Log, PushConfig, TaskKey, TaskStore
from aion_core.tasks.process import BackgroundTurns, Deadline


class CallContext(Struct, frozen=True):
    """Caller, agent, headers and deadline of one A2A call."""

    owner: str
    agent: str
    background: BackgroundTurns = field(default_factory=BackgroundTurns)
    """Turns that the call has started. The request's middleware waits for them."""
    deadline: Deadline = field(default_factory=Deadline)
    """Deadline of the process that handles the call."""
    idempotency_key: str = ""
    """The client's Idempotency-Key: identifies a repeat of a message without contextId."""
    last_event_id: str = ""
    """The client's Last-Event-ID, if it resumes a stream."""
    extensions: frozenset[str] = frozenset()
    """URIs of the extensions requested by the client; the agent may not support all of them."""
    caller: str = ""
    """The owner without its tenant, for rate limits: callers can choose tenants freely."""
    entrypoint_url: str = ""
    """Base URL of the HTTP entry point that received the call; "" if it is unknown."""
    push: PushConfig | None = None
    """The push notification config of the message, if it has one."""


async def log_of(store: TaskStore, task_id: str, call: CallContext) -> Log:
    """Return the event log of one of the caller's tasks. Raises TaskNotFound."""
    log = await store.log(TaskKey(call.owner, task_id))
    # Report another agent's task as not found, because it must look like a missing task.
    if log is None or log.head.context.agent != call.agent:
        raise TaskNotFound(task_id)
    return log


async def head_of(store: TaskStore, task_id: str, call: CallContext) -> Head:
    """Return the head (state and event number) of one of the caller's tasks. Raises TaskNotFound."""
    head = await store.head(TaskKey(call.owner, task_id))
    if head is None or head.context.agent != call.agent:
        raise TaskNotFound(task_id)
    return head
