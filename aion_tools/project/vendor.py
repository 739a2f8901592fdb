"""Wheel of aion-lambda in a project, so that its lock file is valid on every machine before a package index has it."""

from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from aion_tools.package.programs import UvMissing
from aion_tools.project import ProjectError
from aion_tools.project.origin import DISTRIBUTION, Origin
from aion_tools.project.tools import uv_run

_OF_INSTALLERS = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}
"""Names of files that an installer adds to a wheel's metadata, and of the list that is written anew."""


def write(folder: Path, origin: Origin) -> None:
    """Write the wheel of this installation into the project. Raises ProjectError if it cannot be built."""
    if not origin.wheel:
        return
    file = folder / origin.wheel
    file.parent.mkdir(parents=True, exist_ok=True)
    if not origin.clone:
        _pack(file)
        return
    build = ["build", "--quiet", "--wheel", "--no-create-gitignore", "--out-dir", str(file.parent.resolve())]
    try:
        failed = uv_run(Path(origin.clone), build)
    except UvMissing as error:
        failed = str(error)
    if failed:
        raise ProjectError(f"The wheel of aion-lambda could not be built in {origin.clone}:\n{failed}")


def _pack(file: Path) -> None:
    """Write a wheel with the files of this installation."""
    files = distribution(DISTRIBUTION).files or []
    (record,) = (path.as_posix() for path in files if path.name == "RECORD")
    lines = [f"{record},,\n"]
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for path in files:
            # Installers write the scripts, outside of this folder, and bytecode, which has no hash.
            if path.hash is None or ".." in path.parts or path.name in _OF_INSTALLERS:
                continue
            archive.writestr(ZipInfo(path.as_posix()), path.read_binary(), ZIP_DEFLATED)
            lines.append(f"{path.as_posix()},{path.hash.mode}={path.hash.value},{path.size}\n")
        archive.writestr(ZipInfo(record), "".join(lines), ZIP_DEFLATED)
