"""`aion push` shows, redrives and deletes push notifications, without decrypting secrets."""

import asyncio
import json
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from aion_core.engine.delivery.records import Delivery
from aion_core.engine.listing.task_list import TaskFilter
from aion_core.engine.queues import PushWakeUp
from aion_core.errors import ConfigurationError
from aion_core.log import one_line
from aion_core.table.keys import TaskKey
from aion_tools.cli import deployment_options, options
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.owner_options import owner as named_owner
from aion_tools.cli.render import delivery_document
from aion_tools.cli.steps import result_of

if TYPE_CHECKING:
    from aion_tools.operator.bootstrap import PushOperator

READING = "Reading the table"

SCANS = "Reading the whole table, since no owner is given (--owner or --subject). This is slow for a large table."

TASKS_AT_ONCE = 100
"""Number of an owner's tasks in one page. Their configs are read at once."""


@click.group(cls=HintingGroup, short_help="Show, redrive and delete push notifications.")
def push() -> None:
    """Show failing and dead push notifications, redrive them, and delete push configs.

    Without an owner (--owner or --subject), the command reads the whole table.
    """


@push.command(
    "list",
    short_help="Print failing configs.",
    epilog="""\b
Examples:
  aion push list --stack aion-prod
  aion push list --agent helper --stack aion-prod
  aion push list --subject alice@example.com --agent helper --stack aion-prod
  aion push list --stack aion-prod --json""",
)
@click.option("--all", "everything", is_flag=True, help="Print configs without failures too.")
@named_owner
@click.option(
    "--agent", default="", shell_complete=options.agent_ids, help="Only tasks of this agent; required with an owner."
)
@click.option("--context", "context_id", default="", help="Only tasks of this context; requires an owner.")
@options.as_json
@deployment_options.deployment
def list_pushes(
    owner: str, agent: str, context_id: str, deployment: Deployment, *, everything: bool, as_json: bool
) -> None:
    """Print the push configs with failing deliveries, dead letters or disabled webhooks.

    Each line has the task, the config's id, its state, the last failure, and the owner.
    """
    if owner and not agent:
        raise click.UsageError("Tasks are listed by owner and agent: give --agent too.")
    if context_id and not owner:
        raise click.UsageError("--context requires an owner (--owner or --subject).")
    operator = _operator(deployment)
    found = result_of(_listed(operator, owner, agent, context_id), READING)
    printed = [delivery for delivery in found if everything or _state(delivery) != "ok"]
    if agent and not owner:
        printed = result_of(_of_agent(operator, printed, agent), READING)
    if as_json:
        click.echo(json.dumps([_document(each) for each in printed], indent=2))
        return
    for delivery in printed:
        line = [
            delivery.task.task_id,
            delivery.config_id,
            _state(delivery),
            delivery.failure or "-",
            delivery.task.owner,
        ]
        click.echo("\t".join(map(one_line, line)))
    if not printed:
        click.echo("No push configs." if everything else "No push configs with failures.", err=True)


@push.command(short_help="Print a task's deliveries.")
@click.argument("task_id")
@named_owner
@deployment_options.deployment
def show(task_id: str, owner: str, deployment: Deployment) -> None:
    """Print the state of the task TASK_ID's push notifications, without URLs and credentials."""
    for delivery in result_of(_of_task(_operator(deployment), owner, task_id), READING):
        lines = {
            "config": delivery.config_id,
            "owner": delivery.task.owner,
            "state": _state(delivery),
            "created after event": delivery.after,
            "delivered through": delivery.cursor,
            "attempts of next": delivery.tries,
            "next attempt": _next(delivery),
            "last failure": delivery.failure or "-",
            "dead letters": f"{delivery.dead}, from event {delivery.dead_from} on" if delivery.dead else "-",
        }
        click.echo("\n".join(f"{name:24}{one_line(str(value))}" for name, value in lines.items()) + "\n")


@push.command(
    short_help="Redrive dead push notifications.",
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
    help="The stack's output PushQueueUrl, if --stack is not given. Without both, the sweep starts the delivery within two minutes.",
)
@deployment_options.deployment
def redrive(task_id: str, config_id: str | None, owner: str, queue: str | None, deployment: Deployment) -> None:
    """Deliver the dead push notifications of the task TASK_ID again, and enable disabled webhooks.

    Later events are delivered again too, under the same webhook-ids.
    """
    operator = _operator(deployment, queue)
    for delivery in _chosen(operator, owner, task_id, config_id):
        if delivery.dead or delivery.disabled or delivery.tries:
            result_of(_redrive(operator, delivery), "Redriving")
            click.echo(f"{one_line(delivery.config_id)}: redriven from event {_first(delivery)} on.")
        else:
            click.echo(f"{one_line(delivery.config_id)}: no dead letters.")


