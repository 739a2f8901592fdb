"""`aion dlq`: what lies in the dead letter queues, what it refers to, and what is rung again."""

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from aion_core.cli import options
from aion_core.cli.options import PLACES, Deployment
from aion_core.errors import ConfigurationError

if TYPE_CHECKING:
    from aion_core.ports.queues import DeadLetter, DeadLetters

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from aion_core.bootstrap import push_wake_up_of, wake_up_of
from aion_core.errors import UnreadableWakeUp
from aion_core.ports import LeaseHeld, PushWakeUp, WakeUp

if TYPE_CHECKING:
    from aion_core.bootstrap.operator import Operator
    from aion_core.stores.inspection import SeenContext


class Queue(StrEnum):
    """Which bells: those of turns, or those of push notifications."""

    TASK = "task"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class WakeUpMeaning:
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


LIMIT = 100
"""How many messages are looked at where nothing is said."""

VARIABLES = {Queue.TASK: "AION_TASK_QUEUE_URL", Queue.PUSH: "AION_PUSH_QUEUE_URL"}


@dataclass(frozen=True)
class _Letter:
    queue: Queue
    letter: "DeadLetter"
    said: WakeUpMeaning

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


@dataclass(frozen=True)
class _Chosen:
    """What the options say of which messages are settled, and how."""

    message_ids: tuple[str, ...]
    everything: bool
    queues: tuple[str, ...]
    limit: int
    dry_run: bool
    yes: bool

    def found(self, deployment: Deployment) -> list[_Letter]:
        """Return the messages; raises ConfigurationError where one that is named is not there."""
        if bool(self.message_ids) == self.everything:
            raise click.UsageError("Name messages by their ids (`aion dlq list`), or say --all.")
        # Those that are named have to be found among all.
        limit = self.limit if self.everything else max(self.limit, 1000)
        letters = asyncio.run(_looked_at(deployment, _named(self.queues), limit))
        if self.everything:
            return letters
        known = {each.letter.id for each in letters}
        for message_id in self.message_ids:
            if message_id not in known:
                raise ConfigurationError(_not_there(message_id))
        return [each for each in letters if each.letter.id in self.message_ids]

    def settled(
        self,
        deployment: Deployment,
        letters: Sequence[_Letter],
        verb: str,
        done: str,
        settle: "Callable[[DeadLetters, DeadLetter], Awaitable[None]]",
    ) -> bool:
        """Say which messages these are, ask, and settle them; tell whether that was done."""
        for each in letters:
            click.echo(f"{each.letter.id}\t{each.queue}\t{each.said.now}")
        if not letters:
            click.echo("No messages.", err=True)
            return True
        if self.dry_run:
            click.echo(f"Of these {len(letters)} none was {done}: this was a dry run.", err=True)
            return False
        if not self.yes:
            click.confirm(f"{verb} these {len(letters)}?", abort=True, err=True)
        count = asyncio.run(_settle(deployment, letters, settle))
        click.echo(f"{count} {done}.", err=True)
        if count < len(letters):
            click.echo(f"{len(letters) - count} were not there any more.", err=True)
        return True


def _chosen(command: options.Command) -> options.Command:
    """Give the command the options that say which messages, and hand it them as `chosen`."""

    @click.argument("message_ids", nargs=-1)
    @click.option("--all", "everything", is_flag=True, help="Every message.")
    @_queue
    @_limit
    @click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @functools.wraps(command)
    def with_chosen(*arguments: Any, **given: Any) -> Any:
        chosen = _Chosen(**{each.name: given.pop(each.name) for each in fields(_Chosen)})
        return command(*arguments, chosen=chosen, **given)

    return with_chosen


@click.group(short_help="Look into the dead letter queues.")
def dlq() -> None:
    """Look into the dead letter queues: queue messages that a function failed to process five times.

    A queue message holds ids only. The table holds the work, so no task depends on a message. The queues' URLs come from
    --stack, or from AION_TASK_QUEUE_URL and AION_PUSH_QUEUE_URL. Beside `aion dev` its own queues are read.
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
    found = asyncio.run(_looked_at(deployment, _named(queues), limit))
    if as_json:
        click.echo(json.dumps([each.document() for each in found], indent=2))
        return
    for each in found:
        does = "enqueue" if each.said.does_something else "idle" if each.said.is_wake_up else "poison"
        click.echo(
            "\t".join([each.letter.id, each.queue, f"{each.letter.sent_at:%Y-%m-%d %H:%M:%S}", does, each.said.now])
        )
    if not found:
        click.echo("No messages in the dead letter queues.", err=True)


@dlq.command(short_help="Print all of one message.")
@click.argument("message_id")
@_queue
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="How many are looked at."
)
@options.deployment
def show(message_id: str, queues: tuple[str, ...], limit: int, deployment: Deployment) -> None:
    """Print all of the message MESSAGE_ID: its body, and what the table says of its task now."""
    found = [
        each for each in asyncio.run(_looked_at(deployment, _named(queues), limit)) if each.letter.id == message_id
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
    short_help="Send messages again.",
    epilog="""\b
