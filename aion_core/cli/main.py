"""`aion`: what a person types. Each command is a file of its own, imported when it is called."""

import sys

import click

from aion_core import __version__
from aion_core.cli.card import card
from aion_core.cli.dev import dev
from aion_core.cli.key import key
from aion_core.cli.push import push
from aion_core.cli.user import user
from aion_core.errors import AionError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aion")
def aion() -> None:
    """A2A servers for LangGraph graphs and ADK agents, on AWS Lambda and here."""


aion.add_command(dev)
aion.add_command(card)
aion.add_command(key)
aion.add_command(push)
aion.add_command(user)


def main() -> None:
    """Run the command; what the user can mend is one sentence, not a traceback."""
    try:
        aion()
    except AionError as error:
        click.echo(f"aion: {error}", err=True)
        sys.exit(1)
