"""`aion new` and `aion init`: a project made, or completed around an agent that is there."""

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.project import InvalidName
from aion_core.project.files import OBJECTS

if TYPE_CHECKING:
    from aion_core.project.create import ProjectResult
    from aion_core.project.files import Project


import os
from typing import TYPE_CHECKING

from aion_core import __version__

if TYPE_CHECKING:
    from aion_core.project.upgrade import Upgrade

FRAMEWORKS = tuple(OBJECTS)

_QUESTION = """Framework of the agent:
  langgraph   a LangGraph graph
  adk         a Google ADK agent
  executor    an AgentExecutor of the a2a-sdk: any Python code
"""


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


def _report(folder: Path, project: "Project", made: "ProjectResult") -> None:
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


@click.command(short_help="Add packages that your agent imports.")
@click.argument("packages", nargs=-1, required=True, metavar="PACKAGE...")
def add(packages: tuple[str, ...]) -> None:
    """Add packages to this project's dependencies, lock and install them; tools for development are not touched.

    With a pyproject.toml uv adds them; else they become lines of requirements.txt. A PACKAGE may have a version:
    'langchain-openai>=1'.
    """
    from aion_core.project.dependencies import add as add_to

    click.echo(add_to(Path.cwd(), packages))


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(short_help="Bring template and stacks to the installed version.")
@click.option("--diff", "diff_only", is_flag=True, help="Show the difference and change nothing.")
@click.option(
    "--check", "check_only", is_flag=True, help="Change nothing; exit 1 if there is something to upgrade. For CI."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def upgrade(context: click.Context, diff_only: bool, check_only: bool, yes: bool) -> None:
    """Bring template.yaml, infra/*.yaml and the Makefile's build rule to the installed aion-lambda; show the difference first.

    Your edits of these files are kept: a file with edits is merged, and where both sides have changed the same lines it is
    left as it is, with a .new file beside it to resolve. Nothing else is touched: agents, aion.yaml, samconfig.toml.

    It exits 1 while a .new file waits.
    """
    from aion_core.project.upgrade import apply, find_project, plan

    planned = plan(find_project(Path.cwd()))
    if not planned.is_needed:
        if not (check_only or diff_only):
            apply(planned)
        click.echo(f"template.yaml, infra/ and the Makefile are those of aion-lambda {__version__}.")
        _summarise(planned)
        return
    if not check_only:
        _show_diffs(planned)
    _summarise(planned)
    if diff_only:
        return
    if check_only:
        context.exit(1)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("Nothing was changed: there is no terminal to ask at. Say --yes.")
        click.confirm("Write this?", abort=True)
    apply(planned)
    _say_what_is_left(context, planned)


def _show_diffs(planned: "Upgrade") -> None:
    from aion_core.project.upgrade import CHANGING, FOR_THE_AUTHOR

    # Colours are for terminals, and for those who want them (https://no-color.org).
    colour = False if os.environ.get("NO_COLOR") else None
    for change in planned.changes:
        if change.fate in CHANGING | FOR_THE_AUTHOR:
            for line in change.diff.splitlines():
                click.echo(click.style(line, fg=_COLOURS.get(line[:1])), color=colour)


def _summarise(planned: "Upgrade") -> None:
    """Print a line for each file that is not simply current."""
    from aion_core.project.upgrade import Fate

    if planned.version and planned.version != __version__:
        click.echo(f"aion-lambda {planned.version} -> {__version__}")
    for change in planned.changes:
        if change.fate is not Fate.CURRENT:
            click.echo(f"  {change.path:<24}{change.fate.value}")
    for path in planned.waiting:
        click.echo(f"  {path:<24}waits for you: take what you need from it, then remove it")


def _say_what_is_left(context: click.Context, planned: "Upgrade") -> None:
    from aion_core.project.upgrade import FOR_THE_AUTHOR

    left = [f"{change.path}.new" for change in planned.changes if change.fate in FOR_THE_AUTHOR]
    if left or planned.waiting:
        waiting = ", ".join([*left, *planned.waiting])
        click.echo(f"Left to you: {waiting}. Bring what you need of it into the file of that name, then remove it.")
        context.exit(1)
    click.echo("Written. Look at it (git diff), test it, deploy it.")
