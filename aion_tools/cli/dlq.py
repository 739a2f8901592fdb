"""`aion dlq` lists, explains, redrives and drops the messages of the dead letter queues."""

import json
from collections.abc import Sequence

import click

from aion_core.errors import AionError, ConfigurationError
from aion_core.log import one_line
from aion_tools.cli import deployment_options, options
from aion_tools.cli.dead_letters import (
    LIMIT,
    DeadLetterQueue,
    QueuedLetter,
    dead_letters_of,
    drop_letters,
    read_letters,
)
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.error_text import error_text
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.steps import result_of

READING = "Reading the dead letter queues"
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
@deployment_options.deployment
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
@deployment_options.deployment
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
@deployment_options.deployment
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
        result_of(dead_letters_of(deployment, queue).redrive(), "Starting the redrive")
        click.echo(
            f"Redrive to the {queue} queue started. `aion dlq list --queue {queue}` shows the remaining messages.",
            err=True,
        )


@dlq.command(short_help="Delete messages.")
@click.argument("message_ids", metavar="MESSAGE_ID...", nargs=-1, required=True)
@_queue
@options.yes
@deployment_options.deployment
def drop(message_ids: tuple[str, ...], queues: tuple[str, ...], deployment: Deployment, *, yes: bool) -> None:
    """Delete the messages MESSAGE_ID from their dead letter queue.

    No task is lost: the table holds the work, and the sweep finds expired timers.
    """
    found = _found(deployment, _named(queues), message_ids)
    for each in found:
        click.echo(each.line())
    if not yes:
        options.confirm(f"Delete these {len(found)} messages?")
    count = result_of(drop_letters(deployment, found), "Deleting")
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
