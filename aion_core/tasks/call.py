"""Context of an A2A call: its caller, reads of the caller's tasks, and the deadline of the process."""

import asyncio
import logging
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from aion_core.errors import TaskNotFound
from aion_core.ports import Head, Log, PushConfig, TaskKey, TaskStore

DRAIN_SECONDS, CUT_SECONDS = 30.0, 12.0
"""Seconds before the deadline: first a turn is asked to stop at its next step boundary, then it is cancelled."""

LEAST_CUT_SECONDS, LEAST_GRACE_SECONDS = 5.0, 3.0
"""The shortest time for cancellation and for draining, in a process with little time in all."""


class Deadline(Struct, frozen=True):
    """Deadline of the turns of one process, and events to stop them earlier."""

    until: datetime | None = None
    """End of the process, None if it is unknown."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to suspend running turns before the deadline."""
    grace: float | None = None
    """Seconds after `now` for a turn to reach a step boundary; None for the time computed by `margins`."""
    leave: asyncio.Future[None] | None = None
    """Completed before the process stops: streams end, and blocking sends return the current task. May be None."""


def margins(deadline: Deadline, now: datetime) -> tuple[float, float]:
    """Return two margins in seconds before the deadline: to drain a turn to a step boundary, and to cancel it.

    With little time in all, the agent gets most of it. The turn is still cancelled before the runtime stops the
    process; otherwise it would have to wait for the end of its lease.
    """
    if deadline.until is None:
        return DRAIN_SECONDS, CUT_SECONDS
    left = (deadline.until - now).total_seconds()
    cut = min(CUT_SECONDS, max(LEAST_CUT_SECONDS, left / 8))
    return min(DRAIN_SECONDS, max(cut + LEAST_GRACE_SECONDS, left / 4)), cut


logger = logging.getLogger(__name__)


class CallContext(Struct, frozen=True):
    """Caller, agent, headers and deadline of one A2A call."""

    owner: str
    agent: str
    background: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks of the call that may outlive its response; the creator of the call waits for them."""
    deadline: Deadline = field(default_factory=Deadline)
    """Deadline of the process that handles the call."""
    idempotency_key: str = ""
    """The client's Idempotency-Key: identifies a repeat of a message without contextId."""
    last_event_id: str = ""
    """The client's Last-Event-ID, if it resumes a stream."""
    extensions: frozenset[str] = frozenset()
    """URIs of the client's extensions; the agent may not have all of them."""
    caller: str = ""
    """The owner without its tenant, for rate limits: callers can choose tenants freely."""
    entrypoint_url: str = ""
    """Base URL of the HTTP entry point that received the call; "" if it is unknown."""
    push: PushConfig | None = None
    """The push notification config of the message, if it has one."""

    def start_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a background task that may outlive the response, and log its failure."""
        task = asyncio.ensure_future(coroutine)
        self.background.add(task)
        task.add_done_callback(self._end_background)

    def _end_background(self, task: asyncio.Task[None]) -> None:
        self.background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "A background task failed; the lease of its turn runs out, and the turn runs again.", exc_info=error
            )


async def log_of(store: TaskStore, task_id: str, call: CallContext) -> Log:
    """Return the event log of one of the caller's tasks. Raises TaskNotFound."""
    log = await store.log(TaskKey(call.owner, task_id))
    # The task of another agent must look like a missing one.
    if log is None or log.head.context.agent != call.agent:
        raise TaskNotFound(task_id)
    return log


async def head_of(store: TaskStore, task_id: str, call: CallContext) -> Head:
    """Return the head (state and event number) of one of the caller's tasks. Raises TaskNotFound."""
    head = await store.head(TaskKey(call.owner, task_id))
    if head is None or head.context.agent != call.agent:
        raise TaskNotFound(task_id)
    return head
