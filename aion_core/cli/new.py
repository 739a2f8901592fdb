"""`aion new` and `aion init`: a project made, or completed around an agent that is there."""

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.agents.frameworks import FRAMEWORKS as REGISTRY
from aion_core.project.errors import InvalidName
from aion_core.project.frameworks import OBJECTS

if TYPE_CHECKING:
    from aion_core.project.create import Made
    from aion_core.project.files import Project

FRAMEWORKS = tuple(OBJECTS)

_QUESTION = "Framework of the agent:\n" + "".join(f"  {name:11} {REGISTRY[name].title}\n" for name in FRAMEWORKS)


def _framework(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--framework",
        type=click.Choice(FRAMEWORKS),
        help=f"The framework of the example agent. Asked for on a terminal; elsewhere {FRAMEWORKS[0]}.",
    )(command)


@click.command(short_help="Make a project for your agent.")
@click.argument("path", required=False, metavar="NAME", type=click.Path(path_type=Path))
@_framework
@click.option(
    "--here", is_flag=True, help="Complete this folder: write the files it lacks, leave the others as they are."
)
@click.option("--force", is_flag=True, help="Overwrite files of the same names.")
def new(path: Path | None, framework: str | None, here: bool, force: bool) -> None:
    """Make a project that depends on aion-lambda, in a new folder NAME; a path may lead to it.

    It has an agent that answers without a key, a test, aion.yaml, the AWS template, and a GitHub workflow that tests and
    deploys. --here makes one of this folder; NAME is then the project's name, if it is not the folder's.
    """
    if here and force:
        raise click.UsageError("--here overwrites nothing, so there is nothing to --force.")
    if here:
        _complete(str(path) if path else None, framework)
    elif path is None:
        raise click.UsageError("Name the project: aion new my-agent. Or take this folder: aion new --here.")
    else:
        _make(path.expanduser(), framework, force=force)


@click.command(short_help="Make a project of this folder and its agent.")
@click.argument("name", required=False)
@_framework
def init(name: str | None, framework: str | None) -> None:
    """Make a project of this folder, as `aion new --here` does.

    It finds the agents that are here and writes an aion.yaml for them. Files that are here stay as they are.
    """
    _complete(name, framework)


def _make(folder: Path, framework: str | None, *, force: bool) -> None:
    from aion_core.project.create import create

    project = _project(folder.resolve().name, framework)
    made = create(folder, project, force=force)
    click.echo(f"Made {project.name} in {folder}")
    _report(folder, project, made)
    _show_next(project, [f"cd {shlex.quote(str(folder))}"], "pytest")


def _complete(name: str | None, framework: str | None) -> None:
    from aion_core.project.create import complete
    from aion_core.project.existing import agents_in
    from aion_core.project.names import suggested

    folder = Path.cwd()
    there = agents_in(folder)
    if there:
        if framework:
            raise click.UsageError("--framework is for a new agent, and this folder has one.")
        framework = FRAMEWORKS[0]
    project = _project(name or suggested(folder.name), framework)
    if there:
        project = replace(project, frameworks=there.frameworks)
    made = complete(folder, project, agents_yaml=there.yaml if there else None)
    project = made.project or project
    made.notes += there.notes if there else ()
    if there and there.found:
        click.echo(there.found)
    click.echo(f"Completed {project.name} in {folder}")
    _report(folder, project, made)
    _show_next(project, _installing(folder, project), "pytest" if project.has_tests and not there else "aion doctor")


def _project(name: str, framework: str | None) -> "Project":
    """Return the project to be made; raises UsageError for a name that it cannot have."""
    from aion_core.project.files import Project
    from aion_core.project.names import check
    from aion_core.project.origin import origin

    try:
        check(name)
    except InvalidName as error:
        raise click.UsageError(str(error)) from error
    return Project(name, framework or _chosen(), origin())


def _chosen() -> str:
    """Return the framework that the person at the terminal chooses; the default one without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return FRAMEWORKS[0]
    click.echo(_QUESTION)
    choice: str = click.prompt("Which", type=click.Choice(FRAMEWORKS), default=FRAMEWORKS[0])
    return choice


def _report(folder: Path, project: "Project", made: "Made") -> None:
    """Lock the dependencies, and list what was written, what was kept, and what is left to do."""
    from aion_core.project.create import lock
    from aion_core.project.files import contents

    failed, locks = "", "pyproject.toml" in made.written
    if locks:
        click.echo("Locking its dependencies (uv lock) …", err=True)
        failed = lock(folder)
    written = {"infra/" if path.startswith("infra/") else path for path in made.written}
    # In a workspace of uv it is the workspace that has the lock.
    written |= {"uv.lock"} if locks and (folder / "uv.lock").is_file() else set()
    for path, content in contents(has_tests=project.has_tests).items():
        if path in written:
            click.echo(f"  {path:<30}{content}")
    if made.kept:
        click.echo(f"Left as it was: {', '.join(made.kept)}")
    for note in made.notes:
        click.echo(note)
    if locks and project.origin.source:
        click.echo(
            f"aion-lambda is taken from {project.origin.place}, where this one was installed from: "
            f"see [tool.uv.sources] in pyproject.toml."
        )
    if failed:
        click.echo(f"There is no uv.lock yet: run `uv lock` in {folder}. uv says:\n{failed}", err=True)


def _installing(folder: Path, project: "Project") -> list[str]:
    """Return the commands that install a project whose tool does not by itself what it is asked to run."""
    from aion_core.project.tools import PIP

    if project.tool is not PIP:
        return []
    made = [] if (folder / ".venv").is_dir() else ["python3 -m venv .venv"]
    return [*made, f".venv/bin/pip install -r requirements.txt {project.local}"]


def _show_next(project: "Project", first: list[str], last: str) -> None:
    """Print the next commands, as they can be typed."""
    from aion_core.project.tools import UV

    runs = f"{_uv()} run " if project.tool is UV else project.tool.run
    click.echo("\nNext:")
    for command in [*first, f"{runs}aion dev", f"{runs}{last}"]:
        click.echo(f"  {command}")


def _uv() -> str:
    """Return uv as it can be typed: a dependency of this program need not be on the path."""
    from aion_core.packaging import uv

    try:
        return "uv" if shutil.which("uv") else shlex.quote(uv.find())
    except uv.UvMissing:
        return "uv"
