"""`aion destroy` deletes a deployment and, with --data, its stored data."""

import sys
from typing import TYPE_CHECKING

import click

from aion_tools.cli import aws_options, options
from aion_tools.cli.aws_options import stack as stack_option
from aion_tools.cli.steps import INDENT, step

if TYPE_CHECKING:
    from aion_tools.deploy.destroy import DestroyPlan


@click.command(
    short_help="Delete a deployment, with --data also its data.",
    epilog="""\b
Examples:
  aion destroy --stack aion-dev              print the plan and ask
  aion destroy --stack aion-dev --data       delete table, bucket and key too
  aion destroy --stack aion-dev --yes        do not ask""",
)
@aws_options.aws
@stack_option
@click.option("--data", is_flag=True, help="Delete table, bucket, key and logs too: all tasks and messages.")
@options.yes
def destroy(stack: str, *, data: bool, yes: bool) -> None:
    """Delete the stack and wait until it is gone. Table, bucket and key are retained unless --data is given.

    On a terminal the command asks for the stack's name first. Without a terminal it needs --yes. If the
    command fails, run it again: it continues the deletion.
    """
    from aion_tools.deploy import destroy as destroying
    from aion_tools.deploy import images

    planned = destroying.plan(stack)
    if planned.is_empty:
        click.echo(f"Nothing is left of {stack}.")
        _print_earlier(planned)
        return
    _print_plan(planned, data=data)
    _print_earlier(planned)
    destroying.check(planned, data=data)
    if not (planned.stack or planned.repositories or data):
        click.echo("The stack is deleted already. --data deletes its retained resources.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Nothing was deleted: without a terminal, give --yes.")
        if click.prompt(f"Type {stack} to delete it", default="", show_default=False) != stack:
            click.echo("Nothing was deleted.")
            sys.exit(1)
    if planned.stack is not None:
        with step(f"stack {stack}") as running:
            destroying.delete_stack(planned.stack, lambda event: running.progress(f"{event.path} {event.status}"))
            running.result = "deleted"
    if planned.repositories is not None:
        with step("images") as running:
            images.empty(planned.repositories)
            destroying.delete_stack(
                planned.repositories, lambda event: running.progress(f"{event.path} {event.status}")
            )
            running.result = "deleted"
    if not data:
        return
    # List the log groups again after the deletion, because a late log line of a function may have created its log group
    # again.
    for each in [*planned.retained, *destroying.log_groups(stack)]:
        if each.type != destroying.LOG_GROUP and not destroying.is_there(each):
            continue
        with step(str(each)) as running:
            running.result = destroying.delete(each, running.progress)
    click.echo(f"{INDENT}DynamoDB keeps a backup of a table with point-in-time recovery for 35 days, without charge.")


def _print_plan(planned: "DestroyPlan", *, data: bool) -> None:
    """Print the resources to be deleted, and the retained resources with the commands that delete them by hand."""
    from aion_tools.deploy import destroy as destroying

    if planned.stack is not None:
        click.echo(f"The stack {planned.name} ({planned.stack.status}): functions, API, queues, roles, alarms, logs.")
    if planned.repositories is not None:
        click.echo(f"The stack {planned.repositories.name}: the repositories of its images.")
    for own in planned.of_project:
        click.echo(f"  {'stays' if own.is_retained else 'is deleted'}: your {own.path}, {own.type} {own.physical_id}")
    for each in planned.retained:
        click.echo(f"  {'is deleted' if data else 'stays'}: {each}")
    if planned.stack is None:
        for each in planned.log_groups:
            click.echo(f"  {'is deleted' if data else 'stays'}: {each}")
    if planned.retained and not data:
        click.echo("  Retained resources hold tasks and messages. `--data` deletes them, also later; by hand:")
        for each in planned.retained:
            click.echo(f"    {BY_HAND[destroying.KINDS[each.type]].format(each.name)}")


def _print_earlier(planned: "DestroyPlan") -> None:
    if planned.earlier:
        names = ", ".join(map(str, planned.earlier))
        click.echo(f"  Not deleted, from earlier stacks of this name: {names}")


BY_HAND = {
    "table": "aws dynamodb delete-table --table-name {}",
    "bucket": "aws s3api list-object-versions --bucket {0}   (delete each version, then: aws s3 rb s3://{0})",
    "key": "aws kms schedule-key-deletion --key-id {}",
    "log group": "aws logs delete-log-group --log-group-name {}",
}
