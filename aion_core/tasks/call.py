"""Who asks for something of a task, which tasks they know of, and until when this process serves them."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aion_core.errors import TaskNotFound
from aion_core.ports import Head, Log, PushConfig, TaskKey, TaskStore

DRAIN_SECONDS, CUT_SECONDS = 30.0, 12.0
"""How long before its time is up a turn is asked to stop at a step boundary, and how long before it is cut."""

LEAST_CUT_SECONDS, LEAST_GRACE_SECONDS = 5.0, 3.0
"""How short the margins may be where there is little time in all."""


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Until when a turn may run in this process."""

    until: datetime | None = None
    """When the process ends, where that is known."""
    now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the turn is to be handed on at once."""
    grace: float | None = None
    """Seconds after `now` for a turn to reach a step boundary; None leaves that to the margins."""
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when streams end and blocking sends are answered with the task as it stands: the process is about to stop."""


def margins(time_up: TimeUp, now: datetime) -> tuple[float, float]:
    """Return how long before its time is up a turn is drained, and how long before it is cut.

    Where there is little time in all, most of it is for the agent; yet the cut comes before the runtime's own, which
    would leave the turn to its lease.
    """
    if time_up.until is None:
        return DRAIN_SECONDS, CUT_SECONDS
    left = (time_up.until - now).total_seconds()
    cut = min(CUT_SECONDS, max(LEAST_CUT_SECONDS, left / 8))
    return min(DRAIN_SECONDS, max(cut + LEAST_GRACE_SECONDS, left / 4)), cut


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
    last_event_id: str = ""
    """The SSE id that the client heard last, where it comes back to a stream."""
    extensions: frozenset[str] = frozenset()
    """The URIs of the extensions that the client says it knows; not all of them need be the agent's."""
    caller: str = ""
    """Whose limits the call counts against: its owner outside of any tenant, which a caller may choose."""
    entrypoint_url: str = ""
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
