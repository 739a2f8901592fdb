"""A task as an operator sees it: its head, its events, its context, what is due, and how far its webhooks have come."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.json_format import MessageToDict

from aion_core.cli.wake_ups import of_context
from aion_core.errors import StoreCorrupt
from aion_core.ports import Delivery, Head, Numbered, TaskFilter, TaskKey, Turn
from aion_core.protocol.types import Event, Message, Task, TaskState, TaskStatusUpdateEvent, stream_response
from aion_core.tasks.lifecycle import state_name

if TYPE_CHECKING:
    from aion_core.bootstrap.operator import Operator
    from aion_core.stores.inspection import ContextStatus

UNREADABLE = "The log cannot be read: it has a gap, or what it holds in the bucket is gone."


@dataclass(frozen=True)
class Seen:
    """All that is known of a task, but for what is secret."""

    head: Head
    events: tuple[Numbered, ...] | None
    """None where they cannot be read."""
    context: "ContextStatus | None"
    events_with_timers: list[int]
    deliveries: tuple[Delivery, ...]
    now: datetime
    content: bool

    def document(self) -> dict[str, Any]:
        """Return it for a program."""
        head = self.head
        return {
            "task": head.key.task_id,
            "owner": head.key.owner,
            "agent": head.context.agent,
            "context": head.context.context_id,
            "state": state_name(head.state),
            "since": head.timestamp.isoformat(),
            "generation": head.generation,
            "fence": head.fence,
            "events": [self._event(each) for each in self.events] if self.events is not None else None,
            "atWork": self._context(),
            "toBePosted": self.events_with_timers,
            "webhooks": [_delivery(each) for each in self.deliveries],
        }

    def text(self) -> str:
        """Return it for a person."""
        head = self.head
        lines = {
            "task": head.key.task_id,
            "owner": head.key.owner,
            "agent": head.context.agent,
            "context": head.context.context_id,
            "state": f"{state_name(head.state)} since {_time(head.timestamp)}",
            "events": f"{head.generation}, recorded under fence {head.fence}",
            **self._context_lines(),
        }
        told = [f"{name:12}{value}" for name, value in lines.items()]
        told += ["", "log:", *(self._event_lines() if self.events is not None else [f"  {UNREADABLE}"])]
        if self.events_with_timers:
            told += ["", f"to be posted: events {', '.join(map(str, self.events_with_timers))}"]
        for each in self.deliveries:
            said = _delivery(each)
            told += ["", f"webhook {each.config_id}:", *(f"  {name:10}{value}" for name, value in said.items())]
        return "\n".join(told)

    def _context(self) -> dict[str, Any] | None:
        if self.context is None or self.context.record.expired:
            return None
        record = self.context.record
        held = record.held_until()
        return {
            "now": of_context(self.context, self.now)[0],
            "fence": record.fence,
            "holder": record.holder,
            "heldUntil": held.isoformat() if held else None,
            "running": _turn(record.running) if record.running else None,
            "waiting": [_turn(turn) for turn in record.waiting],
            "asks": record.interrupted,
            "due": self.context.due_at.isoformat() if self.context.due_at else None,
        }

    def _context_lines(self) -> dict[str, str]:
        if self.context is None or self.context.record.expired:
            return {"at work": "nothing: the context is gone"}
        record, due_at = self.context.record, self.context.due_at
        held = record.held_until()
        lines = {"at work": of_context(self.context, self.now)[0], "fence": str(record.fence)}
        if held is not None:
            lines["lease"] = f"of {record.holder}, {'until' if held > self.now else 'ran out'} {_time(held)}"
        for name, turns in (("running", [record.running] if record.running else []), ("waiting", record.waiting)):
            for turn in turns:
                lines[f"{name} {turn.id[-4:]}" if name in lines else name] = (
                    f"turn {turn.id} of task {turn.task_id}: begun {turn.tries} times, handed on {turn.handoffs} times"
                )
        lines["due"] = f"{_time(due_at)}{' (expired)' if due_at <= self.now else ''}" if due_at else "nothing"
        return lines

    def _event(self, event: Numbered) -> dict[str, Any]:
        said = {"number": event.generation, **_kind(event.event)}
        return {**said, "content": MessageToDict(stream_response(event.event))} if self.content else said

    def _event_lines(self) -> list[str]:
        lines = []
        for each in self.events or ():
            said = self._event(each)
            lines.append(f"  {said['number']:>4}  {said.get('at') or '':24}{said['kind']}")
            if self.content:
                lines.append(f"        {said['content']}")
        return lines


async def see(operator: "Operator", head: Head, *, content: bool) -> Seen:
    """Return all that is known of the task; raises StoreError where the table cannot be asked."""
    try:
        log = await operator.tasks.every_event(head.key)
        events = log.events if log is not None else None
    except StoreCorrupt:
        events = None
    return Seen(
        head,
        events,
        await operator.inspection.context(head.context),
        await operator.inspection.events_with_timers(head.key),
        tuple(await operator.push_configs.deliveries(head.key)) if operator.push_configs is not None else (),
        operator.clock.now(),
        content,
    )


async def listed(
    operator: "Operator", owner: str, agent: str, context_id: str, state: str | None, limit: int
) -> tuple[list[Head], int]:
    """Return the heads of an owner's tasks, the newest first, without an owner of all that a scan finds, and their number.

    The heads are at most `limit`; the number counts all.
    """
    wanted = _state(state) if state else None
    if not owner:
        found, number = [], 0
        async for head in operator.inspection.tasks():
            if wanted in (None, head.state) and agent in ("", head.context.agent):
                number += 1
                if number <= limit:
                    found.append(head)
        return found, number
    tasks = TaskFilter(owner, agent, context_id or None, wanted)
    places = await operator.task_list.page(tasks, after=None, limit=limit)
    number = len(places) if len(places) < limit else await operator.task_list.count(tasks)
    heads = [await operator.tasks.head(TaskKey(owner, place.task_id)) for place in places]
    return [head for head in heads if head is not None], number


def _state(name: str) -> TaskState:
    """Return the state of this name, as v0.3 spells it."""
    return cast("TaskState", TaskState.Value(f"TASK_STATE_{name.upper().replace('-', '_')}"))


def _kind(event: Event) -> dict[str, Any]:
    match event:
        case Task():
            return {"kind": f"task, {state_name(event.status.state)}", "at": _at(event)}
        case TaskStatusUpdateEvent():
            said = ", with a message" if event.status.HasField("message") else ""
            return {"kind": f"status, {state_name(event.status.state)}{said}", "at": _at(event)}
        case Message():
            return {"kind": "message"}
        case _:
            return {"kind": f"artifact {event.artifact.artifact_id}, {len(event.artifact.parts)} parts"}


def _at(event: Task | TaskStatusUpdateEvent) -> str:
    at = event.status.timestamp
    return f"{at.ToDatetime():%Y-%m-%d %H:%M:%S}" if at.seconds else ""


def _turn(turn: Turn) -> dict[str, Any]:
    return {"turn": turn.id, "task": turn.task_id, "tries": turn.tries, "hops": turn.handoffs}


def _delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "config": delivery.config_id,
        "passed": delivery.cursor,
        "tries": delivery.tries,
        "failure": delivery.failure,
        "givenUp": delivery.dead,
        "gone": delivery.disabled,
        "due": _time(delivery.due_at) if delivery.due_at else "",
    }


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
