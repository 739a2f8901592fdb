"""`aion build` creates the Lambda packages of the project's functions, as zip files or as folders for `sam build`."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli.steps import waiting
from aion_tools.dev.data_folder import FOLDER, make_ignored
from aion_tools.programs import OTHER_ARCHITECTURE

if TYPE_CHECKING:
    from aion_tools.package.build import Build
    from aion_tools.package.package import Package


def _function_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from aion_tools.package.functions import FUNCTION_EXTRAS

    return [name for name in FUNCTION_EXTRAS if name.startswith(incomplete)]


@click.command(
    short_help="Build the functions' Lambda packages.",
    epilog="""\b
Examples:
  aion build                                  all packages, as zips in .aion/build
  aion build ApiFunction                      one package
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
    envvar=OTHER_ARCHITECTURE,
    help="Processor of the packages.  [default: Architecture in template.yaml]",
)
def build(functions: tuple[str, ...], target: Path | None, zips: Path, architecture: str | None) -> None:
    """Build the Lambda packages of FUNCTIONS, by default all of them, from the project in the current folder.

    A package contains the project's files (without .env, hidden folders, and what .gitignore and .aionignore list), its
    locked dependencies, and aion's code. No native code is compiled, so any machine can build for both of Lambda's processors.
    """
    from aion_core.loading.discovery.discover import project_above
    from aion_tools.image import folders
    from aion_tools.package.cache import cache
    from aion_tools.programs import BuildError, UvMissing
    from aion_tools.template import image_form, stacks
    from aion_tools.template.reader import TemplateError

    if target is not None and len(functions) != 1:
        raise click.UsageError("--to needs one FUNCTION.")
    folder = Path.cwd().resolve()
    if (above := project_above(folder)) is not None:
        raise ConfigurationError(f"aion.yaml is in {above}. Run `aion build` there.")
    if stacks.are_used(folder) and target is None:
        stacks.write(folder)
        if not image_form.is_wanted(folder):
            shutil.rmtree(folder / image_form.FOLDER, ignore_errors=True)
    elif stacks.are_used(folder):
        # `sam build` runs this command, and has read the stacks before it.
        stacks.check(folder)
    try:
        if target is not None and image_form.is_wanted(folder):
            folders.check(folder, architecture)
        _build(folder, functions, target, zips, architecture)
    except (BuildError, TemplateError, UvMissing) as error:
        click.echo(f"aion build: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        output = {target: "--to"} if target else {zips: "--zips"}
        click.echo(f"aion build: {_unusable(error, {cache(): 'AION_PACKAGE_CACHE', **output})}", err=True)
        sys.exit(1)


def _build(folder: Path, functions: tuple[str, ...], target: Path | None, zips: Path, architecture: str | None) -> None:
    from aion_tools.package.build import Build
    from aion_tools.package.cache import delete_expired
    from aion_tools.package.secrets import SecretVerdict
    from aion_tools.sam_local import env_file
    from aion_tools.template import callback_form, stacks
    from aion_tools.template.file import load
    from aion_tools.template.reader import template_file

    own = template_file(folder)
    if own.parent == folder and not stacks.are_used(folder) and (remotes := callback_form.remotes(folder)):
        callback_form.check(load(own), remotes)

    def print_notice(text: str) -> None:
        # Print to standard output for `sam build`, which hides the error output of a successful make.
        click.echo(f"{folder.name}: {text}", err=target is None)

    with waiting("Reading the locked dependencies"):
        project = Build(folder, functions, architecture=architecture)
    if target is not None:
        # `sam build` runs this command. `sam local` needs the file, which says nothing to a deployed function.
        env_file.write_plain(folder, target)
    if project.selection:
        print_notice(project.selection.summary)
        for finding in project.selection.with_verdict(SecretVerdict.WARNED):
            print_notice(f"check that this isn't a secret: {finding}")
        print_notice(f"dependencies from {project.declared.described}")
    with waiting("Installing the dependencies"):
        installed = project.installed
    if installed.built:
        names = ", ".join(installed.built)
        print_notice(f"{names}: built from source, by build tools that no hash covers")
    if zips.parts[0] == FOLDER:
        make_ignored(Path(FOLDER))
    for function in project.functions:
        with waiting(f"Building {function}"):
            package, place = _written(project, function, target, zips)
        click.echo(f"{package}{place}")
        for warning in package.warnings:
            click.echo(f"{function}: {warning}", err=target is None)
    delete_expired()
    if not functions and any(map(project.is_image, project.functions)):
        print_notice("`aion deploy` deploys the images; with SAM CLI: sam build && sam deploy")


def _written(project: "Build", function: str, target: Path | None, zips: Path) -> tuple["Package", str]:
    """Write a function's package into the target, else as the folder of an image or as a zip. Return where, as a text."""
    from aion_tools.image import folders

    if target is not None:
        return project.write(function, target), ""
    if project.is_image(function):
        package = folders.write(project, function)
        return package, f" → {os.path.relpath(package.code.parent)}"
    archive = zips / f"{function}.zip"
    package = project.zip(function, archive)
    return package, f" → {os.path.relpath(archive)} ({archive.stat().st_size / 1024**2:.0f} MB zipped)"


def _unusable(error: OSError, options: Mapping[Path, str]) -> str:
    """Return the error's file and reason and, if the file is in one of these folders, the option naming the folder."""
    if not error.filename:
        return str(error)
    file = Path(error.filename)
    named = [option for folder, option in options.items() if folder in (file, *file.parents) or file in folder.parents]
    remedy = "".join(f": name another folder by {option}" for option in named)
    return f"{file} cannot be read or written ({error.strerror}){remedy}"
