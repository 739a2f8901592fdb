"""`aion push` shows, redrives and deletes push notifications, without decrypting secrets."""

import asyncio
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
from aion_tools.cli import deployment_options, documents, options
from aion_tools.cli.deployment_options import Deployment
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.operate.report import delivery_document, delivery_state
from aion_tools.cli.operate.task_names import found_by_name, named
from aion_tools.cli.owner_options import SCANS, SCANS_FOR_PART, listed_by
from aion_tools.cli.owner_options import owner as named_owner
from aion_tools.cli.steps import result_of

if TYPE_CHECKING:
    from aion_tools.operator.bootstrap import PushOperator

READING = "Reading the table"

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
@listed_by
@documents.limit
@options.as_json
@deployment_options.deployment
def list_pushes(
    owner: str, agent: str, context_id: str, limit: int, deployment: Deployment, *, everything: bool, as_json: bool
) -> None:
    """Print the push configs with failing deliveries, dead letters or disabled webhooks."""
    operator = _operator(deployment)
    found = result_of(_listed(operator, owner, agent, context_id), READING)
    chosen = [delivery for delivery in found if everything or delivery_state(delivery) != "ok"]
    if agent and not owner:
        chosen = result_of(_of_agent(operator, chosen, agent), READING)
    rows, columns = list(map(_document, chosen[:limit])), ("task", "config", "state", "failure", "owner")
    what = "push configs" if everything else "push configs with failures"
    documents.print_rows(rows, columns, what, as_json=as_json, number=len(chosen))


@push.command(short_help="Print a task's deliveries.")
@click.argument("task_id")
@named_owner
@options.as_json
@deployment_options.deployment
def show(task_id: str, owner: str, deployment: Deployment, *, as_json: bool) -> None:
    """Print the state of the task TASK_ID's push notifications, without URLs and credentials."""
    found = result_of(_of_task(_operator(deployment), owner, task_id), READING)
    documents.print_whole([_document(each) for each in found], as_json=as_json)


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
    wanted = named(config_id, {each.config_id for each in found}, "push configs") if config_id is not None else None
    chosen = [each for each in found if wanted in (None, each.config_id)]
    if not chosen:
        raise ConfigurationError(f"The task has no push config {config_id!r}. See `aion push show {task_id}`.")
    return chosen


async def _of_task(operator: "PushOperator", owner: str, task_id: str) -> list[Delivery]:
    found = list(await operator.configs.deliveries(TaskKey(owner, task_id))) if owner else []
    if not found:
        click.echo(SCANS_FOR_PART if owner else SCANS, err=True)
        found = await found_by_name(task_id, operator.inspection.deliveries, lambda each: each.task, owner=owner)
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


def _first(delivery: Delivery) -> int:
    return delivery.dead_from or delivery.cursor + 1
