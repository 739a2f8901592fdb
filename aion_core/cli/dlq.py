"""`aion dlq`: what lies in the dead letter queues, what it refers to, and what is rung again."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aion_core.cli import options
from aion_core.cli.bells import Explained, Queue, explained
from aion_core.cli.options import Deployment
from aion_core.errors import ConfigurationError

if TYPE_CHECKING:
    from aion_core.aws.dead_letters import DeadLetter, DeadLetters

LIMIT = 100
"""How many messages are looked at where nothing is said."""

VARIABLES = {Queue.TASK: "AION_TASK_QUEUE_URL", Queue.PUSH: "AION_PUSH_QUEUE_URL"}


@dataclass(frozen=True)
class _Letter:
    queue: Queue
    letter: "DeadLetter"
    said: Explained

    def document(self) -> dict[str, Any]:
        return {
            "id": self.letter.id,
            "queue": self.queue.value,
            "sentAt": self.letter.sent_at.isoformat(),
            **self.said.about,
            "now": self.said.now,
            "doesSomething": self.said.does_something,
        }


_queue = click.option(
    "--queue",
    "queues",
    type=click.Choice([each.value for each in Queue]),
    multiple=True,
    help="Which: that of turns (task), or that of notifications (push); both where nothing is said.",
)
_limit = click.option("--limit", type=click.IntRange(1, 10_000), default=LIMIT, show_default=True, help="How many.")


@click.group(short_help="Look into the dead letter queues.")
def dlq() -> None:
    """Look into the dead letter queues: bells that a function could not answer.

    A bell holds ids and nothing else; what is to be done stands in the table, and no task depends on a bell. The queues'
    URLs come from --stack, or from AION_TASK_QUEUE_URL and AION_PUSH_QUEUE_URL; their dead letter queues are asked for.
    """


@dlq.command(
    "list",
    short_help="Print the messages, and what they refer to.",
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
    """Print the messages: id, queue, when it was first sent, what it is about, and what the table says of that now.

    While they are read, for some seconds, nobody else sees them; then they are given back.
    """
    found = asyncio.run(_looked_at(deployment, _chosen(queues), limit))
    if as_json:
        click.echo(json.dumps([each.document() for each in found], indent=2))
        return
    for each in found:
        does = "ring" if each.said.does_something else "idle" if each.said.is_a_bell else "poison"
        click.echo(
            "\t".join([each.letter.id, each.queue, f"{each.letter.sent_at:%Y-%m-%d %H:%M:%S}", does, each.said.now])
        )
    if not found:
        click.echo("Nothing lies in the dead letter queues.", err=True)


@dlq.command(short_help="Print all of one message.")
@click.argument("message_id")
@_queue
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="How many are looked at."
)
@options.deployment
def show(message_id: str, queues: tuple[str, ...], limit: int, deployment: Deployment) -> None:
    """Print all of the message MESSAGE_ID: the bell itself, and what the table says of it now."""
    found = [
        each for each in asyncio.run(_looked_at(deployment, _chosen(queues), limit)) if each.letter.id == message_id
    ]
    if not found:
        raise ConfigurationError(_not_there(message_id))
    for each in found:
        lines = {
            "message": each.letter.id,
            "queue": each.queue,
            "first sent": f"{each.letter.sent_at:%Y-%m-%d %H:%M:%S} UTC",
            **each.said.about,
            "now": each.said.now,
            "body": each.letter.body,
        }
        click.echo("\n".join(f"{name:12}{value}" for name, value in lines.items()))


@dlq.command(
    short_help="Ring bells again.",
    epilog="""\b
Examples:
  aion dlq redrive --all --dry-run --stack aion-prod
  aion dlq redrive --all --yes --stack aion-prod
  aion dlq redrive 5f0c… 8a11… --stack aion-prod""",
)
@click.argument("message_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every bell.")
@_queue
@_limit
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.deployment
def redrive(
    message_ids: tuple[str, ...],
    queues: tuple[str, ...],
    limit: int,
    deployment: Deployment,
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Ring the bells MESSAGE_ID again, and take them out of the dead letter queue.

    It does no harm twice: a bell for which nothing is to be done does nothing. What is no bell stays where it is; `drop`
    takes it away. Mend first what has brought them here, or they will be back after five tries.
    """
    chosen = _picked(deployment, message_ids, queues, limit, everything=everything)
    poison = [each for each in chosen if not each.said.is_a_bell]
    bells = [each for each in chosen if each.said.is_a_bell]
    for each in poison:
        click.echo(f"{each.letter.id}: left. {each.said.now}", err=True)
    done = _settled(deployment, bells, "Ring", "rung again", _send_again, dry_run=dry_run, yes=yes)
    if done and poison:
        click.echo("What is left is no bell: look at it with `aion dlq show`, and throw it away with `aion dlq drop`.")


