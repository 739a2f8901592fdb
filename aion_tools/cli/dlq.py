"""`aion dlq` lists, explains, redrives and drops the messages of the dead letter queues."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click

from aion_core.bootstrap import push_wake_up_of, wake_up_of
from aion_core.engine.queues import PushWakeUp, WakeUp
from aion_core.errors import AionError, ConfigurationError, StoreError, UnreadableWakeUp
from aion_core.log import one_line
from aion_tools.cli import options
from aion_tools.cli.error_text import error_text
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.options import PLACES, Deployment
from aion_tools.cli.render import describe_context
from aion_tools.cli.steps import result_of

if TYPE_CHECKING:
    from aion_tools.operator.bootstrap import Operator
    from aion_tools.operator.dead_letters import DeadLetter, DeadLetters

READING = "Reading the dead letter queues"

LIMIT = 10_000
"""Maximum number of messages to list, and to read in search of a message id: SQS cannot look up a message by its id."""


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
            "sentAt": self.letter.sent_at.isoformat(),
            **self.meaning.ids,
            "category": self.meaning.category,
            "status": self.meaning.status,
        }

    def line(self) -> str:
        """Return the dead letter as a line of text."""
        sent_at = f"{self.letter.sent_at:%Y-%m-%d %H:%M:%S}"
        return "\t".join([self.letter.id, self.queue, sent_at, self.meaning.category, self.meaning.status])


_queue = click.option(
    "--queue",
    "queues",
    type=click.Choice([each.value for each in DeadLetterQueue]),
    multiple=True,
    help="The queue of turns (task) or of push notifications (push).  [default: both]",
)
_limit = click.option(
    "--limit",
    type=click.IntRange(1, LIMIT),
    default=100,
    show_default=True,
    help="Maximum number of messages of each queue.",
)


@click.group(cls=HintingGroup, short_help="List and redrive dead letters.")
def dlq() -> None:
    """List, redrive and drop dead letters, which are queue messages not processed after all of their attempts.

    A queue message holds ids only. The table holds the work, so no task depends on a message. The queues' URLs come from
    --stack, or from AION_TASK_QUEUE_URL and AION_PUSH_QUEUE_URL. Beside `aion dev`, the command reads its local queues.
    """


@dlq.command(
    "list",
    short_help="Print the messages and their meaning.",
    epilog="""\b
Examples:
  aion dlq list --stack aion-prod
  aion dlq list --stack aion-prod --queue push --json""",
)
@_queue
@_limit
@options.as_json
@options.deployment
def list_letters(queues: tuple[str, ...], limit: int, *, as_json: bool, deployment: Deployment) -> None:
    """Print the id, queue, time of sending and category of each message, and the current state of its task.

    Categories: pending (work is left: fix the cause, then redrive), obsolete (the work is done: redrive or drop), poison
    (not a wake-up message of this version: drop), unknown (the table could not be read: redrive does no harm). SQS hides
    the messages from others for some seconds.
    """
    by_queue, reasons = dict[DeadLetterQueue, list[QueuedLetter]](), dict[DeadLetterQueue, str]()
    for queue in _named(queues):
        try:
            # Read one more message, to find out whether there are more.
            by_queue[queue] = result_of(read_letters(deployment, [queue], limit + 1), READING)
        except AionError as error:
            reasons[queue] = error_text(error)
    if len(reasons) > 1 and len(set(reasons.values())) == 1:
        # Name no queue: the reason, such as expired credentials, does not depend on it.
        raise ConfigurationError(reasons.popitem()[1])
    failures = [f"The dead letters of the {queue} queue were not read. {reason}" for queue, reason in reasons.items()]
    if failures and (as_json or not by_queue):
        raise ConfigurationError(failures[0])
    found = [each for letters in by_queue.values() for each in letters[:limit]]
    if as_json:
        click.echo(json.dumps([each.document() for each in found], indent=2))
    for each in [] if as_json else found:
        click.echo(each.line())
    if not found and not as_json and not failures:
        click.echo("No messages in the dead letter queues.", err=True)
    for queue, letters in by_queue.items():
        if len(letters) > limit:
            more = f"The {queue} queue has more than {limit} dead letters; --limit prints more."
            click.echo(more, err=True)
    if failures:
        raise ConfigurationError(failures[0])


@dlq.command(short_help="Print one message in full.")
@click.argument("message_id")
@_queue
@options.deployment
def show(message_id: str, queues: tuple[str, ...], deployment: Deployment) -> None:
    """Print the body and ids of the message MESSAGE_ID, and the current state of its task."""
    for each in _found(deployment, _named(queues), [message_id]):
        lines = {
            "message": each.letter.id,
            "queue": each.queue,
            "first sent": f"{each.letter.sent_at:%Y-%m-%d %H:%M:%S} UTC",
            **each.meaning.ids,
            "category": each.meaning.category,
            "status": each.meaning.status,
            "body": each.letter.body,
        }
        click.echo("\n".join(f"{name:12}{one_line(str(value))}" for name, value in lines.items()))


@dlq.command(
    short_help="Move all messages back to their queue.",
    epilog="""\b
