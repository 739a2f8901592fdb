"""Dead letters, each with the work that it still has to start."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click

from aion_core.bootstrap import push_wake_up_of, wake_up_of
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.errors import StoreError, UnreadableWakeUp
from aion_tools.cli.deployment_options import PLACES, Deployment
from aion_tools.cli.documents import LIMIT
from aion_tools.cli.error_text import error_text
from aion_tools.cli.operate.report import describe_context

if TYPE_CHECKING:
    from aion_tools.operator.bootstrap import Operator
    from aion_tools.operator.dead_letters import DeadLetter, DeadLetters


class DeadLetterQueue(StrEnum):
    """Kind of dead letter queue: `task` for wake-up messages of turns, `push` for messages of push notifications."""

    TASK = "task"
    PUSH = "push"


VARIABLES = {DeadLetterQueue.TASK: "AION_TASK_QUEUE_URL", DeadLetterQueue.PUSH: "AION_PUSH_QUEUE_URL"}


@dataclass(frozen=True, slots=True)
class WakeUpMeaning:
    """Work that a wake-up message still has to start, if any, derived from the current state of the table."""

    ids: dict[str, object]
    """Ids in the message, such as owner and task. Empty for an unreadable message."""
    status: str
    """State of the message's task or context, as a sentence."""
    is_pending: bool
    """True if a worker still has to process the message. False for an obsolete message."""
    is_known: bool = True
    """False if the table could not be read."""

    @property
    def category(self) -> str:
        """Category of the message: `pending`, `obsolete`, `unknown`, or `poison` for an unreadable message."""
        if not self.ids:
            return "poison"
        if not self.is_known:
            return "unknown"
        return "pending" if self.is_pending else "obsolete"


@dataclass(frozen=True)
class QueuedLetter:
    """A dead letter, the kind of its queue, and the work that it still has to start."""

    queue: DeadLetterQueue
    letter: "DeadLetter"
    meaning: WakeUpMeaning

    def document(self) -> dict[str, Any]:
        """Return the dead letter as a JSON object."""
        return {
            "id": self.letter.id,
            "queue": self.queue.value,
            "sentAt": self.letter.sent_at,
            **self.meaning.ids,
            "category": self.meaning.category,
            "status": self.meaning.status,
        }


async def read_letters(
    deployment: Deployment,
    queues: Sequence[DeadLetterQueue],
    limit: int,
    is_chosen: Callable[["DeadLetter", DeadLetterQueue], bool] = lambda *_: True,
) -> list[QueuedLetter]:
    """Read up to `limit` dead letters of each queue, and return the chosen ones with their meaning.

    The table is read only for the chosen ones. Raises StoreError if a queue cannot be read, and UsageError for a queue
    without a URL.
    """
    from aion_tools.operator.bootstrap import build_operator

    operator = build_operator(deployment.settings(*PLACES))
    found = []
    for queue in queues:
        letters = dead_letters_of(deployment, queue)
        read = await letters.read(limit)
        await _give_back(letters, read)
        chosen = [letter for letter in read if is_chosen(letter, queue)]
        # Read the table concurrently; the operator's executor limits the number of requests at once.
        meanings = await asyncio.gather(*(meaning_of(letter.body, operator, queue) for letter in chosen))
        found += [QueuedLetter(queue, *each) for each in zip(chosen, meanings, strict=True)]
    return found


async def _give_back(letters: "DeadLetters", read: "Sequence[DeadLetter]") -> None:
    """Release the dead letters. If some stay hidden, print their number at the end of the command."""
    from aion_tools.operator.sqs_dead_letters import HIDDEN_SECONDS

    if count := await letters.give_back(read):
        text = f"SQS did not release {messages(count)}, which may stay hidden for {HIDDEN_SECONDS} seconds."
        # Print at the end, because a spinner is shown now.
        click.get_current_context().call_on_close(lambda: click.echo(text, err=True))


