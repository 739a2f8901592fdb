"""The `aion` command with its subcommands and error messages. A subcommand is imported when it is called or listed."""

import errno
import os
import sys
from collections import UserDict
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from aion_core import __version__
from aion_core.errors import AionError, ConfigurationError
from aion_tools.cli.error_text import error_text
from aion_tools.cli.extra_packages import how_to_install, missing_import, missing_package
from aion_tools.cli.hints import HintingGroup
from aion_tools.terminal import cleaned_output

IN_A_PROJECT = {
    "new": "project",
    "init": "project",
    "dev": "dev",
    "chat": "chat.chat",
    "send": "chat.send",
    "console": "console",
    "doctor": "doctor",
    "build": "build",
    "sam-local": "sam_local",
    "deploy": "deploy",
    "stacks": "stacks",
    "eject": "stacks",
}
"""Modules of the commands for a project, by the command's name."""
DEPLOYED = {
    "why": "why",
    "tasks": "operate.tasks",
    "push": "operate.push",
    "dlq": "operate.dlq",
    "card": "card",
    "key": "credentials",
    "user": "credentials",
    "data": "data",
    "destroy": "destroy",
}
"""Modules of the commands for tasks and deployments."""


class _Commands(UserDict[str, Any]):
    """The subcommands by name, each imported on first use: together, their modules take half a second."""

    def __getitem__(self, name: str) -> click.Command:
        """Return the command. Raises KeyError."""
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = getattr(import_module(f"aion_tools.cli.{found}"), name.replace("-", "_"))
        command: click.Command = found
        return command


class _AionGroup(HintingGroup):
    """The `aion` command. Its help lists the commands of a project before those for a deployment."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their short help, in the order of their use."""
        for title, names in {"For a project": IN_A_PROJECT, "For tasks and deployments": DEPLOYED}.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(60)) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand. Raises UsageError with the replacement of a removed command."""
        if args[0] in REMOVED:
            raise click.UsageError(f"`aion {args[0]}` is gone: {REMOVED[args[0]]}.", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes, and how to install the extra `local` if it is missing: most commands need it."""
        super().format_epilog(ctx, formatter)
        if missing := missing_package():
            # Write it as one line, because click would break it at the hyphens of the commands.
            formatter.write(f"\n{how_to_install(missing)}\n")


@click.group(
    cls=_AionGroup,
    commands=_Commands(IN_A_PROJECT | DEPLOYED),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 for success, 1 for a failed command or Ctrl-C, 2 for a wrong command line, 3 if `aion send` got a question.",
)
@click.version_option(__version__, prog_name="aion")
@click.pass_context
def aion(context: click.Context) -> None:
    """Serve LangGraph graphs and ADK agents over A2A, on AWS Lambda and on this machine.

    Commands for a deployment need its stack (--stack, AION_STACK) or the variables of its functions (AION_TABLE, …), and
    your AWS credentials.
    """
    # Turn colours off for NO_COLOR (https://no-color.org), because click itself does so only outside of a terminal.
    if os.environ.get("NO_COLOR"):
        context.color = False
    # Name the missing extra before the command finds another problem, such as a folder without an agent. `aion doctor`
    # reports each missing package itself.
    is_help = not {"-h", "--help"}.isdisjoint(sys.argv)
    if context.invoked_subcommand != "doctor" and not is_help and (missing := missing_package()):
        raise ConfigurationError(how_to_install(missing))


REMOVED = {
    "add": "`uv add PACKAGE` adds a dependency",
    "completion": 'in bash, `eval "$(_AION_COMPLETE=bash_source aion)"` completes commands',
    "logs": "`aws logs tail /aws/lambda/STACK-FUNCTION` prints a function's log (api, task, push, sweep)",
    "smoke": "`aion doctor URL` sends messages to a deployed agent",
    "upgrade": "require the new version in pyproject.toml, then run `uv lock` and `aion stacks`",
}
"""Removed commands with their replacements."""

_UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Codes of OSError for a file or folder whose problem the user must correct."""


def main() -> None:
    """Run the command. Print an expected error as a message instead of a traceback.

    The exit code is 2 for a wrong command line, 1 for a failed command.
    """
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        # Replace unprintable characters, because a terminal or pipe may have another encoding than UTF-8.
        sys.stdout.reconfigure(errors="replace")
    with cleaned_output():
        _run()


def _run() -> None:
    try:
        if len(sys.argv) > 1:
            # Import the command now: click would report Ctrl-C during its import as a failure.
            aion.commands.get(sys.argv[1])
        aion()
    except AionError as error:
        click.echo(f"Error: {error_text(error)}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            click.echo(f"Error: {error.filename or 'The output'} cannot be written: {error.strerror}.", err=True)
            # Exit without flushing the output, because another flush would fail too.
            os._exit(1)
        if error.errno not in _UNUSABLE or not error.filename:
            raise
        click.echo(f"Error: {os.fsdecode(error.filename)} cannot be read or written: {error.strerror}.", err=True)
        sys.exit(1)
    except ImportError as error:
        missing = missing_import(error)
        if missing is None:
            raise
        click.echo(f"Error: {how_to_install(missing)}", err=True)
        sys.exit(1)