Examples:
  aion dlq redrive --queue task --stack aion-prod
  aion dlq redrive --yes --stack aion-prod""",
)
@_queue
@_limit
@options.yes
@options.deployment
def redrive(queues: tuple[str, ...], limit: int, deployment: Deployment, *, yes: bool) -> None:
    """Move all messages of the dead letter queues back to their queues.

    Fix the cause first, or the messages return after their attempts. Drop poison messages first, for the same reason. SQS
    moves the messages in the background; `aion dlq list` shows the remaining messages. A message processed twice does no harm.

    --limit is the number of messages that are printed before you confirm. All messages are moved.
    """
    for queue in _named(queues):
        found = result_of(read_letters(deployment, [queue], limit), READING)
        for each in found:
            click.echo(each.line())
        if poison := [each.letter.id for each in found if each.meaning.category == "poison"]:
            click.echo(
                f"Poison messages return after their attempts. Drop them first: `aion dlq drop {' '.join(poison)}`.",
                err=True,
            )
        if not found:
            click.echo(f"No messages in the dead letter queue of the {queue} queue.", err=True)
            continue
        if not yes:
            options.confirm(f"Redrive all messages to the {queue} queue?")
        result_of(_letters(deployment, queue).redrive(), "Starting the redrive")
        click.echo(
            f"Redrive to the {queue} queue started. `aion dlq list --queue {queue}` shows the remaining messages.",
            err=True,
        )


@dlq.command(short_help="Delete messages.")
@click.argument("message_ids", metavar="MESSAGE_ID...", nargs=-1, required=True)
@_queue
@options.yes
@options.deployment
def drop(message_ids: tuple[str, ...], queues: tuple[str, ...], deployment: Deployment, *, yes: bool) -> None:
    """Delete the messages MESSAGE_ID from their dead letter queue.

    No task is lost: the table holds the work, and the sweep finds expired timers.
    """
    found = _found(deployment, _named(queues), message_ids)
    for each in found:
        click.echo(each.line())
    if not yes:
        options.confirm(f"Delete these {len(found)} messages?")
    count = result_of(_drop(deployment, found), "Deleting")
    click.echo(f"{count} messages deleted.", err=True)
    if count < len(found):
        click.echo(f"{len(found) - count} messages were not there any more.", err=True)


def _named(queues: Sequence[str]) -> list[DeadLetterQueue]:
    return [DeadLetterQueue(each) for each in dict.fromkeys(queues)] or list(DeadLetterQueue)


def _found(deployment: Deployment, queues: Sequence[DeadLetterQueue], message_ids: Sequence[str]) -> list[QueuedLetter]:
    """Return the dead letters with these message ids. Raises ConfigurationError if an id is not among those read."""
    found = result_of(read_letters(deployment, queues, LIMIT, lambda letter, _: letter.id in message_ids), READING)
    for message_id in message_ids:
        if message_id not in {each.letter.id for each in found}:
            raise ConfigurationError(
                f"No message {message_id} in the dead letter queues; another reader may hold it. See `aion dlq list`."
            )
    return found


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
        letters = _letters(deployment, queue)
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
        text = f"SQS did not release {count} messages. They stay hidden for up to {HIDDEN_SECONDS} seconds."
        # Print at the end, because a spinner is shown now.
        click.get_current_context().call_on_close(lambda: click.echo(text, err=True))


async def _drop(deployment: Deployment, chosen: Sequence[QueuedLetter]) -> int:
    """Delete the chosen dead letters and return the number of deleted messages.

    Read the messages again first, because SQS deletes a message only by the receipt handle of its last read.
    """
    count = 0
    for queue in sorted({each.queue for each in chosen}):
        letters, wanted = _letters(deployment, queue), {each.letter.id for each in chosen if each.queue is queue}
        read = await letters.read(LIMIT)
        try:
            for letter in read:
                if letter.id in wanted:
                    await letters.drop(letter)
                    count += 1
        finally:
            await _give_back(letters, [letter for letter in read if letter.id not in wanted])
    return count


def _letters(deployment: Deployment, queue: DeadLetterQueue) -> "DeadLetters":
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
        return WakeUpMeaning(ids, f"Its state was not read. {error_text(error)}", is_pending=False, is_known=False)


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
    from aion_core.engine.delivery.schedule import is_ready

    task = wake_up.task
    head = await operator.tasks.head(task)
    if head is None:
        return WakeUpMeaning(ids, "The task has expired or was deleted. There is nothing to deliver.", is_pending=False)
    found = await operator.push_configs.deliveries(task) if operator.push_configs is not None else ()
    if not found:
        return WakeUpMeaning(ids, "The task has no push notification config any more.", is_pending=False)
    behind = [each for each in found if not each.disabled and each.cursor < head.generation]
    ready = [each for each in found if is_ready(each, head.generation, operator.clock.now())]
    if ready:
        names = ", ".join(each.config_id for each in ready)
        return WakeUpMeaning(ids, f"Events for {names} are ready. A wake-up message delivers them.", is_pending=True)
    if behind:
        names = ", ".join(each.config_id for each in behind)
        return WakeUpMeaning(ids, f"Delivery to {names} failed or is in progress. It is retried later.", False)
    return WakeUpMeaning(ids, "All webhooks of the task have received its events.", is_pending=False)
