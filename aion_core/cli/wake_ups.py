"""What a bell of a dead letter queue refers to, what the table says of that now, and whether ringing it does anything."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from aion_core.bootstrap import push_wake_up_of, wake_up_of
from aion_core.errors import UnreadableWakeUp
from aion_core.ports import LeaseHeld, PushWakeUp, WakeUp

if TYPE_CHECKING:
    from aion_core.bootstrap.operator import Operator
    from aion_core.stores.inspection import ContextStatus


class Queue(StrEnum):
    """Which bells: those of turns, or those of push notifications."""

    TASK = "task"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class Explained:
    """A bell in words."""

    about: dict[str, object]
    """The ids in it; nothing where it cannot be read."""
    now: str
    """What the table says now."""
    does_something: bool
    """Whether somebody has to be woken for it: where not, it may be rung or thrown away, it is all the same."""

    @property
    def is_wake_up(self) -> bool:
        """Whether it is one; what is none can never be answered."""
        return bool(self.about)


async def explained(body: str, operator: "Operator", queue: Queue) -> Explained:
    """Return what the message of the queue refers to; raises StoreError where the table cannot be asked."""
    try:
        return (
            await _turn(wake_up_of(body), operator)
            if queue is Queue.TASK
            else await _push(push_wake_up_of(body), operator)
        )
    except UnreadableWakeUp as error:
        return Explained({}, str(error), does_something=False)


async def _turn(wake_up: WakeUp, operator: "Operator") -> Explained:
    context = wake_up.context
    about: dict[str, object] = {
        "owner": context.owner,
        "agent": context.agent,
        "context": context.context_id,
        "fence": wake_up.fence,
    }
    now, does_something = of_context(await operator.inspection.context(context), operator.clock.now())
    return Explained(about, now, does_something)


def of_context(seen: "ContextStatus | None", now: datetime) -> tuple[str, bool]:
    """Return what the context waits for, in words, and whether a bell would set something going in it. Pure."""
    from aion_core.tasks.contexts import turn_to_begin

    if seen is None or seen.record.expired:
        return "The context is gone: nothing is left to do.", False
    record = seen.record
    turn = turn_to_begin(record, int(now.timestamp() * 1000))
    if isinstance(turn, LeaseHeld):
        return f"Task {record.active_task} is at work, and its lease lives: nothing is to be done now.", False
    if turn is not None and record.running is not None:
        return f"The worker of task {turn.task_id} is gone (begun {turn.tries} times): a bell has it taken over.", True
    if turn is not None:
        return f"A turn of task {turn.task_id} waits, and nobody has begun it: a bell does.", True
    if record.interrupted is not None:
        behind = f", and {len(record.waiting)} turns wait behind it" if record.waiting else ""
        # The bell makes sure that the task which asks is still there.
        return f"Task {record.interrupted} waits for its client's answer{behind}.", bool(record.waiting)
    return "The context is at rest: nothing is to be done.", False


async def _push(wake_up: PushWakeUp, operator: "Operator") -> Explained:
    from aion_core.push.schedule import is_ready

    task = wake_up.task
    about: dict[str, object] = {"owner": task.owner, "task": task.task_id, "event": wake_up.generation}
    head = await operator.tasks.head(task)
    if head is None:
        return Explained(about, "The task is gone: nothing is left to be told.", does_something=False)
    found = await operator.push_configs.deliveries(task) if operator.push_configs is not None else ()
    if not found:
        return Explained(about, "No webhook is registered for the task any more.", does_something=False)
    behind = [each for each in found if not each.disabled and each.cursor < head.generation]
    ready = [each for each in found if is_ready(each, head.generation, operator.clock.now())]
    if ready:
        named = ", ".join(each.config_id for each in ready)
        return Explained(about, f"Something is to be posted for {named}: a bell does.", does_something=True)
    if behind:
        named = ", ".join(each.config_id for each in behind)
        return Explained(about, f"{named} failed, or is being posted to: it is tried again later.", False)
    return Explained(about, "Every webhook of the task has passed its events.", does_something=False)
