"""`aion upgrade`: a project's template, stacks and Makefile rule brought to the installed version."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core import __version__

if TYPE_CHECKING:
    from aion_core.project.upgrade import Upgrade

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(short_help="Bring template and stacks to the installed version.")
@click.option("--diff", "diff_only", is_flag=True, help="Show the difference and change nothing.")
@click.option(
    "--check", "check_only", is_flag=True, help="Change nothing; exit 1 if there is something to upgrade. For CI."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def upgrade(context: click.Context, diff_only: bool, check_only: bool, yes: bool) -> None:
    """Bring template.yaml, infra/*.yaml and the Makefile's build rule to the installed aion-lambda; show the difference first.

    Your edits of these files are kept: a file with edits is merged, and where both sides have changed the same lines it is
    left as it is, with a .new file beside it to resolve. Nothing else is touched: agents, aion.yaml, samconfig.toml.

    It exits 1 while a .new file waits.
    """
    from aion_core.project.upgrade import apply, find_project, plan

    planned = plan(find_project(Path.cwd()))
    if not planned.is_needed:
        if not (check_only or diff_only):
            apply(planned)
        click.echo(f"template.yaml, infra/ and the Makefile are those of aion-lambda {__version__}.")
        _summarise(planned)
        return
    if not check_only:
        _show_diffs(planned)
    _summarise(planned)
    if diff_only:
        return
    if check_only:
        context.exit(1)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Nothing was changed: there is no terminal to ask at. Say --yes.")
        click.confirm("Write this?", abort=True)
    apply(planned)
    _say_what_is_left(context, planned)


def _show_diffs(planned: "Upgrade") -> None:
    from aion_core.project.upgrade import CHANGING, FOR_THE_AUTHOR

    # Colours are for terminals, and for those who want them (https://no-color.org).
    colour = False if os.environ.get("NO_COLOR") else None
    for change in planned.changes:
        if change.fate in CHANGING | FOR_THE_AUTHOR:
            for line in change.diff.splitlines():
                click.echo(click.style(line, fg=_COLOURS.get(line[:1])), color=colour)


def _summarise(planned: "Upgrade") -> None:
    """Print a line for each file that is not simply current."""
    from aion_core.project.merge import Fate

    if planned.version and planned.version != __version__:
        click.echo(f"aion-lambda {planned.version} -> {__version__}")
    for change in planned.changes:
        if change.fate is not Fate.CURRENT:
            click.echo(f"  {change.path:<24}{change.fate.value}")
    for path in planned.waiting:
        click.echo(f"  {path:<24}waits for you: take what you need from it, then remove it")


def _say_what_is_left(context: click.Context, planned: "Upgrade") -> None:
    from aion_core.project.upgrade import FOR_THE_AUTHOR

    left = [f"{change.path}.new" for change in planned.changes if change.fate in FOR_THE_AUTHOR]
    if left or planned.waiting:
        waiting = ", ".join([*left, *planned.waiting])
        click.echo(f"Left to you: {waiting}. Bring what you need of it into the file of that name, then remove it.")
        context.exit(1)
    click.echo("Written. Look at it (git diff), test it, deploy it.")
