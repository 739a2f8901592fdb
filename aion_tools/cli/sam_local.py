"""`aion sam-local` runs the project's functions in containers, with an emulated AWS."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aion_tools.cli import options

if TYPE_CHECKING:
    from aion_tools.sam_local.server import Running


@click.command(
    name="sam-local",
    cls=options.StoppedByInterrupt,
    short_help="Run the functions in containers (docker).",
    epilog="""\b
Examples:
  aion sam-local
  aion sam-local --port 3001
  aion sam-local -- --debug         # options of `sam local start-api`""",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=3000,
    envvar="PORT",
    show_default=True,
    show_envvar=True,
    help="Port on 127.0.0.1; 0 for a free one.",
)
@click.option(
    "--host",
    default="",
    help="Address at which containers reach this machine, for the emulated AWS.  [default: that of docker's bridge]",
)
@click.argument("sam_options", nargs=-1, metavar="[-- SAM_OPTIONS]")
def sam_local(port: int, host: str, sam_options: tuple[str, ...]) -> None:
    """Run this folder's functions in containers, with an emulated AWS. Ctrl-C removes everything.

    It builds the packages for this machine. `sam local` answers requests with ApiFunction, and runs TaskFunction,
    PushFunction and SweepFunction for queues and schedules. Table, queues, bucket and key are emulated on this machine.
    The agents get the variables under `secrets` and `environment` of aion.yaml from .env or this shell. Webhooks on this
    machine are allowed, and so are requests from its web pages.

    Needs docker. A stream arrives only as a whole. `aion dev` needs no containers, reloads after edits, and streams.
    """
    from aion_tools.programs import BuildError, UvMissing
    from aion_tools.sam_local.server import serve
    from aion_tools.stack import EmulatorError
    from aion_tools.template.reader import TemplateError

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        serve(Path.cwd().resolve(), port, host, sam_options, lambda line: click.echo(line, err=True), _greet)
    except (BuildError, EmulatorError, TemplateError, UvMissing) as error:
        click.echo(f"aion sam-local: {error}", err=True)
        sys.exit(1)


class _OneLine(logging.Formatter):
    """Formatter without tracebacks: the fault is in a function, whose log has its own."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the exception's text."""
        return f"  {ei[1]}"


def _greet(running: "Running") -> None:
    from aion_core.loading.deployment import read_deployment_config
    from aion_tools.sam_local.greeting import greeting

    config = running.config if running.config.is_file() else running.config.parent
    click.echo(f"\n{greeting(read_deployment_config(config).agents, running)}\n")
