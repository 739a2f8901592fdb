"""Wake-up messages, their JSON bodies, and the queues that carry them."""

import json
from typing import Any, Protocol

from msgspec import Struct

from aion_core.errors import UnreadableWakeUp
from aion_core.table.keys import ContextKey, TaskKey

VERSION = 1

LONGEST_DELAY = 900.0
"""Longest delay of an SQS message, in seconds."""

LONGEST_TRACESTATE = 512
"""Most characters of a `tracestate` in a message. W3C requires a system to pass on at least as many."""


def limited(delay: float) -> float:
    """Return the delay in seconds, limited to the range from 0 to LONGEST_DELAY."""
    return min(max(delay, 0.0), LONGEST_DELAY)


class WakeUp(Struct, frozen=True):
    """Wake-up message for a context. It may be lost, late, repeated or unnecessary."""

    context: ContextKey
    fence: int = 0
    """Fence of the lease that may have expired when the message arrives; 0 if the message is to start a queued turn."""
    task_id: str = ""
    """Canceled task, of which the agent is told and whose remote calls are to be canceled; "" if the message is about a
    turn."""
    look: int = 0
    """Time of the look at a suspended turn for which this message is, in milliseconds; 0 for any other message."""
    since: int = 0
    """Time since which this turn has been waiting for remote agents, in milliseconds.

    0 if it waits for a time only, or if its remote agents call back.
    """


class WorkQueue(Protocol):
    """Queue of wake-up messages for the function that runs turns. The work itself is in the table."""

    async def enqueue(self, wake_up: WakeUp, *, delay: float = 0.0, urgent: bool = False) -> None:
        """Enqueue the message, delayed by `limited(delay)` seconds. Raises StoreUnavailable.

        An urgent message may overtake those that wait. SQS promises no order, so it may also not.
        """
        ...

    async def backlog(self) -> int:
        """Return the approximate number of messages that wait for a receiver: neither delayed nor received.

        Raises StoreUnavailable.
        """
        ...

    def enqueue_from_thread(self, wake_up: WakeUp, *, delay: float = 0.0) -> None:
        """Enqueue the message in the calling thread: the event loop may be blocked by an agent."""
        ...


class PushWakeUp(Struct, frozen=True):
    """Wake-up message for the push delivery of a task. It may be lost, late, repeated or unnecessary."""

    task: TaskKey
    generation: int = 0
    """Number of the event to deliver; 0 for a retry or a new config."""
    traceparent: str = ""
    """Trace (W3C) of the request or turn that enqueued the message; "" if it has none."""
    tracestate: str = ""
    """The trace's entries of tracing systems (W3C); a message's body omits more than LONGEST_TRACESTATE characters."""


class PushQueue(Protocol):
    """Queue of wake-up messages for the function that posts notifications. The work itself is in the table."""

    async def enqueue(self, wake_up: PushWakeUp, *, delay: float = 0.0) -> None:
        """Enqueue the message, delayed by `limited(delay)` seconds. Raises StoreUnavailable."""
        ...

    async def backlog(self) -> int:
        """Return the approximate number of messages that wait for a receiver. See `WorkQueue.backlog`."""
        ...


def body_of(wake_up: WakeUp) -> str:
    """Return the JSON body of a context's wake-up message."""
    context = wake_up.context
    ids = {"owner": context.owner, "agent": context.agent, "context_id": context.context_id, "fence": wake_up.fence}
    task = {"task_id": wake_up.task_id} if wake_up.task_id else {}
    look = {name: value for name in ("look", "since") if (value := getattr(wake_up, name))}
    # Use ASCII, because SQS refuses some characters of ids.
    return json.dumps({"v": VERSION, **ids, **task, **look}, separators=(",", ":"))


def push_body_of(wake_up: PushWakeUp) -> str:
    """Return the JSON body of a push delivery's wake-up message."""
    ids = {"owner": wake_up.task.owner, "task_id": wake_up.task.task_id, "generation": wake_up.generation}
    trace = {"traceparent": wake_up.traceparent} if wake_up.traceparent else {}
    if trace and 0 < len(wake_up.tracestate) <= LONGEST_TRACESTATE:
        trace["tracestate"] = wake_up.tracestate
    return json.dumps({"v": VERSION, **ids, **trace}, separators=(",", ":"))


def wake_up_of(body: str) -> WakeUp:
    """Parse a context's wake-up message from its JSON body. Raises UnreadableWakeUp."""
    match fields := _fields(body):
        case {"owner": str(owner), "agent": str(agent), "context_id": str(context_id), "fence": int(fence)} if (
            owner and agent and context_id
        ):
            look, since = (each if isinstance(each := fields.get(name), int) else 0 for name in ("look", "since"))
            return WakeUp(
                ContextKey(owner, agent, context_id), fence, str(fields.get("task_id", "")), look=look, since=since
            )
    raise UnreadableWakeUp(
        "The wake-up message must have the texts `owner`, `agent` and `context_id`, and the number `fence`."
    )


def push_wake_up_of(body: str) -> PushWakeUp:
    """Parse a push delivery's wake-up message from its JSON body. Raises UnreadableWakeUp."""
    match fields := _fields(body):
        case {"owner": str(owner), "task_id": str(task_id), "generation": int(generation)} if owner and task_id:
            trace = {name: str(fields.get(name, "")) for name in ("traceparent", "tracestate")}
            return PushWakeUp(TaskKey(owner, task_id), generation, **trace)
    raise UnreadableWakeUp(
        "The wake-up message must have the texts `owner` and `task_id`, and the number `generation`."
    )


def _fields(body: str) -> dict[str, Any]:
    """Parse a message's JSON body into its fields. Raises UnreadableWakeUp if it has another version."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise UnreadableWakeUp("The message is not JSON: it is not from aion.") from None
    if not isinstance(fields, dict) or "v" not in fields:
        raise UnreadableWakeUp("The message has no version: it is not from aion.")
    if fields["v"] != VERSION:
        raise UnreadableWakeUp(
            f"The message has version {fields['v']!r}, and this function reads {VERSION}. Deploy the sender's version of aion."
        )
    return fields
