"""`aion build` creates the Lambda packages of the project's functions, as zip files or as folders for `sam build`."""

import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli.steps import waiting
from aion_tools.dev.data_folder import FOLDER, make_ignored

if TYPE_CHECKING:
    from aion_tools.package.plan import PackagePlan


def _function_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from aion_tools.package.requirements import FUNCTION_EXTRAS

    return [name for name in FUNCTION_EXTRAS if name.startswith(incomplete)]


@click.command(
    short_help="Build the functions' Lambda packages.",
    epilog="""\b
Examples:
  aion build                                  all packages, as zips in .aion/build
  aion build ApiFunction --architecture x86_64
  aion build ApiFunction --to "$ARTIFACTS_DIR"    run by the Makefile for `sam build`""",
)
@click.argument("functions", nargs=-1, shell_complete=_function_names)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the unzipped package of one function.",
)
@click.option(
    "--zips",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".aion/build"),
    show_default=True,
    help="Folder for the zips.",
)
@click.option(
    "--architecture",
    type=click.Choice(["arm64", "x86_64"]),
    envvar="AION_ARCHITECTURE",
    show_envvar=True,
    help="Processor of the functions.  [default: the template's]",
)
@click.option(
    "--python",
    envvar="AION_PYTHON",
    show_envvar=True,
    help="Python version of the functions.  [default: the template's]",
)
def build(
    functions: tuple[str, ...], target: Path | None, zips: Path, architecture: str | None, python: str | None
) -> None:
    """Build the Lambda packages of FUNCTIONS, by default of all functions, from the project in the current folder.

    A package contains the project's files (without those of .gitignore, .aionignore, .env and hidden folders), its locked
    dependencies, and aion's code. No native code is compiled, so any machine can build for both of Lambda's processors.
    """
    from aion_core.loading.discovery.discover import project_above
    from aion_tools.package.cache import cache
    from aion_tools.package.packages import packages
    from aion_tools.package.plan import plan
    from aion_tools.package.programs import BuildError, UvMissing
    from aion_tools.package.requirements import FUNCTION_EXTRAS, wanted
    from aion_tools.package.zip_writer import ZipWriter
    from aion_tools.template import stacks
    from aion_tools.template.reader import TemplateError

    if target is not None and len(functions) != 1:
        raise click.UsageError("--to needs one FUNCTION.")
    folder = Path.cwd().resolve()
    if (above := project_above(folder)) is not None:
        raise ConfigurationError(f"aion.yaml is in {above}. Run `aion build` there.")

    if stacks.are_used(folder) and target is None:
        stacks.write(folder)
    elif stacks.are_used(folder):
        # `sam build` runs this command, and has read the stacks before it.
        stacks.check(folder)

    def print_notice(text: str) -> None:
        # Print to standard output for `sam build`, which hides the error output of a successful make.
        click.echo(text, err=target is None)

    def planned(function: str) -> "PackagePlan":
        return plan(function, folder=folder, architecture=architecture, python=python)

    try:
        # Use threads, not processes, because each thread only waits for a uv process, and uv itself uses all
        # processors.
        with waiting("Resolving the dependencies"), ThreadPoolExecutor() as executor:
            plans = list(executor.map(planned, functions or FUNCTION_EXTRAS))
        if selection := next((each.selection for each in plans if each.selection), None):
            print_notice(f"{folder.name}: {selection.summary}")
            for name in selection.credentials:
                warning = (
                    "may contain credentials, by its name or content. If it does, remove them, or add it to .aionignore"
                )
                print_notice(f"{folder.name}: {name} {warning}")
            print_notice(f"{folder.name}: dependencies from {wanted(folder).described}")
        with waiting("Installing the dependencies"):
            built = packages(plans)
        writer = ZipWriter()
        for package in built:
            function, where = package.plan.function, ""
            if target is not None:
                shutil.copytree(package.code, target, dirs_exist_ok=True)
            else:
                with waiting(f"Zipping {function}"):
                    archive = _copied(package.zip(writer), zips, function)
                where = f" → {os.path.relpath(archive)} ({archive.stat().st_size / 1024**2:.0f} MB zipped)"
            click.echo(f"{package}{where}")
            if package.warning:
                print_notice(f"{function}: {package.warning}")
    except (BuildError, TemplateError, UvMissing) as error:
        click.echo(f"aion build: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        output = {target: "--to"} if target else {zips: "--zips"}
        click.echo(f"aion build: {_unusable(error, {cache(): 'AION_PACKAGE_CACHE', **output})}", err=True)
        sys.exit(1)


def _unusable(error: OSError, options: Mapping[Path, str]) -> str:
    """Return the error's file and reason and, if the file is in one of these folders, the option naming the folder."""
    if not error.filename:
        return str(error)
    file = Path(error.filename)
    named = [option for folder, option in options.items() if folder in (file, *file.parents) or file in folder.parents]
    remedy = "".join(f": name another folder by {option}" for option in named)
    return f"{file} cannot be read or written ({error.strerror}){remedy}"


def _copied(zipped: Path, folder: Path, function: str) -> Path:
    """Copy a function's zip file into the folder, and return the path of the copy."""
    if folder.parts[0] == FOLDER:
        make_ignored(Path(FOLDER))
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{function}.zip"
    shutil.copy(zipped, archive)
    return archive
