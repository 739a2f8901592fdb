"""Commands for a project: `aion new` and `aion init`."""

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.loading.frameworks import FRAMEWORKS as REGISTRY
from aion_tools.cli.aws_options import configured_region
from aion_tools.project import InvalidName
from aion_tools.project.files import OBJECTS

if TYPE_CHECKING:
    from aion_tools.project.create import ProjectResult
    from aion_tools.project.files import Project

FRAMEWORKS = tuple(OBJECTS)

_QUESTION = "Framework of the agent:\n" + "".join(f"  {name:11} {REGISTRY[name].title}\n" for name in FRAMEWORKS)


def _framework(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--framework",
        type=click.Choice(FRAMEWORKS),
        help=f"Framework of the example agent.  [default: ask on a terminal, else {FRAMEWORKS[0]}]",
    )(command)


@click.command(short_help="Create a project for your agent.")
@click.argument("path", required=False, metavar="NAME", type=click.Path(path_type=Path))
@_framework
@click.option("--here", is_flag=True, help="Write the missing files of this folder, and keep the existing ones.")
@click.option("--force", is_flag=True, help="Overwrite files of the same names.")
def new(path: Path | None, framework: str | None, here: bool, force: bool) -> None:
    """Create a project with aion-lambda as a dependency, in a new folder NAME or path.

    It has an agent that replies without an API key, a test, aion.yaml, template.yaml, and a GitHub workflow for tests and
    deployment. --here completes this folder instead; NAME is then the project's name, by default the folder's.
    """
    if here and force:
        raise click.UsageError("--here overwrites no files: leave out --force.")
    if here:
        _complete(str(path) if path else None, framework)
    elif path is None:
        raise click.UsageError("Name the project: aion new my-agent. Or complete this folder: aion new --here.")
    else:
        _make(path.expanduser(), framework, force=force)


@click.command(short_help="Turn this folder into a project.")
@click.argument("name", required=False)
@_framework
def init(name: str | None, framework: str | None) -> None:
    """Turn this folder into a project, like `aion new --here`.

    It finds the existing agents and writes an aion.yaml for them. Existing files stay unchanged.
    """
    _complete(name, framework)


def _make(folder: Path, framework: str | None, *, force: bool) -> None:
    from aion_tools.project.create import create

    project = _project(folder.resolve().name, framework)
    made = create(folder, project, force=force)
    click.echo(f"Created {project.name} in {folder}")
    _report(folder, project, made)
    _show_next(project, [f"cd {shlex.quote(str(folder))}"], "pytest")


def _complete(name: str | None, framework: str | None) -> None:
    from aion_tools.project.create import complete
    from aion_tools.project.existing import agents_in
    from aion_tools.project.names import suggested

    folder = Path.cwd()
    existing = agents_in(folder)
    if existing:
        if framework:
            raise click.UsageError("--framework is for a new agent, but this folder has an agent.")
        framework = FRAMEWORKS[0]
    project = _project(name or suggested(folder.name), framework)
    if existing:
        project = replace(project, frameworks=existing.frameworks)
    made = complete(folder, project, agents_yaml=existing.yaml if existing else None)
    project = made.project or project
    made.notes += existing.notes if existing else ()
    if existing and existing.found:
        click.echo(existing.found)
    click.echo(f"Completed {project.name} in {folder}")
    _report(folder, project, made)
    _show_next(project, _installing(folder, project), "pytest" if project.has_tests and not existing else "aion doctor")


def _project(name: str, framework: str | None) -> "Project":
    """Return the project to create, with its name, framework and source of aion-lambda.

    Raises UsageError for an invalid name.
    """
    from aion_tools.project.files import Project
    from aion_tools.project.names import check
    from aion_tools.project.origin import origin

    try:
        check(name)
    except InvalidName as error:
        raise click.UsageError(str(error)) from error
    return Project(name, framework or _chosen(), origin(), region=configured_region())


def _chosen() -> str:
    """Ask for the framework of the example agent and return it. Without a terminal, return the default framework."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return FRAMEWORKS[0]
    click.echo(_QUESTION)
    choice: str = click.prompt("Which", type=click.Choice(FRAMEWORKS), default=FRAMEWORKS[0])
    return choice


def _report(folder: Path, project: "Project", made: "ProjectResult") -> None:
    """Lock the project's dependencies. Print the written files, the unchanged files, and the notes for the author."""
    from aion_tools.project.create import lock
    from aion_tools.project.files import contents

    failed, locks = "", "pyproject.toml" in made.written
    if locks:
        click.echo("Locking its dependencies (uv lock) …", err=True)
        failed = lock(folder)
    written = {"vendor/" if path == project.origin.wheel else path for path in made.written}
    # List uv.lock only if the file exists, because a project within a uv workspace has no lock file of its own.
    written |= {"uv.lock"} if locks and (folder / "uv.lock").is_file() else set()
    for path, content in contents(has_tests=project.has_tests).items():
        if path in written:
            click.echo(f"  {path:<30}{content}")
    if made.kept:
        click.echo(f"Kept: {', '.join(made.kept)}")
    for note in made.notes:
        click.echo(note)
    if project.origin.wheel in made.written:
        click.echo(f"No package index has this aion-lambda, so its wheel is {project.origin.wheel}. Commit it.")
    elif locks and project.origin.source:
        click.echo(
            f"aion-lambda comes from {project.origin.place}, the source of this installation: "
            f"see [tool.uv.sources] in pyproject.toml."
        )
    if failed:
        click.echo(f"uv.lock could not be written. Run `uv lock` in {folder}. Output of uv:\n{failed}", err=True)


def _installing(folder: Path, project: "Project") -> list[str]:
    """Return the shell commands that install the dependencies with pip. For other tools, return no commands."""
    from aion_tools.project.tools import PIP

    if project.tool is not PIP:
        return []
    made = [] if (folder / ".venv").is_dir() else ["python3 -m venv .venv"]
    return [*made, f".venv/bin/pip install -r requirements.txt {project.local}"]


def _show_next(project: "Project", first: list[str], last: str) -> None:
    """Print the commands to run next, with the prefix of the project's dependency tool."""
    from aion_tools.project.tools import UV

    prefix = f"{_uv()} run " if project.tool is UV else project.tool.run
    click.echo("\nNext:")
    for command in [*first, f"{prefix}aion dev", f"{prefix}{last}"]:
        click.echo(f"  {command}")


def _uv() -> str:
    """Return the command that starts uv, which may be installed beside this program instead of on PATH."""
    from aion_tools.programs import UvMissing, find_uv

    try:
        return "uv" if shutil.which("uv") else shlex.quote(find_uv())
    except UvMissing:
        return "uv"
