"""Folders in `.aion/image` from which docker builds the images: each has a package, and the Dockerfile that copies it."""

import filecmp
import json
import shutil
from pathlib import Path

from aion_tools.package.build import Build
from aion_tools.package.cache import scratch
from aion_tools.package.package import Package
from aion_tools.package.trim import TASK_ROOT
from aion_tools.programs import BuildError
from aion_tools.template.image_form import FOLDER, WRAPPER

_CODE = "code"
_BASE_ENTRYPOINT = "/lambda-entrypoint.sh"


def write(project: Build, function: str) -> Package:
    """Write a function's folder anew, and return its package. Raises BuildError or UvMissing."""
    folder = project.folder / FOLDER / function
    shutil.rmtree(folder, ignore_errors=True)
    package = project.write(function, folder / _CODE)
    # Lambda's user reads the image's folders with these modes; a zip has no folders.
    for each in (package.code, *(path for path in package.code.rglob("*") if path.is_dir())):
        each.chmod(0o755)
    # Last, so that docker builds no image from an unfinished folder.
    (folder / "Dockerfile").write_text(dockerfile(project, function), encoding="utf-8")
    return package


def dockerfile(project: Build, function: str) -> str:
    """Return the Dockerfile of a function's image. It installs nothing: the package is what `aion build` made."""
    variables = project.template.environment(function)
    lines = [
        "# Written by `aion build`.",
        f"FROM public.ecr.aws/lambda/python:{project.target.python}",
        f"COPY {_CODE} {TASK_ROOT}/",
    ]
    if WRAPPER in variables:
        lines.append(f"ENTRYPOINT {json.dumps([variables[WRAPPER], _BASE_ENTRYPOINT])}")
    return "\n".join([*lines, f"CMD {json.dumps([project.template.resolved(function, 'Handler')['Handler']])}", ""])


def check(folder: Path, architecture: str | None = None) -> None:
    """Raise BuildError if the project's images would have other packages than `aion build` would write now.

    SAM CLI builds an image by docker alone, from a folder that `aion build` has written before. Raises UvMissing.
    """
    project = Build(folder, architecture=architecture)
    for function in filter(project.is_image, project.functions):
        there = project.folder / FOLDER / function
        with scratch() as made:
            project.write(function, Path(made), link=True)
            if differing := _difference(Path(made), there / _CODE):
                raise BuildError(
                    f"{FOLDER}/{function} is outdated: {differing} differs. Run `aion build`, then `sam build` again: SAM builds "
                    "the image from this folder"
                )
        if not (there / "Dockerfile").is_file():
            raise BuildError(f"{FOLDER}/{function} has no Dockerfile. Run `aion build`, then `sam build` again")


def _difference(wanted: Path, found: Path) -> str:
    """Return the path of a file that only one of the folders has, or that differs; "" if the folders are equal."""
    ours, theirs = (
        {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
        for folder in (wanted, found)
    )
    _, differing, unreadable = filecmp.cmpfiles(wanted, found, ours & theirs, shallow=False)
    # A module is named before its .pyc file.
    return min(ours ^ theirs | {*differing, *unreadable}, key=lambda place: (place.endswith(".pyc"), place), default="")
