"""`aion destroy` deletes a deployment by `sam delete` and, with --data, the table, bucket and key that this retains."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli import aws_options, options
from aion_tools.cli.aws_options import stack as stack_option
from aion_tools.cli.steps import step

OWN = {"Aion", "ApiFunction"}
"""Logical ids in an aion template. A stack without one of them belongs to another program and is not deleted."""


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
@click.option("--data", is_flag=True, help="Delete table, bucket and key too: all tasks and messages.")
@options.yes
def destroy(stack: str, *, data: bool, yes: bool) -> None:
    """Delete the stack with `sam delete`. The table, bucket and key stay unless you give --data, now or later.

    On a terminal the command asks for the stack's name first. Without a terminal it needs --yes. If the
    command fails, run it again: it continues where it stopped.
    """
    from aion_tools.deploy import cloudformation, stored_data
    from aion_tools.deploy.errors import DeployError

    existing = cloudformation.find(stack)
    stack_id = existing.id if existing else cloudformation.last_deleted(stack)
    if not stack_id:
        raise ConfigurationError(
            f"There is no stack {stack!r} in this account and region, nor was there one in the last 90 days. Check --region "
            "and --profile."
        )
    resources = list(cloudformation.resources(stack_id))
    paths = {each.path for each in resources}
    if paths and not paths & OWN:
        raise ConfigurationError(f"The stack {stack!r} is not an aion stack. Nothing was deleted.")
    left = stored_data.data_among(resources)
    if existing is None and not left:
        click.echo(f"Nothing is left of {stack}.")
        return
    if existing is not None:
        click.echo(f"The stack {stack} ({existing.status}): functions, API, queues, roles, alarms, logs; and your own")
        click.echo("resources in template.yaml, as their DeletionPolicy says.")
    for each in left:
        click.echo(f"  {'is deleted' if data else 'stays'}: {stored_data.KINDS[each.type]} {each.physical_id}")
    if left and not data:
        click.echo("  These hold tasks and messages. `--data` deletes them, even later, when the stack is gone.")
    for each in left if data else ():
        if stored_data.is_protected(each):
            raise DeployError(
                f"The table {each.physical_id} has deletion protection. Nothing was deleted.",
                next_step=f"aws dynamodb update-table --no-deletion-protection-enabled --table-name {each.physical_id}",
            )
    if existing is None and not data:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Nothing was deleted: without a terminal, give --yes.")
        if click.prompt(f"Type {stack} to delete it", default="", show_default=False) != stack:
            click.echo("Nothing was deleted.")
            sys.exit(1)
    if existing is not None:
        _delete_stack(stack)
    for each in left if data else ():
        with step(f"{stored_data.KINDS[each.type]} {each.physical_id}") as running:
            running.result = stored_data.delete(each)


def _delete_stack(stack: str) -> None:
    from aion_tools.deploy import aws, cloudformation, failures, sam, sam_install
    from aion_tools.deploy.errors import DeployError

    command = [str(sam_install.command()), "delete", "--stack-name", stack, "--region", aws.region(), "--no-prompts"]
    # In this folder SAM finds no samconfig.toml, whose s3_prefix may be that of another stack.
    with TemporaryDirectory() as folder:
        try:
            sam.run(command, Path(folder))
        except DeployError:
            found = cloudformation.find(stack)
            failure = failures.failure_of(found) if found and found.status == "DELETE_FAILED" else None
            if failure is None:
                raise
            raise failure from None
