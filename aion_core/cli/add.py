"""`aion add`: packages that the agent imports, added to the project's dependencies."""

from pathlib import Path

import click


@click.command(short_help="Add packages that your agent imports.")
@click.argument("packages", nargs=-1, required=True, metavar="PACKAGE...")
def add(packages: tuple[str, ...]) -> None:
    """Add packages to this project's dependencies, lock and install them; tools for development are not touched.

    With a pyproject.toml uv adds them; else they become lines of requirements.txt. A PACKAGE may have a version:
    'langchain-openai>=1'.
    """
    from aion_core.project.dependencies import add as add_to

    click.echo(add_to(Path.cwd(), packages))
