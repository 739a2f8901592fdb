"""`aion dlq` lists, explains, redrives and drops the messages of the dead letter queues."""

from collections.abc import Sequence

import click

from aion_core.errors import AionError, ConfigurationError
from aion_tools.cli import deployment_options, documents, options
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.error_text import error_text
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.operate.dead_letters import (
    DeadLetterQueue,
    QueuedLetter,
    dead_letters_of,
    drop_letters,
    messages,
    read_letters,
)
from aion_tools.cli.operate.task_names import is_named, named
from aion_tools.cli.steps import result_of

READING = "Reading the dead letter queues"
_queue = click.option(
    "--queue",
    "queues",
    type=click.Choice([each.value for each in DeadLetterQueue]),
    multiple=True,
    help="The queue of turns (task) or of push notifications (push).  [default: both]",
)


@click.group(cls=HintingGroup, short_help="List and redrive dead letters.")
def dlq() -> None:
    """List, redrive and drop dead letters: queue messages whose attempts have all failed.

    A queue message holds only ids. The table holds the work, so no task depends on a message. The queues' URLs come from
    --stack, or from AION_TASK_QUEUE_URL and AION_PUSH_QUEUE_URL. With `aion dev`, the command reads its local queues.
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
@documents.limit
@options.as_json
@deployment_options.deployment
def list_letters(queues: tuple[str, ...], limit: int, *, as_json: bool, deployment: Deployment) -> None:
    """Print the id, queue, time of sending and category of each message, and the current state of its task.

    Categories: pending (work is left: fix the cause, then redrive), obsolete (the work is done: redrive or drop), poison
    (not a wake-up message of this version: drop), unknown (the table could not be read: redrive does no harm). SQS hides
    the messages from others for a few seconds.
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
    if found or not failures:
        _print(found, as_json=as_json)
    for queue in [queue for queue, letters in by_queue.items() if len(letters) > limit]:
        click.echo(f"The {queue} queue has more than {limit} dead letters; --limit prints more.", err=True)
    if failures:
        raise ConfigurationError(failures[0])


@dlq.command(short_help="Print one message in full.")
@click.argument("message_id")
@_queue
@options.as_json
@deployment_options.deployment
def show(message_id: str, queues: tuple[str, ...], deployment: Deployment, *, as_json: bool) -> None:
    """Print the body and ids of the message MESSAGE_ID, and the current state of its task."""
    found = _found(deployment, _named(queues), [message_id])
    documents.print_whole([{**each.document(), "body": each.letter.body} for each in found], as_json=as_json)


@dlq.command(
    short_help="Move all messages back to their queue.",
    epilog="""\b
Examples:
  aion dlq redrive --queue task --stack aion-prod
  aion dlq redrive --yes --stack aion-prod""",
)
@_queue
@documents.limit
@options.yes
@deployment_options.deployment
def redrive(queues: tuple[str, ...], limit: int, deployment: Deployment, *, yes: bool) -> None:
    """Move all messages of the dead letter queues back to their queues.

    Fix the cause first, or the messages will fail and come back. Drop poison messages first, for the same reason. SQS
    moves the messages in the background; `aion dlq list` shows the remaining messages. A message processed twice does no harm.

    --limit is the number of messages that are printed before you confirm. All messages are moved.
    """
    for queue in _named(queues):
        found = result_of(read_letters(deployment, [queue], limit), READING)
        _print(found, f"dead letters of the {queue} queue")
        if poison := [each.letter.id for each in found if each.meaning.category == "poison"]:
            click.echo(
                f"Poison messages return after their attempts. Drop them first: `aion dlq drop {' '.join(poison)}`.",
                err=True,
            )
        if not found:
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
    _print(found)
    if not yes:
        options.confirm(f"Delete {messages(len(found))}?")
    count = result_of(drop_letters(deployment, found), "Deleting")
    click.echo(f"{messages(count)} deleted.", err=True)
    if lost := len(found) - count:
        click.echo(f"{messages(lost)} {'was' if lost == 1 else 'were'} no longer there.", err=True)


def _print(found: Sequence[QueuedLetter], what: str = "dead letters", *, as_json: bool = False) -> None:
    columns = ("id", "queue", "sentAt", "category", "status")
    documents.print_rows([each.document() for each in found], columns, what, as_json=as_json)


def _named(queues: Sequence[str]) -> list[DeadLetterQueue]:
    return [DeadLetterQueue(each) for each in dict.fromkeys(queues)] or list(DeadLetterQueue)


def _found(deployment: Deployment, queues: Sequence[DeadLetterQueue], message_ids: Sequence[str]) -> list[QueuedLetter]:
    """Return the dead letters with these message ids, or parts of ids.

    Raises ConfigurationError if an id is not among those read, or is a part of several.
    """
    found = result_of(
        read_letters(
            deployment,
            queues,
            documents.LIMIT,
            lambda letter, _: any(is_named(each, letter.id) for each in message_ids),
        ),
        READING,
    )
    read = {each.letter.id for each in found}
    chosen = {message_id: named(message_id, read, "dead letters") for message_id in message_ids}
    for message_id, whole in chosen.items():
        if whole not in read:
            raise ConfigurationError(
                f"No message {message_id} in the dead letter queues; another reader may hold it. See `aion dlq list`."
            )
    return [each for each in found if each.letter.id in chosen.values()]