@dlq.command(short_help="Throw messages away.")
@click.argument("message_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every message.")
@_queue
@_limit
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.deployment
def drop(
    message_ids: tuple[str, ...],
    queues: tuple[str, ...],
    limit: int,
    deployment: Deployment,
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Throw the messages MESSAGE_ID away.

    No task is lost by it: the table has what was promised, and the sweep finds what is overdue.
    """
    chosen = _picked(deployment, message_ids, queues, limit, everything=everything)
    _settled(deployment, chosen, "Throw away", "thrown away", _drop, dry_run=dry_run, yes=yes)


async def _send_again(letters: "DeadLetters", letter: "DeadLetter") -> None:
    await letters.send_again(letter)


async def _drop(letters: "DeadLetters", letter: "DeadLetter") -> None:
    await letters.drop(letter)


def _chosen(queues: Sequence[str]) -> list[Queue]:
    return [Queue(each) for each in queues] or list(Queue)


def _picked(
    deployment: Deployment, message_ids: Sequence[str], queues: Sequence[str], limit: int, *, everything: bool
) -> list[_Letter]:
    if bool(message_ids) == everything:
        raise click.UsageError("Name messages by their ids (`aion dlq list`), or say --all.")
    # Those that are named have to be found among all.
    found = asyncio.run(_looked_at(deployment, _chosen(queues), limit if everything else max(limit, 1000)))
    if everything:
        return found
    known = {each.letter.id for each in found}
    for message_id in message_ids:
        if message_id not in known:
            raise ConfigurationError(_not_there(message_id))
    return [each for each in found if each.letter.id in message_ids]


def _settled(
    deployment: Deployment,
    chosen: Sequence[_Letter],
    verb: str,
    done: str,
    settle: "Callable[[DeadLetters, DeadLetter], Awaitable[None]]",
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Say what is chosen, ask, and settle it; tell whether that was done."""
    for each in chosen:
        click.echo(f"{each.letter.id}\t{each.queue}\t{each.said.now}")
    if not chosen:
        click.echo("There is nothing to do.", err=True)
        return True
    if dry_run:
        click.echo(f"Of these {len(chosen)} none was {done}: this was a dry run.", err=True)
        return False
    if not yes:
        click.confirm(f"{verb} these {len(chosen)}?", abort=True, err=True)
    count = asyncio.run(_settle(deployment, chosen, settle))
    click.echo(f"{count} {done}.", err=True)
    if count < len(chosen):
        click.echo(f"{len(chosen) - count} were not there any more.", err=True)
    return True


async def _settle(
    deployment: Deployment,
    chosen: Sequence[_Letter],
    settle: "Callable[[DeadLetters, DeadLetter], Awaitable[None]]",
) -> int:
    """Read the queues anew, since a message that was given back has another receipt; return how many were settled."""
    count = 0
    for queue in sorted({each.queue for each in chosen}):
        letters, wanted = _letters(deployment, queue), {each.letter.id for each in chosen if each.queue is queue}
        read = await letters.read(max(len(wanted), 1000))
        try:
            for letter in read:
                if letter.id in wanted:
                    await settle(letters, letter)
                    count += 1
        finally:
            await letters.give_back([letter for letter in read if letter.id not in wanted])
    return count


async def _looked_at(deployment: Deployment, queues: Sequence[Queue], limit: int) -> list[_Letter]:
    from aion_core.bootstrap.operator import build_operator

    operator = build_operator(deployment.settings())
    found = []
    for queue in queues:
        letters = _letters(deployment, queue)
        read = await letters.read(limit)
        await letters.give_back(read)
        found += [_Letter(queue, letter, await explained(letter.body, operator, queue)) for letter in read]
    return found


def _letters(deployment: Deployment, queue: Queue) -> "DeadLetters":
    from aion_core.bootstrap.operator import build_dead_letters

    return build_dead_letters(deployment.named(VARIABLES[queue])[0])


def _not_there(message_id: str) -> str:
    return (
        f"No message {message_id} lies in the dead letter queues; somebody else may be reading it. See `aion dlq list`."
    )
