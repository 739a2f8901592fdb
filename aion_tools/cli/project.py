"""Commands for a project: `aion new`, `aion init`, `aion add` and `aion upgrade`."""

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core import __version__
from aion_core.loading.frameworks import FRAMEWORKS as REGISTRY
from aion_tools.cli import options
from aion_tools.project import InvalidName
from aion_tools.project.files import OBJECTS

if TYPE_CHECKING:
    from aion_tools.project.create import ProjectResult
    from aion_tools.project.files import Project
    from aion_tools.project.upgrade import Upgrade

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

    It has an agent that replies without an API key, a test, aion.yaml, the AWS template, and a GitHub workflow for tests and
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
    """Complete this folder, as `aion new --here` does.

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
    return Project(name, framework or _chosen(), origin())


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
    written = {"infra/" if path.startswith("infra/") else path for path in made.written}
    # List uv.lock only if the file exists, because a project within a uv workspace has no lock file of its own.
    written |= {"uv.lock"} if locks and (folder / "uv.lock").is_file() else set()
    for path, content in contents(has_tests=project.has_tests).items():
        if path in written:
            click.echo(f"  {path:<30}{content}")
    if made.kept:
        click.echo(f"Kept: {', '.join(made.kept)}")
    for note in made.notes:
        click.echo(note)
    if locks and project.origin.source:
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


@click.command(short_help="Add packages to the agent's dependencies.")
@click.argument("packages", nargs=-1, required=True, metavar="PACKAGE...")
def add(packages: tuple[str, ...]) -> None:
    """Add packages to this project's dependencies, lock and install them. Development tools stay unchanged.

    With a pyproject.toml uv adds them; otherwise they become lines of requirements.txt. A PACKAGE may have a version:
    'langchain-openai>=1'.
    """
    from aion_tools.project.dependencies import add as add_to

    click.echo(add_to(Path.cwd(), packages))


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(short_help="Upgrade template and stacks.")
@click.option("--diff", "diff_only", is_flag=True, help="Show the changes without writing them.")
@click.option("--check", "check_only", is_flag=True, help="Write nothing; exit 1 if an upgrade is needed. For CI.")
@options.yes
@click.pass_context
def upgrade(context: click.Context, diff_only: bool, check_only: bool, yes: bool) -> None:
    """Upgrade template.yaml, infra/*.yaml and the Makefile's build rule to the installed aion-lambda.

    It shows the changes first.

    Your edits of these files are merged. A file with conflicts stays unchanged, with the new version beside it as .new, for
    you to resolve. Agents, aion.yaml and samconfig.toml are not touched.

    The exit code is 1 while a .new file is unresolved.
    """
    from aion_tools.project.upgrade import apply, find_project, plan

    planned = plan(find_project(Path.cwd()))
    if not planned.is_needed:
        if not (check_only or diff_only):
            apply(planned)
        click.echo(f"template.yaml, infra/ and the Makefile are up to date with aion-lambda {__version__}.")
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
            raise click.UsageError("Nothing was changed: without a terminal, give --yes.")
        click.confirm("Write these changes?", abort=True)
    apply(planned)
    _print_unresolved(context, planned)


def _show_diffs(planned: "Upgrade") -> None:
    from aion_tools.project.upgrade import CHANGING, UNRESOLVED

    for change in planned.changes:
        if change.outcome in CHANGING | UNRESOLVED:
            for line in change.diff.splitlines():
                click.echo(click.style(line, fg=_COLOURS.get(line[:1])))


def _summarise(planned: "Upgrade") -> None:
    """Print a line for each changed file of the upgrade, and for each unresolved .new file."""
    from aion_tools.project.upgrade import FileOutcome

    if planned.version and planned.version != __version__:
        click.echo(f"aion-lambda {planned.version} -> {__version__}")
    for change in planned.changes:
        if change.outcome is not FileOutcome.CURRENT:
            click.echo(f"  {change.path:<28}{change.outcome.value}")
    for path in planned.waiting:
        click.echo(f"  {path:<28}unresolved: copy the parts you need, then remove it")


def _print_unresolved(context: click.Context, planned: "Upgrade") -> None:
    from aion_tools.project.upgrade import UNRESOLVED

    left = [f"{change.path}.new" for change in planned.changes if change.outcome in UNRESOLVED]
    if left or planned.waiting:
        waiting = ", ".join([*left, *planned.waiting])
        click.echo(f"Unresolved: {waiting}. Copy the parts you need into the file of that name, then remove it.")
        context.exit(1)
    click.echo("Written. Review it (git diff), test it, deploy it.")
