"""Reference page of the command line, from the commands' help."""

import inspect
import re
from collections.abc import Iterator

import click

from aion_tools.cli.main import aion
from scripts.reference.tables import cell, code


def commands_page() -> str:
    """Return the page of the command line: usage, text, arguments and options of each command."""
    lines = [
        "# Command line",
        "",
        "Every command of `aion` with its options. `aion COMMAND --help` prints the same.",
        "",
    ]
    context = click.Context(aion, info_name="aion")
    for name in aion.list_commands(context):
        lines += _command(aion.commands[name], context, name, 2)
    return "\n".join(lines) + "\n"


def _command(command: click.Command, parent: click.Context, name: str, level: int) -> Iterator[str]:
    context = click.Context(command, parent, info_name=name)
    yield from (f"{'#' * level} {context.command_path}", "")
    text = inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")
    yield from (re.sub(r"(?m)^\f.*", "", text), "")
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _command(command.commands[inner], context, inner, level + 1)
        return
    yield from ("```text", command.get_usage(context).removeprefix("Usage: "), "```", "")
    options = [each.get_help_record(context) for each in command.get_params(context)]
    if rows := [record for record in options if record and record[1] and not record[0].startswith("-h")]:
        yield from ("| Option | Meaning |", "| --- | --- |")
        for option, meaning in rows:
            yield f"| {code(option)} | {cell(meaning)} |"
        yield ""
