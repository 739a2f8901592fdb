"""`aion stacks` and `aion eject`: the stacks of aion-lambda that a project's template.yaml nests."""

from pathlib import Path

import click

from aion_core import __version__
from aion_core.errors import ConfigurationError
from aion_tools.template import stacks as project_stacks


def _project() -> Path:
    """Return the current folder. Raises ConfigurationError if its template.yaml nests no stacks of aion-lambda."""
    folder = Path.cwd()
    if not (folder / "template.yaml").is_file():
        raise ConfigurationError("There is no template.yaml in this folder. Run `aion init` to create it.")
    if not project_stacks.are_used(folder):
        raise ConfigurationError(f"template.yaml in this folder nests no stack of {project_stacks.FOLDER}.")
    return folder


@click.command(short_help="Write the stacks that template.yaml nests.")
def stacks() -> None:
    """Write the stacks of the installed aion-lambda into .aion/stacks, which template.yaml nests and git ignores.

    `sam` reads this folder. Run this once in a fresh clone, and after each upgrade of aion-lambda. A stack in stacks/ (see `aion
    eject`) replaces the package's.
    """
    from aion_tools.template import image_form

    folder = _project()
    project_stacks.write(folder)
    own = ", ".join(file.name for file in project_stacks.ejected(folder))
    click.echo(
        f"{project_stacks.FOLDER} has the stacks of aion-lambda {__version__}{f', with {own} of stacks/' * bool(own)}."
    )
    if image_form.is_wanted(folder):
        click.echo("aion.yaml has `image: true`: run `aion build` before `sam build`.")


@click.command(short_help="Copy a stack into the project, to edit it.")
@click.argument("stack", required=False)
def eject(stack: str | None) -> None:
    """Copy a STACK of aion-lambda into stacks/, to edit it. It then replaces the package's, and upgrades leave it unchanged.

    Without STACK, list the stacks.
    """
    folder = _project()
    if stack is None:
        own = {file.stem for file in project_stacks.ejected(folder)}
        for name, purpose in project_stacks.PURPOSES.items():
            click.echo(f"{name:12} {purpose}{' (in stacks/)' if name in own else ''}")
        return
    file = project_stacks.eject(folder, stack)
    project_stacks.write(folder)
    click.echo(f"Edit {file.relative_to(folder)} and commit it. After an edit, run `aion stacks`, or build.")
