"""Rules for a message that creates a task: whether it may, and whether its turn runs or waits. Pure."""

from msgspec.structs import replace

from aion_core.engine.admission.messages import NewTask
from aion_core.engine.agent_options import WhenBusy
from aion_core.engine.context import changes, conditions
from aion_core.engine.context.conditions import MAX_WAITING
from aion_core.engine.context.record import ContextRecord
from aion_core.engine.outcomes import ContextInUse, Interrupted, TurnQueued, TurnStarted
from aion_core.engine.records import Head, Lease, Numbered
from aion_core.engine.task import subscribers, timestamps
from aion_core.engine.task.transition import NewEvent, Transition, new_event
from aion_core.errors import ClientError, ContextBusy
from aion_core.protocol.interrupts import names_interrupt
from aion_core.protocol.types import Task
from aion_core.table.times import Times
from aion_core.table.writes import Change


def refused(record: ContextRecord, when_busy: WhenBusy) -> Interrupted | ContextInUse | None:
    """Return the reason to refuse a new task in this context, or None if the task may be created."""
    if record.interrupted is not None:
        return Interrupted(record.interrupted)
    if record.busy and when_busy is not WhenBusy.ENQUEUE:
        return ContextInUse(record.active_task)
    return None


def answers_nothing(new: NewTask, record: ContextRecord) -> bool:
    """Return True if the new task's message answers a question, but no task of the context requires input."""
    task = new.events[0]
    return record.interrupted is None and isinstance(task, Task) and names_interrupt(task.history[0])


def start_refusal(new: NewTask, record: ContextRecord) -> ClientError | None:
    """Return the reason why the message cannot start a turn in this context; None if it can."""
    has_state = record.exists and not record.expired
    return new.start_refusal or (None if has_state else new.first_refusal)


def is_full(record: ContextRecord) -> bool:
    """Return True if the queue in the context's record has no room for another turn."""
    return len(record.waiting) >= MAX_WAITING


def queue_is_full() -> ContextBusy:
    """Return the error for a message to a context with a full queue."""
    return ContextBusy(f"{MAX_WAITING} messages already wait in this context. Send this one after the next answer.")


def created(
    new: NewTask, record: ContextRecord, *, holder: str | None, when_busy: WhenBusy, times: Times
) -> Transition[TurnStarted | TurnQueued]:
    """Return the transition to create a task. Its turn gets the lease in a free context; otherwise it is queued."""
    head = first_head(new)
    if new.push is not None:
        head = subscribers.head_with_subscriber(head, new.push)
    outcome: TurnStarted | TurnQueued
    if holder is not None and not record.busy:
        lease = Lease(new.context, replace(new.turn, tries=1), holder, record.fence + 1)
        head = replace(head, fence=lease.fence)
        outcome, change = TurnStarted(lease, head), changes.acquired(lease, record, times)
    else:
        outcome, change = TurnQueued(head, record.held_until()), _queued(new, record, holder, when_busy, times)
    return Transition(outcome, change, events=_events(new, head))


def _queued(new: NewTask, record: ContextRecord, holder: str | None, when_busy: WhenBusy, times: Times) -> Change:
    if record.expired:
        return changes.queued_anew(new.context.owner, new.turn, record, times)
    if holder is not None:
        # In a busy context, the lease holder of the running turn also runs the next turn, without a wake-up message.
        return changes.queued(new.context.owner, new.turn, conditions.MAY_WAIT_BEHIND_OTHERS, times)
    only_if = conditions.MAY_WAIT if when_busy is WhenBusy.ENQUEUE else conditions.MAY_WAIT_ALONE
    return changes.queued(new.context.owner, new.turn, only_if, times)


def _events(new: NewTask, head: Head) -> tuple[NewEvent, ...]:
    return tuple(
        new_event(head, generation, event, request=new.request if generation == 1 else {})
        for generation, event in enumerate(new.events, start=1)
    )


def created_before(new: NewTask, record: ContextRecord, head: Head, holder: str | None) -> TurnStarted | TurnQueued:
    """Return the outcome of an earlier `create` with the same turn. The caller did not get its response."""
    if record.has(new.turn, holder):
        return TurnStarted(record.lease(new.context), head)
    return TurnQueued(head, record.held_until())


def first_log(new: NewTask) -> tuple[Numbered, ...]:
    """Return the first log entries of a new task, numbered from 1."""
    return tuple(
        Numbered(number, event, request=new.request if number == 1 else {})
        for number, event in enumerate(new.events, start=1)
    )


def first_head(new: NewTask) -> Head:
    """Return the head (state and event number) of a new task after its first events, before its first lease."""
    status = new.events[-1].status
    return Head(
        new.key, new.context, status.state, timestamps.timestamp_of(status), generation=len(new.events), fence=0
    )
