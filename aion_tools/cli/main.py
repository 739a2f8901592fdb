"""The `aion` command with its subcommands and error messages. Each subcommand imports its dependencies when called."""

import errno
import os
import sys
import traceback
from io import TextIOWrapper

import click

from aion_core import __version__
from aion_core.errors import AionError
from aion_tools.cli.build import build
from aion_tools.cli.card import card
from aion_tools.cli.chat import chat, send
from aion_tools.cli.completion import completion
from aion_tools.cli.credentials import key, user
from aion_tools.cli.data import data
from aion_tools.cli.deploy import deploy
from aion_tools.cli.destroy import destroy
from aion_tools.cli.dev import dev
from aion_tools.cli.dlq import dlq
from aion_tools.cli.doctor import doctor
from aion_tools.cli.error_text import error_text
from aion_tools.cli.hints import HintingGroup
from aion_tools.cli.logs import logs
from aion_tools.cli.project import add, init, new, upgrade
from aion_tools.cli.push import push
from aion_tools.cli.smoke import smoke
from aion_tools.cli.tasks import tasks
from aion_tools.cli.why import why


class _AionGroup(HintingGroup):
    """The `aion` command. Its help lists the commands of a project before those for a deployment."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their short help, in the order of their use."""
        for title, commands in {"For a project": IN_A_PROJECT, "For tasks and deployments": DEPLOYED}.items():
            with formatter.section(title):
                formatter.write_dl([(each.name or "", each.get_short_help_str(60)) for each in commands])


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


_OWN = ("aion", "aion_core", "aion_tools")
_IMPORTING = (*_OWN, "a2a")
"""Packages whose imports need optional dependencies (extras of aion-lambda)."""

IN_A_PROJECT = (new, init, add, dev, chat, send, doctor, build, deploy, upgrade, completion)
DEPLOYED = (why, tasks, logs, smoke, push, dlq, card, key, user, data, destroy)
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
        missing = _missing(error)
        if missing is None:
            raise
        click.echo(
            f"aion: {missing} is missing. Install aion-lambda[local] (`uv sync` in a project of `aion new`).",
            err=True,
        )
        sys.exit(1)


def _missing(error: ImportError) -> str | None:
    """Return the name of a package missing because an extra of aion-lambda is not installed.

    Return None if the import failed in the agent author's code, or for a module of aion itself.
    """
    # Use the cause, because the a2a-sdk raises its own ImportError for a missing package's ModuleNotFoundError.
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__ or error.__context__
    if not isinstance(cause, ModuleNotFoundError) or not cause.name:
        return None
    names = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(cause.__traceback__))
    importing = [name for name in names if name.partition(".")[0] not in ("importlib", "_frozen_importlib")]
    if not importing or importing[-1].partition(".")[0] not in _IMPORTING or cause.name.partition(".")[0] in _OWN:
        return None
    return cause.name
