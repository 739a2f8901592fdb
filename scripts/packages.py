"""Packages of the repository's functions, each built once by a process."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from aion_tools.package.build import Build
from aion_tools.package.cache import scratch
from aion_tools.package.package import Package
from aion_tools.shipped import shipped


@cache
def built(function: str, architecture: str, python: str | None = None, configs: tuple[Path, ...] = ()) -> Package:
    """Return the function's package with the agents of these configs, by default of aion.yaml. Do not change its files.

    It is deleted when this process ends. Raises the errors of `Build`.
    """
    build = _build(architecture, python, configs)
    folder = scratch()
    _FOLDERS.append(folder)
    return build.write(function, Path(folder.name), link=True)


@cache
def _build(architecture: str, python: str | None, configs: tuple[Path, ...]) -> Build:
    return Build(shipped(), architecture=architecture, python=python, configs=configs or None)


def runtimes_boto3(architecture: str, python: str | None = None) -> Path:
    """Return a folder with boto3 and its requirements, which Lambda's runtime contains."""
    build = _build(architecture, python, ())
    folder = scratch()
    _FOLDERS.append(folder)
    for file in build.installed.files(build.installed.reachable(["boto3"])):
        place = Path(folder.name, file.place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.hardlink_to(file.source)
    return Path(folder.name)


_FOLDERS: list["TemporaryDirectory[str]"] = []
"""Folders of this process. Each is deleted with its object."""
