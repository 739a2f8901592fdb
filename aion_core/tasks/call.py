"""Who asks for something of a task, and which tasks they know of."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from aion_core.errors import TaskNotFound
from aion_core.ports import Head, Log, PushConfig, TaskKey, TaskStore
from aion_core.tasks.time_up import TimeUp

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, for which agent, and how."""

    owner: str
    agent: str
    work: set[asyncio.Task[None]] = field(default_factory=set)
    """What the call has set going; it may outlive the answer, so whoever made the call waits for it."""
    time_up: TimeUp = field(default_factory=TimeUp)
    """Until when this process serves the call."""
    idempotency_key: str = ""
    """What the client calls this request, in the place of a messageId in a context (D17)."""
    last_heard: str = ""
    """The SSE id that the client heard last, where it comes back to a stream."""
    extensions: frozenset[str] = frozenset()
    """The URIs of the extensions that the client says it knows; not all of them need be the agent's."""
    caller: str = ""
    """Whose limits the call counts against: its owner outside of any tenant, which a caller may choose."""
    front: str = ""
    """The base URL at which AWS's front was asked, as it says itself; "" where it says none."""
    push: PushConfig | None = None
    """Where the client wants to be told of the task by push notifications, where its message says so."""

    def go(self, work: Coroutine[Any, Any, None]) -> None:
        """Set work going that may outlive the answer; should it fail, the operator is told."""
        task = asyncio.ensure_future(work)
        self.work.add(task)
        task.add_done_callback(self.work.discard)
        task.add_done_callback(_tell_operator)


async def log_of(store: TaskStore, task_id: str, call: Call) -> Log:
    """Return the log of one of the caller's tasks; raises TaskNotFound."""
    log = await store.log(TaskKey(call.owner, task_id))
    # A task of another agent is as unknown as one that never was.
    if log is None or log.head.context.agent != call.agent:
        raise TaskNotFound(task_id)
    return log


async def head_of(store: TaskStore, task_id: str, call: Call) -> Head:
    """Return the head of one of the caller's tasks; raises TaskNotFound."""
    head = await store.head(TaskKey(call.owner, task_id))
    if head is None or head.context.agent != call.agent:
        raise TaskNotFound(task_id)
    return head


def _tell_operator(work: asyncio.Task[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.error("Work in the background ended early; its turn is found by its lease.", exc_info=error)
