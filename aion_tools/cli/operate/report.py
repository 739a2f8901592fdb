"""Everything stored about a task: its state, events, context, timers and webhooks."""

import asyncio
import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from aion_core.engine.delivery.records import Delivery
from aion_core.engine.listing.task_list import TaskFilter
from aion_core.engine.outcomes import LeaseHeld, TurnSuspended
from aion_core.engine.records import Head, Numbered, Turn, Wait
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.task.projection import fold
from aion_core.engine.task.states import INTERRUPTED, state_name
from aion_core.errors import StoreError
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Event, Message, Task, TaskState, TaskStatusUpdateEvent, stream_response
from aion_core.table.keys import TaskKey
from aion_core.table.times import milliseconds, moment
from aion_tools.cli.documents import time_text
from aion_tools.cli.error_text import error_text

if TYPE_CHECKING:
    from aion_tools.operator.bootstrap import Operator
    from aion_tools.operator.inspection import ContextStatus


@dataclass(frozen=True)
class TaskReport:
    """Report of everything that is stored about a task, except secrets."""

    head: Head
    events: tuple[Numbered, ...]
    """The task's readable events."""
    unread: tuple[str, ...]
    """Sentences about events that cannot be read."""
    context: "ContextStatus | None"
    undelivered: list[int]
    deliveries: tuple[Delivery, ...]
    calls: tuple[RemoteCall, ...]
    """The task's calls of remote agents."""
    now: datetime
    content: bool

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        head = self.head
        return {
            "task": head.key.task_id,
            "owner": head.key.owner,
            "agent": head.context.agent,
            "context": head.context.context_id,
            "state": state_name(head.state),
            "since": head.timestamp,
            "interrupts": self._interrupts(),
            "generation": head.generation,
            "fence": head.fence,
            "events": [self._event(each) for each in self.events],
            "contextState": self._context(),
            "undeliveredEvents": self.undelivered,
            "webhooks": [delivery_document(each) for each in self.deliveries],
            "remoteCalls": [
                {"agent": each.remote, "task": each.remote_task or None, "state": each.state.value}
                for each in self.calls
            ],
            "notRead": list(self.unread),
        }

    def call_facts(self) -> list[str]:
        """Return a sentence for each remote agent that the task has called."""
        return [CALL_FACTS[each.state].format(each.remote, _named_task(each)) for each in self.calls]

    def _interrupts(self) -> list[str]:
        """Return the ids of the interrupts for whose answer the task waits; empty if they have no ids."""
        from aion_core.engine.resume_input import interrupt_ids

        # An unreadable event may contain the question.
        is_known = self.events and not self.unread and self.head.state in INTERRUPTED
        return interrupt_ids(fold(self.events)) if is_known else []

    def _context(self) -> dict[str, Any]:
        if self.context is None or self.context.record.expired:
            return {"status": describe_context(None, self.now)[0]}
        record = self.context.record
        return {
            "status": describe_context(self.context, self.now)[0],
            "fence": record.fence,
            "holder": record.holder,
            "leaseUntil": record.held_until(),
            "running": _turn(record.running) if record.running else None,
            "waitsFor": _wait(record.wait, record.until) if record.wait else None,
            "waiting": [_turn(turn) for turn in record.waiting],
            "interrupted": record.interrupted,
            "timer": self.context.due_at,
        }

    def _event(self, event: Numbered) -> dict[str, Any]:
        fields = {"number": event.generation, **_kind(event.event)}
        return {**fields, "content": to_json(stream_response(event.event))} if self.content else fields


CALL_FACTS = {
    CallState.OPEN: "The agent {0} is working for it{1}.",
    CallState.ASKS: "The agent {0} is waiting for an answer{1}.",
    CallState.ENDED: "The agent {0} has answered{1}.",
    CallState.CANCELING: "The agent {0} has not been told of the cancellation yet{1}.",
    CallState.CANCELED: "The agent {0} was told of the cancellation{1}.",
    CallState.UNREACHED: "The agent {0} could not be told of the cancellation{1}.",
}
"""Sentence about a remote agent that a task has called, by the state of the call."""


