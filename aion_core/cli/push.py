"""`aion push`: how far the notifications of tasks have come, and the given-up ones posted again. It opens no secret."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import click

from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError
from aion_core.ports import Delivery, PushBell

_table = click.option(
    "--table",
    envvar="AION_TABLE",
    required=True,
    show_envvar=True,
    help="The deployment's table: the stack's output TableName. AWS credentials come from where AWS tools find them.",
)


@click.group()
def push() -> None:
    """Look after push notifications: see which fail or were given up, and have them posted again."""


@push.command("list")
@_table
@click.option("--all", "everything", is_flag=True, help="Those too with which nothing is wrong.")
def list_pushes(table: str, *, everything: bool) -> None:
    """Print the push configs whose notifications fail, were given up, or whose receivers are gone.

    It reads the whole table, and takes its time with a large one.
    """
    for delivery in _found(table):
        if everything or _state(delivery) != "well":
            click.echo("\t".join([delivery.task.task_id, delivery.config_id, _state(delivery), delivery.failure]))


@push.command()
@click.argument("task_id")
@_table
def show(task_id: str, table: str) -> None:
    """Print all that is known of the notifications of the task TASK_ID: neither URLs nor credentials."""
    for delivery in _of_task(table, task_id):
        lines = {
            "config": delivery.config_id,
            "owner": delivery.task.owner,
            "state": _state(delivery),
            "registered after event": delivery.after,
            "has passed event": delivery.cursor,
            "tries of the next": delivery.tries,
            "tried again": _time(delivery.next_at),
            "last failure": delivery.failure or "none",
            "given up": f"{delivery.dead}, from event {delivery.dead_from} on" if delivery.dead else "nothing",
        }
        click.echo("\n".join(f"{name:24}{value}" for name, value in lines.items()) + "\n")


@push.command(
    epilog="""\b
Examples:
  aion push redrive 0199f0a2-… --table aion-dev-Table-1ABC
  aion push redrive 0199f0a2-… mine"""
)
@click.argument("task_id")
@click.argument("config_id", required=False)
@_table
@click.option(
    "--queue",
    envvar="AION_PUSH_QUEUE_URL",
    show_envvar=True,
    help="The stack's output PushQueueUrl; without it the sweep finds the work, within two minutes.",
)
def redrive(task_id: str, config_id: str | None, table: str, queue: str | None) -> None:
    """Post again what was given up of the task TASK_ID, and go on with receivers that were gone.

    What came after the first event that was given up is posted again too, under the ids that it had.
    """
    chosen = [each for each in _of_task(table, task_id) if config_id in (None, each.config_id)]
    if not chosen:
        raise ConfigurationError(f"The task has no push config {config_id!r}. See `aion push show {task_id}`.")
    for delivery in chosen:
        if delivery.dead or delivery.disabled or delivery.tries:
            asyncio.run(_redrive(table, queue, delivery))
            click.echo(f"{delivery.config_id}: posted again from event {_first(delivery)} on.")
        else:
            click.echo(f"{delivery.config_id}: nothing was given up.")


async def _redrive(table: str, queue: str | None, delivery: Delivery) -> None:
    from aion_core.aws.client import Calls
    from aion_core.aws.push_configs import DynamoDBPushConfigs
    from aion_core.aws.queues import SQSPushBells

    with ThreadPoolExecutor(2) as executor:
        configs = DynamoDBPushConfigs(Calls("dynamodb", executor), None, SystemClock(), table=table)
        await configs.redrive(delivery.task, delivery.config_id)
        if queue:
            await SQSPushBells(Calls("sqs", executor), queue_url=queue).ring(PushBell(delivery.task))


def _of_task(table: str, task_id: str) -> list[Delivery]:
    found = _found(table, task_id)
    if not found:
        raise ConfigurationError(f"No push config is known of a task {task_id}. See `aion push list --all`.")
    return found


def _found(table: str, task_id: str = "") -> list[Delivery]:
    from aion_core.aws.client import Calls
    from aion_core.aws.push_search import PushSearch

    async def found() -> list[Delivery]:
        with ThreadPoolExecutor(2) as executor:
            search = PushSearch(Calls("dynamodb", executor), SystemClock(), table=table)
            return [delivery async for delivery in search.deliveries(task_id)]

    return asyncio.run(found())


def _state(delivery: Delivery) -> str:
    if delivery.disabled:
        return "gone"
    if delivery.dead:
        return f"given up: {delivery.dead}"
    return f"failing, {delivery.tries} tries" if delivery.tries else "well"


def _first(delivery: Delivery) -> int:
    return delivery.dead_from or delivery.cursor + 1


def _time(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "when there is something to post"