Examples:
  aion dlq redrive --all --dry-run --stack aion-prod
  aion dlq redrive --all --yes --stack aion-prod
  aion dlq redrive 5f0c… 8a11… --stack aion-prod""",
)
@_chosen
@options.deployment
def redrive(chosen: _Chosen, deployment: Deployment) -> None:
    """Send the queue messages MESSAGE_ID again, and delete them from the dead letter queue.

    A message that is sent twice does no harm. A message of another form stays; `drop` deletes it. Mend the cause first,
    or the messages are back after five tries.
    """
    letters = chosen.found(deployment)
    poison = [each for each in letters if not each.said.is_wake_up]
    work_queue = [each for each in letters if each.said.is_wake_up]
    for each in poison:
        click.echo(f"{each.letter.id}: left. {each.said.now}", err=True)
    done = chosen.settled(deployment, work_queue, "Send again", "sent again", _send_again)
    if done and poison:
        click.echo(
            "What is left is no message of aion's: look at it with `aion dlq show`, and throw it away with `aion dlq drop`."
        )


@dlq.command(short_help="Throw messages away.")
@_chosen
@options.deployment
def drop(chosen: _Chosen, deployment: Deployment) -> None:
    """Throw the messages MESSAGE_ID away.

    No task is lost by it: the table has what was promised, and the sweep finds what is overdue.
    """
    chosen.settled(deployment, chosen.found(deployment), "Throw away", "thrown away", _drop)


async def _send_again(letters: "DeadLetters", letter: "DeadLetter") -> None:
    await letters.send_again(letter)


async def _drop(letters: "DeadLetters", letter: "DeadLetter") -> None:
    await letters.drop(letter)


def _named(queues: Sequence[str]) -> list[Queue]:
    return [Queue(each) for each in queues] or list(Queue)


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

    operator = build_operator(deployment.settings(*PLACES))
    found = []
    for queue in queues:
        letters = _letters(deployment, queue)
        read = await letters.read(limit)
        await letters.give_back(read)
        found += [_Letter(queue, letter, await meaning_of(letter.body, operator, queue)) for letter in read]
    return found


def _letters(deployment: Deployment, queue: Queue) -> "DeadLetters":
    from aion_core.bootstrap.operator import build_dead_letters

    return build_dead_letters(deployment.settings(VARIABLES[queue]), queue.value)


def _not_there(message_id: str) -> str:
    return (
        f"No message {message_id} lies in the dead letter queues; somebody else may be reading it. See `aion dlq list`."
    )


async def meaning_of(body: str, operator: "Operator", queue: Queue) -> WakeUpMeaning:
    """Return what the message of the queue refers to; raises StoreError where the table cannot be asked."""
    try:
        return (
            await _turn(wake_up_of(body), operator)
            if queue is Queue.TASK
            else await _push(push_wake_up_of(body), operator)
        )
    except UnreadableWakeUp as error:
        return WakeUpMeaning({}, str(error), does_something=False)


async def _turn(wake_up: WakeUp, operator: "Operator") -> WakeUpMeaning:
    context = wake_up.context
    about: dict[str, object] = {
        "owner": context.owner,
        "agent": context.agent,
        "context": context.context_id,
        "fence": wake_up.fence,
    }
    now, does_something = of_context(await operator.inspection.context(context), operator.clock.now())
    return WakeUpMeaning(about, now, does_something)


def of_context(seen: "SeenContext | None", now: datetime) -> tuple[str, bool]:
    """Return what the context waits for, in words, and whether a bell would set something going in it. Pure."""
    from aion_core.tasks.contexts import turn_to_begin

    if seen is None or seen.record.expired:
        return "The context is gone: nothing is left to do.", False
    record = seen.record
    turn = turn_to_begin(record, int(now.timestamp() * 1000))
    if isinstance(turn, LeaseHeld):
        return f"Task {record.at_work} is at work, and its lease lives: nothing is to be done now.", False
    if turn is not None and record.running is not None:
        return f"The worker of task {turn.task_id} is gone (begun {turn.tries} times): a bell has it taken over.", True
    if turn is not None:
        return f"A turn of task {turn.task_id} waits, and nobody has begun it: a bell does.", True
    if record.interrupted is not None:
        behind = f", and {len(record.waiting)} turns wait behind it" if record.waiting else ""
        # The bell makes sure that the task which asks is still there.
        return f"Task {record.interrupted} waits for its client's answer{behind}.", bool(record.waiting)
    return "The context is at rest: nothing is to be done.", False


async def _push(wake_up: PushWakeUp, operator: "Operator") -> WakeUpMeaning:
    from aion_core.push.schedule import is_ready

    task = wake_up.task
    about: dict[str, object] = {"owner": task.owner, "task": task.task_id, "event": wake_up.generation}
    head = await operator.tasks.head(task)
    if head is None:
        return WakeUpMeaning(about, "The task is gone: nothing is left to be told.", does_something=False)
    found = await operator.push_configs.deliveries(task) if operator.push_configs is not None else ()
    if not found:
        return WakeUpMeaning(about, "No webhook is registered for the task any more.", does_something=False)
    behind = [each for each in found if not each.disabled and each.cursor < head.generation]
    ready = [each for each in found if is_ready(each, head.generation, operator.clock.now())]
    if ready:
        named = ", ".join(each.config_id for each in ready)
        return WakeUpMeaning(about, f"Something is to be posted for {named}: a bell does.", does_something=True)
    if behind:
        named = ", ".join(each.config_id for each in behind)
        return WakeUpMeaning(about, f"{named} failed, or is being posted to: it is tried again later.", False)
    return WakeUpMeaning(about, "Every webhook of the task has passed its events.", does_something=False)