def _named_task(call: RemoteCall) -> str:
    task_id = call.remote_task or call.message.task_id
    return f" (its task {task_id})" if task_id else ""


def describe_context(seen: "ContextStatus | None", now: datetime) -> tuple[str, bool]:
    """Return a sentence about the context's state, and True if a wake-up message has a turn to start or check. Pure."""
    from aion_core.engine.context.record import turn_to_begin

    if seen is None or seen.record.expired:
        return "The context has expired or was deleted. Nothing to do.", False
    record = seen.record
    turn = turn_to_begin(record, milliseconds(now))
    if isinstance(turn, LeaseHeld):
        return f"Task {record.active_task} is running and its lease is valid. Nothing to do.", False
    if isinstance(turn, TurnSuspended):
        return _describe_wait(turn, now)
    if turn is not None and record.running is not None:
        return (
            f"The worker of task {turn.task_id} lost its lease (attempt {turn.tries}). A wake-up message restarts it.",
            True,
        )
    if turn is not None:
        return f"A turn of task {turn.task_id} is queued and not started. A wake-up message starts it.", True
    if record.interrupted is not None:
        behind = f"; {len(record.waiting)} turns are queued behind it" if record.waiting else ""
        # Return True if turns are queued, because a wake-up message lets a worker check whether the interrupted task
        # still exists.
        return f"Task {record.interrupted} is waiting for input from its client{behind}.", bool(record.waiting)
    return "No turn is running or queued. Nothing to do.", False


def wait_text(wait: Wait) -> str:
    """Return a clause about what a turn waits for, and since when."""
    agents = dict.fromkeys(f"the agent {call.remote} (its task {call.remote_task})" for call in wait.calls)
    until = f"until {time_text(moment(wait.until))}"
    what = f"for {' and '.join(agents)}, at the latest {until}" if agents else until
    return f"has been waiting since {time_text(moment(wait.since))} {what}"


def _describe_wait(suspended: TurnSuspended, now: datetime) -> tuple[str, bool]:
    sentence = f"Task {suspended.turn.task_id} {wait_text(suspended.wait)}."
    if suspended.look_at < now:
        return f"{sentence} A check was due at {time_text(suspended.look_at)}. A wake-up message starts it.", True
    return f"{sentence} It will be checked at {time_text(suspended.look_at)}. Nothing to do.", False


async def task_report(operator: "Operator", head: Head, *, content: bool) -> TaskReport:
    """Read all stored data of a task into a report. Raises StoreError if the table cannot be read.

    If an event or its object in the bucket cannot be read, the report contains the other events.
    """
    try:
        log = await operator.tasks.every_event(head.key)
    except StoreError:
        log = None
    events, errors = (log.events, {}) if log is not None else await operator.inspection.readable_events(head)
    return TaskReport(
        head,
        tuple(events),
        tuple(_unread(errors)),
        await operator.inspection.context(head.context),
        await operator.inspection.events_with_timers(head.key),
        tuple(await operator.push_configs.deliveries(head.key)) if operator.push_configs is not None else (),
        tuple(await operator.tasks.remote_calls.of_task(head.key)) if head.calls else (),
        operator.clock.now(),
        content,
    )


def _unread(errors: Mapping[int, StoreError]) -> Iterator[str]:
    """Yield a sentence for each reason for which events, given by their numbers, cannot be read."""
    texts = {number: error_text(error) for number, error in errors.items()}
    for text in dict.fromkeys(texts.values()):
        numbers = [number for number in texts if texts[number] == text]
        yield f"{_events(numbers)} of the log: {text}"


