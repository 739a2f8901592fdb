"""`aion tasks` lists, shows and cancels tasks, without decrypting secrets."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli import deployment_options, documents, options
from aion_tools.cli.deployment_options import PLACES, Deployment
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.operate.report import TaskReport, list_heads, task_report
from aion_tools.cli.operate.task_names import found_by_name
from aion_tools.cli.owner_options import SCANS_FOR_PART, listed_by
from aion_tools.cli.owner_options import owner as named_owner
from aion_tools.cli.steps import result_of

if TYPE_CHECKING:
    from aion_core.engine.records import Head
    from aion_core.table.keys import ContextKey
    from aion_tools.operator.bootstrap import Operator

READING = "Reading the table"

STATES = (
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "input-required",
    "rejected",
    "auth-required",
)

_scan = click.option(
    "--scan",
    is_flag=True,
    help="Read the whole table: slow and costly for a large one. The default with `aion dev`.",
)


@click.group(cls=HintingGroup)
def tasks() -> None:
    """List, show and cancel tasks.

    A task is stored under its owner: name the owner with --owner, or with --subject and --issuer. `aion why`, `aion dlq
    show` and the commands with --scan print owners; logs have none. With `aion dev` no owner is needed. You
    can name a task by the first or last characters of its id, and the newest one as `last`; for a deployment, this reads
    the whole table.
    """


@tasks.command(
    "list",
    short_help="Print tasks and their states.",
    epilog="""\b
Examples:
  aion tasks list
  aion tasks list --expired --stack aion-prod
  aion tasks list --subject alice@example.com --agent helper --stack aion-prod
  aion tasks list --owner principal:5f… --agent helper --context c-1 --state working
  aion tasks list --scan --state working""",
)
@listed_by
@click.option(
    "--state", type=click.Choice(STATES), metavar="STATE", help=f"Only tasks in this state: {', '.join(STATES)}."
)
@click.option("--expired", is_flag=True, help="Tasks of all owners with an expired timer.")
@_scan
@documents.limit
@options.as_json
@deployment_options.deployment
def list_tasks(
    owner: str,
    agent: str,
    context_id: str,
    state: str | None,
    limit: int,
    deployment: Deployment,
    *,
    expired: bool,
    scan: bool,
    as_json: bool,
) -> None:
    """Print id, state, time of the state, owner, agent and context of tasks, newest first.

    A deployment needs an owner and an agent, or --expired, or --scan.
    """
    scan = scan or (not owner and not expired and deployment.is_of_development)
    operator = _operator(deployment)
    if sum([bool(owner), expired, scan]) != 1:
        raise click.UsageError(
            "Name an owner (--owner or --subject), or give --expired, or --scan for the whole table: one of them."
        )
    if expired:
        heads = result_of(_expired(operator, agent, state, limit), READING)
        number = len(heads)
    else:
        heads, number = result_of(list_heads(operator, owner, agent, context_id, state, limit), READING)
    columns = ("task", "state", "since", "owner", "agent", "context")
    documents.print_rows(list(map(_document, heads)), columns, "tasks", as_json=as_json, number=number)


@tasks.command(
    short_help="Print everything stored about a task.",
    epilog="""\b
Examples:
  aion tasks show 0199f0a2-…
  aion tasks show 0199f0a2-… --subject alice@example.com --stack aion-prod
  aion tasks show 0199f0a2-… --scan --content""",
)
@click.argument("task_id")
@named_owner
@_scan
@click.option("--content", is_flag=True, help="Print the events' contents too: messages of people and agents.")
@options.as_json
@deployment_options.deployment
def show(task_id: str, owner: str, deployment: Deployment, *, scan: bool, content: bool, as_json: bool) -> None:
    """Print the state, events, timers and webhooks of the task TASK_ID, and the lease and turns of its context."""
    scan = scan or (not owner and deployment.is_of_development)
    operator = _operator(deployment)
    found = result_of(_reports(operator, task_id, owner, scan=scan, content=content), READING)
    documents.print_whole([each.document() for each in found], as_json=as_json)


@tasks.command(
    short_help="Cancel a task.",
    epilog="""\b
