"""The `aion` command with its subcommands and error messages. Each subcommand imports its dependencies when called."""

import errno
import os
import sys
from io import TextIOWrapper

import click

from aion_core import __version__
from aion_core.errors import AionError, ConfigurationError
from aion_tools.cli.build import build
from aion_tools.cli.card import card
from aion_tools.cli.chat.chat import chat
from aion_tools.cli.chat.send import send
from aion_tools.cli.credentials import key, user
from aion_tools.cli.data import data
from aion_tools.cli.deploy import deploy
from aion_tools.cli.destroy import destroy
from aion_tools.cli.dev import dev
from aion_tools.cli.dlq import dlq
from aion_tools.cli.doctor import doctor
from aion_tools.cli.error_text import error_text
from aion_tools.cli.extra_packages import how_to_install, missing_import, missing_package
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.project import init, new
from aion_tools.cli.push import push
from aion_tools.cli.sam_local import sam_local
from aion_tools.cli.stacks import eject, stacks
from aion_tools.cli.tasks import tasks
from aion_tools.cli.why import why
from aion_tools.terminal import cleaned_output


class _AionGroup(HintingGroup):
    """The `aion` command. Its help lists the commands of a project before those for a deployment."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their short help, in the order of their use."""
        for title, commands in {"For a project": IN_A_PROJECT, "For tasks and deployments": DEPLOYED}.items():
            with formatter.section(title):
                formatter.write_dl([(each.name or "", each.get_short_help_str(60)) for each in commands])

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
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 for success, 1 for a failed command or Ctrl-C, 2 for a wrong command line, 3 if `aion send` got a question.",
)
@click.version_option(__version__, prog_name="aion")
@click.pass_context
def aion(context: click.Context) -> None:
    """A2A servers for LangGraph graphs and ADK agents, on AWS Lambda and on this machine.

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


IN_A_PROJECT = (new, init, dev, chat, send, doctor, build, sam_local, deploy, stacks, eject)
DEPLOYED = (why, tasks, push, dlq, card, key, user, data, destroy)
REMOVED = {
    "add": "`uv add PACKAGE` adds a dependency",
    "completion": 'in bash, `eval "$(_AION_COMPLETE=bash_source aion)"` completes commands',
    "logs": "`sam logs --cw-log-group /aws/lambda/STACK-FUNCTION` prints a function's log (api, task, push, sweep)",
    "smoke": "`aion doctor URL` sends messages to a deployed agent",
    "upgrade": "require the new version in pyproject.toml, then run `uv lock` and `aion stacks`",
}
"""Removed commands with their replacements."""
for command in (*IN_A_PROJECT, *DEPLOYED):
    aion.add_command(command)


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
        aion()
    except AionError as error:
        click.echo(f"aion: {error_text(error)}", err=True)
        sys.exit(1)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            click.echo(f"aion: {error.filename or 'The output'} cannot be written: {error.strerror}.", err=True)
            # Exit without flushing the output, because another flush would fail too.
            os._exit(1)
        if error.errno not in _UNUSABLE or not error.filename:
            raise
        click.echo(f"aion: {os.fsdecode(error.filename)} cannot be read or written: {error.strerror}.", err=True)
        sys.exit(1)
    except ImportError as error:
        missing = missing_import(error)
        if missing is None:
            raise
        click.echo(f"aion: {how_to_install(missing)}", err=True)
        sys.exit(1)