@push.command(
    short_help="Delete push configs of a task.",
    epilog="""\b
Examples:
  aion push delete 0199f0a2-… --subject alice@example.com --stack aion-prod
  aion push delete 0199f0a2-… mine --yes""",
)
@click.argument("task_id")
@click.argument("config_id", required=False)
@named_owner
@options.yes
@deployment_options.deployment
def delete(task_id: str, config_id: str | None, owner: str, deployment: Deployment, *, yes: bool) -> None:
    """Delete the push configs of the task TASK_ID, or only the one with the id CONFIG_ID.

    Their webhooks receive no more events, except an event that is being posted now.
    """
    operator = _operator(deployment)
    chosen = _chosen(operator, owner, task_id, config_id)
    if not yes:
        names = ", ".join(one_line(each.config_id) for each in chosen)
        options.confirm(f"Delete the push configs {names} of the task {task_id}?")
    for delivery in chosen:
        result_of(operator.configs.delete(delivery.task, delivery.config_id), "Deleting")
        click.echo(f"{one_line(delivery.config_id)}: deleted.")


def _operator(deployment: Deployment, queue: str | None = None) -> "PushOperator":
    from aion_tools.operator.bootstrap import build_push_operator

    return build_push_operator(deployment.settings("AION_TABLE", push_queue_url=queue or ""))


async def _redrive(operator: "PushOperator", delivery: Delivery) -> None:
    await operator.configs.redrive(delivery.task, delivery.config_id)
    if operator.queue is not None:
        await operator.queue.enqueue(PushWakeUp(delivery.task))


def _chosen(operator: "PushOperator", owner: str, task_id: str, config_id: str | None) -> list[Delivery]:
    """Return the deliveries of a task, or of its config. Raises ConfigurationError if there are none."""
    found = result_of(_of_task(operator, owner, task_id), READING)
    chosen = [each for each in found if config_id in (None, each.config_id)]
    if not chosen:
        raise ConfigurationError(f"The task has no push config {config_id!r}. See `aion push show {task_id}`.")
    return chosen


async def _of_task(operator: "PushOperator", owner: str, task_id: str) -> list[Delivery]:
    if owner:
        found = list(await operator.configs.deliveries(TaskKey(owner, task_id)))
    else:
        click.echo(SCANS, err=True)
        found = [delivery async for delivery in operator.inspection.deliveries(task_id)]
    if not found:
        raise ConfigurationError(f"There is no push config of task {task_id}. See `aion push list --all`.")
    return found


async def _listed(operator: "PushOperator", owner: str, agent: str, context_id: str) -> list[Delivery]:
    if not owner:
        click.echo(SCANS, err=True)
        return [delivery async for delivery in operator.inspection.deliveries()]
    tasks, after, found = TaskFilter(owner, agent, context_id or None), None, list[Delivery]()
    while entries := (await operator.task_list.page(tasks, after=after, limit=TASKS_AT_ONCE)).found:
        # The operator's executor limits the number of requests at once.
        read = await asyncio.gather(*(operator.configs.deliveries(TaskKey(owner, each.task_id)) for each in entries))
        found += chain.from_iterable(read)
        after = entries[-1]
    return found


async def _of_agent(operator: "PushOperator", found: Sequence[Delivery], agent: str) -> list[Delivery]:
    """Return the deliveries of this agent's tasks."""
    tasks = list({delivery.task: None for delivery in found})
    # The operator's executor limits the number of requests at once.
    agents = dict(zip(tasks, await asyncio.gather(*map(operator.inspection.agent_of, tasks)), strict=True))
    return [delivery for delivery in found if agents[delivery.task] == agent]


def _document(delivery: Delivery) -> dict[str, Any]:
    return {"task": delivery.task.task_id, "owner": delivery.task.owner, **delivery_document(delivery)}


def _state(delivery: Delivery) -> str:
    if delivery.disabled:
        return "disabled"
    if delivery.dead:
        return f"dead letters: {delivery.dead}"
    return f"failing, {delivery.tries} attempts" if delivery.tries else "ok"


def _first(delivery: Delivery) -> int:
    return delivery.dead_from or delivery.cursor + 1


def _next(delivery: Delivery) -> str:
    if delivery.disabled:
        return "only by `aion push redrive`"
    if delivery.claimed_until is not None:
        return "in progress"
    at = delivery.next_at or delivery.due_at
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "with the next event"
