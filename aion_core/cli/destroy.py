"""`aion destroy`: deletes a deployment, and, with --data, what people have said to it."""

import sys
from typing import TYPE_CHECKING

import click

from aion_core.cli import options
from aion_core.cli.options import stack as stack_option
from aion_core.cli.steps import INDENT, step

if TYPE_CHECKING:
    from aion_core.deploy.destroy import DestroyPlan


@click.command(
    short_help="Delete a deployment, and with --data what it has stored.",
    epilog="""\b
Examples:
  aion destroy --stack aion-dev              what would be deleted, and a question
  aion destroy --stack aion-dev --data       the table, the bucket and the key too
  aion destroy --stack aion-dev --yes        without a question""",
)
@options.aws
@stack_option
@click.option("--data", is_flag=True, help="Delete table, bucket, key and logs too: all that people have said.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing.")
def destroy(stack: str, *, data: bool, yes: bool) -> None:
    """Delete the stack and wait until it is gone; table, bucket and key stay, unless --data is given.

    A terminal asks for the stack's name first; elsewhere nothing is deleted without --yes. A second run goes on where one failed.
    """
    from aion_core.deploy import destroy as destroying

    planned = destroying.plan(stack)
    if planned.is_empty:
        click.echo(f"Nothing is left of {stack}.")
        _tell_earlier(planned)
        return
    _tell(planned, data=data)
    _tell_earlier(planned)
    destroying.check(planned, data=data)
    if planned.stack is None and not data:
        click.echo("The stack is deleted already. --data deletes what it has left.")
        return
    if not yes:
        if not sys.stdin.isatty():
            click.echo("Nothing was deleted: say --yes, since nobody can be asked here.")
            return
        if click.prompt(f"Type {stack} to delete it", default="", show_default=False) != stack:
            click.echo("Nothing was deleted.")
            sys.exit(1)
    if planned.stack is not None:
        with step(f"stack {stack}") as under_way:
            destroying.delete_stack(planned.stack, lambda event: under_way.progress(f"{event.path} {event.status}"))
            under_way.said = "deleted"
    if not data:
        return
    # The groups of the stack went with it; one of a function that logged at last is there again.
    for each in [*planned.kept, *destroying.log_groups(stack)]:
        if each.type != destroying.LOG_GROUP and not destroying.is_there(each):
            continue
        with step(str(each)) as under_way:
            under_way.said = destroying.delete(each, under_way.progress)
    click.echo(f"{INDENT}DynamoDB keeps a backup of a table with point-in-time recovery for 35 days, without charge.")


def _tell(planned: "DestroyPlan", *, data: bool) -> None:
    """Say what is deleted, and what stays and how to be rid of it."""
    from aion_core.deploy import destroy as destroying

    if planned.stack is not None:
        click.echo(f"The stack {planned.name} ({planned.stack.status}): functions, API, queues, roles, alarms, logs.")
    for each in planned.kept:
        click.echo(f"  {'is deleted' if data else 'stays'}: {each}")
    if planned.stack is None:
        for each in planned.log_groups:
            click.echo(f"  {'is deleted' if data else 'stays'}: {each}")
    if planned.kept and not data:
        click.echo("  What stays holds what people have said. `--data` deletes it, also later; by hand:")
        for each in planned.kept:
            click.echo(f"    {BY_HAND[destroying.KINDS[each.type]].format(each.name)}")


def _tell_earlier(planned: "DestroyPlan") -> None:
    if planned.earlier:
        names = ", ".join(map(str, planned.earlier))
        click.echo(f"  Earlier stacks of this name have left, and this command leaves: {names}")


BY_HAND = {
    "table": "aws dynamodb delete-table --table-name {}",
    "bucket": "aws s3api list-object-versions --bucket {0}   (delete each version, then: aws s3 rb s3://{0})",
    "key": "aws kms schedule-key-deletion --key-id {}",
    "log group": "aws logs delete-log-group --log-group-name {}",
}
