"""Present state of a task in sentences, with the commands for its operator. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from aion_core.engine.delivery.records import Delivery
from aion_core.engine.task.states import INTERRUPTED, TERMINAL, TERMINAL_OR_INTERRUPTED
from aion_core.protocol.types import TaskState
from aion_core.table.times import moment
from aion_tools.cli.documents import time_text
from aion_tools.cli.operate.dead_letters import QueuedLetter
from aion_tools.cli.operate.report import TaskReport, wait_text
from aion_tools.operator.inspection import ContextStatus

SWEEP_IS_LATE = timedelta(minutes=5)
"""Time after which an expired timer means that no sweep runs: a sweep sets each timer again that it finds."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Present state of a task, and the commands its operator may run now."""

    text: str
    commands: tuple[str, ...]
    """Commands quoted in `text`, here without quotes."""


def verdict_of(
    report: TaskReport, letters: Sequence[QueuedLetter], *, owner: str, place: str, server_runs: bool
) -> Verdict:
    """Return the task's present state. `owner` and `place` are options for the commands, such as ` --stack aion-prod`.

    `server_runs` is False if the task belongs to a development server that is stopped.
    """
    task_id, options = report.head.key.task_id, f"{owner}{place}"
    cancel = f"aion tasks cancel {task_id}{options}"
    parts: list[tuple[str, str]] = [_state(report, cancel, options)]
    due_at = report.context.due_at if report.context is not None else None
    if not server_runs and report.head.state not in TERMINAL:
        parts.append(("its development server isn't running: {}", "aion dev"))
    elif due_at and report.now - due_at > SWEEP_IS_LATE and report.head.state not in TERMINAL_OR_INTERRUPTED:
        text = f"no sweep has found its timer, which expired at {time_text(due_at)}: the sweep isn't called, or fails"
        parts.append((f"{text}: {{}}", f"aws logs tail /aws/lambda/{place.split()[-1]}-sweep") if place else (text, ""))
    parts += _pushes(report, options)
    for queue in dict.fromkeys(each.queue for each in letters if each.meaning.is_pending):
        text = f"a message of its {queue} queue is a dead letter: fix the cause, then {{}}"
        parts.append((text, f"aion dlq redrive --queue {queue}{place}"))
    sentences = (text.replace("{}", f"`{command}`") for text, command in parts)
    return Verdict(
        " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences),
        tuple(dict.fromkeys(command for _, command in parts if command)),
    )


def _state(report: TaskReport, cancel: str, options: str) -> tuple[str, str]:
    """Return a sentence about the task's state, and a command for the operator, which takes the place of {} in it."""
    head, since = report.head, time_text(report.head.timestamp)
    if head.state in TERMINAL:
        return {
            TaskState.TASK_STATE_COMPLETED: f"The task completed at {since}. Nothing to do",
            TaskState.TASK_STATE_CANCELED: f"The task was canceled at {since}. Its client can send a new message",
            TaskState.TASK_STATE_REJECTED: f"The agent rejected the task at {since}. Its client can send another message",
        }.get(
            head.state,
            f"The task failed at {since}. Fix the cause; then its client can send the message again with a new id",
        ), ""
    if head.state in INTERRUPTED:
        wants = "an answer" if head.state == TaskState.TASK_STATE_INPUT_REQUIRED else "credentials"
        return f"The task has been waiting for {wants} from its client since {since}; {{}} ends it", cancel
    if report.context is None or report.context.record.expired:
        return "The task's context is gone, and no worker runs it; {} ends it", cancel
    return _turn(report, report.context, cancel, options)


def _turn(report: TaskReport, context: ContextStatus, cancel: str, options: str) -> tuple[str, str]:
    """Return a sentence about an active task's running or queued turn."""
    record, task_id = context.record, report.head.key.task_id
    if record.running is not None and record.runs(task_id):
        tries = f"try {record.running.tries}"
        if record.wait is not None:
            or_sooner = ", or when the other agent calls back" if record.wait.expects_callbacks else ""
            look = f"the next look is at {time_text(moment(record.until))}{or_sooner}"
            return f"The task {wait_text(record.wait)}, and no process runs: {look}; {{}} ends it", cancel
        if not record.holder:
            return "The turn is suspended between two workers until a wake-up message resumes it; {} ends it", cancel
        until = time_text(moment(record.until))
        if moment(record.until) > report.now:
            return (
                f"The turn is running ({tries}). Its worker has the lease until {until} and renews it; {{}} ends it",
                cancel,
            )
        return (
            f"The worker of the turn ({tries}) is gone: its lease ended at {until}. A wake-up message or the "
            "next sweep, within a minute, will start another one; {} ends the task",
            cancel,
        )
    if not record.waits_for(task_id):
        return "The task is active but has no turn, so no worker will run it; {} ends it", cancel
    if record.running is not None:
        ahead = record.active_task
        return (
            f"The turn is waiting for the task {ahead} of its context, which is running: {{}}",
            f"aion why {ahead}{options}",
        )
    if record.interrupted is not None:
        ahead = record.interrupted
        return (
            f"The turn is waiting until the task {ahead} of its context is answered or canceled: {{}}",
            f"aion why {ahead}{options}",
        )
    return (
        "The turn is queued. A wake-up message or the next sweep, within a minute, will start it; {} ends it",
        cancel,
    )


def _pushes(report: TaskReport, options: str) -> Iterator[tuple[str, str]]:
    for each in report.deliveries:
        redrive = f"aion push redrive {each.task.task_id} {shlex.quote(each.config_id)}{options}"
        if each.disabled or each.dead:
            yield f"{delivery_text(each)}: fix the receiver, then {{}}", redrive
        elif each.tries:
            yield delivery_text(each), ""


def delivery_text(delivery: Delivery) -> str:
    """Return a clause about the state of a webhook's notifications, to be part of a sentence."""
    name = f"the webhook {delivery.config_id}"
    failed = f" ({delivery.failure})" if delivery.failure else ""
    if delivery.disabled:
        return f"{name} is disabled ({delivery.failure or 'HTTP 410'})"
    if delivery.dead:
        events = "1 dead letter" if delivery.dead == 1 else f"{delivery.dead} dead letters"
        return f"{name} has {events}, from event {delivery.dead_from} on{failed}"
    if delivery.tries:
        due = f"; the next try is at {time_text(delivery.next_at)}" if delivery.next_at else ""
        tries = "once" if delivery.tries == 1 else f"{delivery.tries} times"
        return f"{name} has failed {tries}{failed}{due}"
    if delivery.cursor <= delivery.after:
        return f"{name} has got no event yet"
    return f"{name} has all events through number {delivery.cursor}"
