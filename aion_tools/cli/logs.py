"""`aion logs` prints the log lines of a deployment's functions and, on request, follows new lines."""

import time
from typing import TYPE_CHECKING

import click

from aion_tools.cli import aws_options
from aion_tools.cli.aws_options import stack as stack_option
from aion_tools.cli.steps import waiting

if TYPE_CHECKING:
    from aion_tools.deploy.logs import LogLine

COLOURS = {"ERROR": "red", "CRITICAL": "red", "WARNING": "yellow", "DEBUG": "bright_black"}


def _since(_: click.Context, __: click.Parameter, given: str) -> int:
    from aion_tools.deploy.logs import seconds

    try:
        return seconds(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    short_help="Print a deployment's logs.",
    epilog="""\b
Examples:
  aion logs --stack aion-dev --since 15m
  aion logs --stack aion-dev --task 0197f3c2-5a0b-7c1e-9d2f-6b8f1f0a3c11
  aion logs --stack aion-dev -f --function task""",
)
@aws_options.aws
@stack_option
@click.option("--task", default="", help="Only lines of this task, from all functions.")
@click.option("--follow", "-f", is_flag=True, help="Print new lines until Ctrl-C.")
@click.option(
    "--since", default="1h", show_default=True, callback=_since, help="Age of the first line: 90s, 15m, 1h, 2d."
)
@click.option(
    "--function",
    "functions",
    multiple=True,
    type=click.Choice(["api", "task", "push", "sweep"]),
    help="Only lines of this function; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw lines, for programs.")
def logs(stack: str, task: str, since: int, functions: tuple[str, ...], *, follow: bool, as_json: bool) -> None:
    """Print the lines of the functions' log groups, oldest first, with task, context, agent and traceback.

    Times are UTC.
    """
    from aion_tools.deploy import logs as groups

    chosen = tuple(dict.fromkeys(functions)) or groups.FUNCTIONS
    start = max(0, int((time.time() - since) * 1000))
    if not follow:
        with waiting("Reading the log lines"):
            lines = groups.read(stack, chosen, since=start, task=task)
        for line in lines:
            _print(line, as_json=as_json)
        if not lines:
            hint = " --since 1d prints those of a day." if since < 86_400 else ""
            click.echo(f"No log lines.{hint}", err=True)
        return
    try:
        for line in groups.follow(stack, chosen, since=start, task=task):
            _print(line, as_json=as_json)
    except KeyboardInterrupt:
        click.echo()


def _print(line: "LogLine", *, as_json: bool) -> None:
    from aion_tools.deploy.logs import rendered

    if as_json:
        click.echo(line.text)
        return
    level, text = rendered(line)
    if text:
        click.echo(click.style(text, fg=COLOURS[level]) if level in COLOURS else text)
