"""`aion`: what a person types. Each command is a file of its own; what it needs is imported when it is called."""

import sys

import click

from aion_core import __version__
from aion_core.cli.add import add
from aion_core.cli.build import build
from aion_core.cli.card import card
from aion_core.cli.data import data
from aion_core.cli.deploy import deploy
from aion_core.cli.destroy import destroy
from aion_core.cli.dev import dev
from aion_core.cli.dlq import dlq
from aion_core.cli.doctor import doctor
from aion_core.cli.key import key
from aion_core.cli.logs import logs
from aion_core.cli.new import init, new
from aion_core.cli.push import push
from aion_core.cli.sentences import sentence
from aion_core.cli.smoke import smoke
from aion_core.cli.tasks import tasks
from aion_core.cli.upgrade import upgrade
from aion_core.cli.user import user
from aion_core.errors import AionError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aion")
def aion() -> None:
    """A2A servers for LangGraph graphs and ADK agents, on AWS Lambda and here.

    Commands that look at a deployment take its stack (--stack, AION_STACK), or the variables that its functions have
    (AION_TABLE, …), and your own AWS credentials.
    """


IN_A_PROJECT = (new, init, add, upgrade, dev, build, deploy)
DEPLOYED = (smoke, logs, doctor, tasks, push, dlq, card, key, user, data, destroy)
for command in (*IN_A_PROJECT, *DEPLOYED):
    aion.add_command(command)


def main() -> None:
    """Run the command; what the user can mend is one sentence, not a traceback.

    It exits 2 where the command is not right, 1 where what it asks for fails.
    """
    try:
        aion()
    except AionError as error:
        click.echo(f"aion: {sentence(error)}", err=True)
        sys.exit(1)
