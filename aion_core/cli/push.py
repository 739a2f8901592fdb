"""`aion push`: how far the notifications of tasks have come, and the given-up ones posted again. It opens no secret."""

import asyncio
from typing import TYPE_CHECKING

import click

from aion_core.cli import options
from aion_core.cli.options import Deployment
from aion_core.cli.options import owner as named_owner
from aion_core.errors import ConfigurationError
from aion_core.ports import Delivery, PushWakeUp, TaskFilter, TaskKey

if TYPE_CHECKING:
    from aion_core.bootstrap.operator import PushOperator

SCANS = "Reading the whole table, since no owner is named (--owner or --subject): it takes its time with a large one."


@click.group(short_help="See which notifications fail; post them again.")
def push() -> None:
    """Look after push notifications: see which fail or were given up, and have them posted again.

    A task's key holds its owner. Where none is named (--owner or --subject), the whole table is read.
    """


@push.command(
    "list",
    short_help="Print what fails, was given up, or is gone.",
    epilog="""\b
Examples:
  aion push list --stack aion-prod
  aion push list --subject alice@example.com --agent helper --stack aion-prod""",
)
@click.option("--all", "everything", is_flag=True, help="Those too with which nothing is wrong.")
@named_owner
@click.option("--agent", default="", help="The owner's tasks with this agent; needed beside an owner.")
@click.option("--context", "context_id", default="", help="In this context of the owner and agent.")
@options.deployment
def list_pushes(owner: str, agent: str, context_id: str, deployment: Deployment, *, everything: bool) -> None:
    """Print the push configs whose notifications fail, were given up, or whose receivers are gone."""
    if bool(owner) != bool(agent) or (context_id and not owner):
        raise click.UsageError("Tasks are listed by owner and agent (and context): say both, or none for all of them.")
    found = asyncio.run(_listed(_operator(deployment), owner, agent, context_id))
    shown = [delivery for delivery in found if everything or _state(delivery) != "well"]
    for delivery in shown:
        click.echo("\t".join([delivery.task.task_id, delivery.config_id, _state(delivery), delivery.failure]))
    if not shown:
        click.echo("No push configs." if everything else "No push configs with failures.", err=True)


@push.command(short_help="Print how far a task's webhooks have come.")
@click.argument("task_id")
@named_owner
@options.deployment
def show(task_id: str, owner: str, deployment: Deployment) -> None:
    """Print all that is known of the notifications of the task TASK_ID: neither URLs nor credentials."""
    for delivery in asyncio.run(_of_task(_operator(deployment), owner, task_id)):
        lines = {
            "config": delivery.config_id,
            "owner": delivery.task.owner,
            "state": _state(delivery),
            "registered after event": delivery.after,
            "has passed event": delivery.cursor,
            "tries of the next": delivery.tries,
            "tried again": _next(delivery),
            "last failure": delivery.failure or "none",
            "given up": f"{delivery.dead}, from event {delivery.dead_from} on" if delivery.dead else "nothing",
        }
        click.echo("\n".join(f"{name:24}{value}" for name, value in lines.items()) + "\n")


@push.command(
    short_help="Post again what was given up.",
    epilog="""\b
Examples:
  aion push redrive 0199f0a2-… --subject alice@example.com --stack aion-prod
  aion push redrive 0199f0a2-… mine""",
)
@click.argument("task_id")
@click.argument("config_id", required=False)
@named_owner
@click.option(
    "--queue",
    envvar="AION_PUSH_QUEUE_URL",
    show_envvar=True,
    help="The output PushQueueUrl, without --stack; without either the sweep finds the work, within two minutes.",
)
@options.deployment
def redrive(task_id: str, config_id: str | None, owner: str, queue: str | None, deployment: Deployment) -> None:
    """Post again what was given up of the task TASK_ID, and go on with receivers that were gone.

    What came after the first event that was given up is posted again too, under the ids that it had.
    """
    operator = _operator(deployment, queue)
    chosen = [each for each in asyncio.run(_of_task(operator, owner, task_id)) if config_id in (None, each.config_id)]
    if not chosen:
        raise ConfigurationError(f"The task has no push config {config_id!r}. See `aion push show {task_id}`.")
    for delivery in chosen:
        if delivery.dead or delivery.disabled or delivery.tries:
            asyncio.run(_redrive(operator, delivery))
            click.echo(f"{delivery.config_id}: posted again from event {_first(delivery)} on.")
        else:
            click.echo(f"{delivery.config_id}: nothing was given up.")


def _operator(deployment: Deployment, queue: str | None = None) -> "PushOperator":
    from aion_core.bootstrap.operator import build_push_operator

    return build_push_operator(deployment.settings("AION_TABLE", push_queue_url=queue or ""))


async def _redrive(operator: "PushOperator", delivery: Delivery) -> None:
    await operator.configs.redrive(delivery.task, delivery.config_id)
    if operator.queue is not None:
        await operator.queue.enqueue(PushWakeUp(delivery.task))


async def _of_task(operator: "PushOperator", owner: str, task_id: str) -> list[Delivery]:
    if owner:
        found = list(await operator.configs.deliveries(TaskKey(owner, task_id)))
    else:
        click.echo(SCANS, err=True)
        found = [delivery async for delivery in operator.inspection.deliveries(task_id)]
    if not found:
        raise ConfigurationError(f"No push config is known of a task {task_id}. See `aion push list --all`.")
    return found


async def _listed(operator: "PushOperator", owner: str, agent: str, context_id: str) -> list[Delivery]:
    if not owner:
        click.echo(SCANS, err=True)
        return [delivery async for delivery in operator.inspection.deliveries()]
    tasks, after, found = TaskFilter(owner, agent, context_id or None), None, list[Delivery]()
    while places := await operator.task_list.page(tasks, after=after, limit=100):
        for place in places:
            found += await operator.configs.deliveries(TaskKey(owner, place.task_id))
        after = places[-1]
    return found


def _state(delivery: Delivery) -> str:
    if delivery.disabled:
        return "gone"
    if delivery.dead:
        return f"given up: {delivery.dead}"
    return f"failing, {delivery.tries} tries" if delivery.tries else "well"


def _first(delivery: Delivery) -> int:
    return delivery.dead_from or delivery.cursor + 1


def _next(delivery: Delivery) -> str:
    if delivery.disabled:
        return "never, but by `aion push redrive`"
    if delivery.claimed_until is not None:
        return "just now"
    at = delivery.next_at or delivery.due_at
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "when there is something to post"