def _events(numbers: list[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if first == last:
        return f"Event {first}"
    is_range = last - first + 1 == len(numbers)
    return f"Events {first} to {last}" if is_range else f"Events {', '.join(map(str, numbers))}"


async def list_heads(
    operator: "Operator", owner: str, agent: str, context_id: str, state: str | None, limit: int
) -> tuple[list[Head], int]:
    """Return the heads (state and last event number) of at most `limit` tasks, and the number of all matching tasks.

    They are sorted by time, newest first. Without an owner the function scans the whole table.
    """
    wanted = _state(state) if state else None
    if not owner:
        newest, number = list[tuple[datetime, int, Head]](), 0
        async for head in operator.inspection.tasks():
            if wanted in (None, head.state) and agent in ("", head.context.agent):
                number += 1
                heapq.heappush(newest, (head.timestamp, number, head))
                if number > limit:
                    heapq.heappop(newest)
        return [head for *_, head in sorted(newest, reverse=True)], number
    tasks = TaskFilter(owner, agent, context_id or None, wanted)
    listed = await operator.task_list.page(tasks, after=None, limit=limit)
    entries = [*listed.found]
    while listed.stopped_at is not None:
        listed = await operator.task_list.page(tasks, after=listed.stopped_at, limit=limit - len(entries))
        entries += listed.found
    number = len(entries) if len(entries) < limit else await operator.task_list.count(tasks)
    # The operator's executor limits the number of requests at once.
    heads = await asyncio.gather(*(operator.tasks.head(TaskKey(owner, entry.task_id)) for entry in entries))
    return [head for head in heads if head is not None], number


def _state(name: str) -> TaskState:
    """Return the task state for its name in A2A v0.3's spelling, such as `input-required`."""
    return cast("TaskState", TaskState.Value(f"TASK_STATE_{name.upper().replace('-', '_')}"))


def _kind(event: Event) -> dict[str, Any]:
    match event:
        case Task():
            return {"kind": f"task, {state_name(event.status.state)}", "at": _at(event)}
        case TaskStatusUpdateEvent():
            message = ", with a message" if event.status.HasField("message") else ""
            return {"kind": f"status, {state_name(event.status.state)}{message}", "at": _at(event)}
        case Message():
            return {"kind": "message"}
        case _:
            return {"kind": f"artifact {event.artifact.artifact_id}, {len(event.artifact.parts)} parts"}


def _at(event: Task | TaskStatusUpdateEvent) -> str:
    at = event.status.timestamp
    return f"{at.ToDatetime():%Y-%m-%d %H:%M:%S}" if at.seconds else ""


def _wait(wait: Wait, look_at: int) -> dict[str, Any]:
    return {
        "since": moment(wait.since),
        "until": moment(wait.until),
        "nextLook": moment(look_at),
        "calls": [{"agent": call.remote, "task": call.remote_task} for call in wait.calls],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {"turn": turn.id, "task": turn.task_id, "attempts": turn.tries, "handoffs": turn.handoffs}


def delivery_document(delivery: Delivery) -> dict[str, Any]:
    """Return the state of a push config's notifications as a JSON object, without URLs and credentials."""
    return {
        "config": delivery.config_id,
        "state": delivery_state(delivery),
        "createdAfter": delivery.after,
        "deliveredThrough": delivery.cursor,
        "attempts": delivery.tries,
        "nextAttempt": _next_attempt(delivery),
        "failure": delivery.failure,
        "deadLetters": delivery.dead,
        "deadFrom": delivery.dead_from if delivery.dead else None,
        "disabled": delivery.disabled,
    }


def delivery_state(delivery: Delivery) -> str:
    """Return a push config's state in a few words; `ok` without failures."""
    if delivery.disabled:
        return "disabled"
    if delivery.dead:
        return f"dead letters: {delivery.dead}"
    if delivery.tries:
        return f"failing, {delivery.tries} {'attempt' if delivery.tries == 1 else 'attempts'}"
    return "ok"


def _next_attempt(delivery: Delivery) -> datetime | str:
    if delivery.disabled:
        return "only by `aion push redrive`"
    if delivery.claimed_until is not None:
        return "in progress"
    return delivery.next_at or delivery.due_at or "with the next event"