Examples:
  aion tasks cancel 0199f0a2-… --subject alice@example.com --stack aion-prod
  aion tasks cancel 0199f0a2-… --owner principal:5f… --yes""",
)
@click.argument("task_id")
@named_owner
@_scan
@options.yes
@deployment_options.deployment
def cancel(task_id: str, owner: str, deployment: Deployment, *, scan: bool, yes: bool) -> None:
    """Cancel the task TASK_ID, as its client could.

    Its worker stops within seconds. The next turn of its context begins.
    """
    scan = scan or (not owner and deployment.is_of_development)
    operator = _operator(deployment)
    heads = result_of(find_heads(operator, task_id, owner, scan=scan), READING)
    for head in heads:
        if not yes:
            options.confirm(f"Cancel the task {head.key.task_id} of {head.key.owner}?")
        result_of(_cancel(operator, head), "Canceling the task")
        click.echo(f"Task {head.key.task_id} is canceled.")


def _operator(deployment: Deployment) -> "Operator":
    from aion_tools.operator.bootstrap import build_operator

    return build_operator(deployment.settings(*PLACES))


async def _cancel(operator: "Operator", head: "Head") -> None:
    from aion_core.engine.call import CallContext

    await operator.service.cancel(CallContext(head.key.owner, head.context.agent), head.key.task_id)


async def _reports(operator: "Operator", task_id: str, owner: str, *, scan: bool, content: bool) -> list[TaskReport]:
    heads = await find_heads(operator, task_id, owner, scan=scan)
    return [await task_report(operator, head, content=content) for head in heads]


async def find_heads(operator: "Operator", task_id: str, owner: str, *, scan: bool) -> "list[Head]":
    """Read the head of an owner's task or, with `scan`, the heads of all owners' tasks with this id.

    A part of the id or `last` names the task too. Raises ConfigurationError if there is no such task.
    """
    from aion_core.table.keys import TaskKey

    if bool(owner) == scan:
        raise click.UsageError("Name the task's owner (--owner or --subject), or give --scan to search the table.")
    head = await operator.tasks.head(TaskKey(owner, task_id)) if owner else None
    if owner and head is None:
        click.echo(SCANS_FOR_PART, err=True)
    found = (
        [head]
        if head is not None
        else await found_by_name(task_id, operator.inspection.tasks, lambda head: head.key, owner=owner)
    )
    if not found:
        of_owner = "" if scan else " of this owner"
        raise ConfigurationError(f"There is no task {task_id}{of_owner}; it may have expired.")
    return found


async def _expired(operator: "Operator", agent: str, state: str | None, limit: int) -> "list[Head]":
    """For each context with an expired timer, return the head of its active or interrupted task, oldest timer first.

    `agent` and `state` select tasks.
    """
    from aion_core.engine.task.states import state_name
    from aion_core.table.keys import TaskKey

    async def read(context: "ContextKey") -> "Head | None":
        seen = await operator.inspection.context(context)
        task_id = (seen.record.active_task or seen.record.interrupted) if seen is not None else None
        return await operator.tasks.head(TaskKey(context.owner, task_id)) if task_id else None

    timers = await operator.tasks.expired_timers(limit=documents.LIMIT if agent or state else limit, complete=True)
    # The operator's executor limits the number of requests at once.
    heads = await asyncio.gather(*(read(each.context) for each in timers if agent in ("", each.context.agent)))
    return [head for head in heads if head is not None and state in (None, state_name(head.state))][:limit]


def _document(head: "Head") -> dict[str, Any]:
    from aion_core.engine.task.states import state_name

    return {
        "task": head.key.task_id,
        "state": state_name(head.state),
        "since": head.timestamp,
        "owner": head.key.owner,
        "agent": head.context.agent,
        "context": head.context.context_id,
    }