def messages(count: int) -> str:
    """Return a number of messages in words."""
    return "1 message" if count == 1 else f"{count} messages"


async def drop_letters(deployment: Deployment, chosen: Sequence[QueuedLetter]) -> int:
    """Delete the chosen dead letters and return the number of deleted messages.

    Read the messages again first, because SQS deletes a message only by the receipt handle of its last read.
    """
    count = 0
    for queue in sorted({each.queue for each in chosen}):
        letters, wanted = dead_letters_of(deployment, queue), {each.letter.id for each in chosen if each.queue is queue}
        read = await letters.read(LIMIT)
        try:
            for letter in read:
                if letter.id in wanted:
                    await letters.drop(letter)
                    count += 1
        finally:
            await _give_back(letters, [letter for letter in read if letter.id not in wanted])
    return count


def dead_letters_of(deployment: Deployment, queue: DeadLetterQueue) -> "DeadLetters":
    """Return the reader of a dead letter queue. Raises UsageError for a queue without a URL."""
    from aion_tools.operator.bootstrap import build_dead_letters

    return build_dead_letters(deployment.settings(VARIABLES[queue]), queue.value)


async def meaning_of(body: str, operator: "Operator", queue: DeadLetterQueue) -> WakeUpMeaning:
    """Return the work that a message with this body still has to start, derived from the current state of the table."""
    meaning: Awaitable[WakeUpMeaning]
    try:
        if queue is DeadLetterQueue.TASK:
            turn = wake_up_of(body)
            ids = _turn_ids(turn)
            meaning = _turn_meaning(turn, ids, operator)
        else:
            push = push_wake_up_of(body)
            ids = _push_ids(push)
            meaning = _push_meaning(push, ids, operator)
    except UnreadableWakeUp as error:
        return WakeUpMeaning({}, str(error), is_pending=False)
    try:
        return await meaning
    except StoreError as error:
        return WakeUpMeaning(ids, f"Its state could not be read. {error_text(error)}", is_pending=False, is_known=False)


def _turn_ids(wake_up: WakeUp) -> dict[str, object]:
    context = wake_up.context
    return {
        "owner": context.owner,
        "agent": context.agent,
        "context": context.context_id,
        "fence": wake_up.fence,
    }


def _push_ids(wake_up: PushWakeUp) -> dict[str, object]:
    return {"owner": wake_up.task.owner, "task": wake_up.task.task_id, "event": wake_up.generation}


async def _turn_meaning(wake_up: WakeUp, ids: dict[str, object], operator: "Operator") -> WakeUpMeaning:
    context = await operator.inspection.context(wake_up.context)
    return WakeUpMeaning(ids, *describe_context(context, operator.clock.now()))


async def _push_meaning(wake_up: PushWakeUp, ids: dict[str, object], operator: "Operator") -> WakeUpMeaning:
    from aion_core.engine.delivery.readiness import is_ready

    task = wake_up.task
    head = await operator.tasks.head(task)
    if head is None:
        return WakeUpMeaning(ids, "The task has expired or was deleted. Nothing to deliver.", is_pending=False)
    found = await operator.push_configs.deliveries(task) if operator.push_configs is not None else ()
    if not found:
        return WakeUpMeaning(ids, "The task no longer has a push notification config.", is_pending=False)
    behind = [each for each in found if not each.disabled and each.cursor < head.generation]
    ready = [each for each in found if is_ready(each, head.generation, operator.clock.now())]
    if ready:
        names = ", ".join(each.config_id for each in ready)
        return WakeUpMeaning(ids, f"Events for {names} are ready. A wake-up message delivers them.", is_pending=True)
    if behind:
        names = ", ".join(each.config_id for each in behind)
        return WakeUpMeaning(ids, f"Delivery to {names} failed or is in progress. It will be retried.", False)
    return WakeUpMeaning(ids, "All webhooks of the task have received its events.", is_pending=False)
