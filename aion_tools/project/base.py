"""Copies of the shipped files in a project (infra/.shipped). They are the base of an upgrade's three-way merge."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aion_core import __version__
from aion_tools.project import ProjectError

FOLDER = "infra/.shipped"
RULE = "build.mk"
"""File name of the copied Makefile rule."""

_VERSION = "VERSION"
_UNREADABLE = (
    f"{FOLDER} cannot be read: {{why}}. Restore it (git checkout -- {FOLDER}), or remove it: `aion upgrade` then writes each "
    f"different new version beside your file, as .new."
)
_README = (
    "Copies of the files as aion-lambda shipped them. `aion upgrade` compares yours with them, to keep your edits.\n"
    "Commit them, and leave them as they are.\n"
)


@dataclass(frozen=True, slots=True)
class Base:
    """Files as shipped when the project was created or last upgraded."""

    files: Mapping[str, str]
    """Texts of the copied files by path, with the Makefile's rule under `RULE`. Empty if the project has no copies."""
    version: str = ""
    """Version of aion-lambda that shipped the files. Empty if the project has no copies."""


def read(project: Path) -> Base:
    """Read the copies of the shipped files in the project. Raises ProjectError if they cannot be read."""
    folder = project / FOLDER
    if folder.exists() and not folder.is_dir():
        raise ProjectError(_UNREADABLE.format(why="it is a file"))
    try:
        return _read(folder)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "a file in it is not UTF-8"
        raise ProjectError(_UNREADABLE.format(why=why)) from error


def _read(folder: Path) -> Base:
    version = folder / _VERSION
    if not version.is_file():
        return Base({})
    copies = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name not in (_VERSION, "README")]
    files = {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in copies}
    number = version.read_text(encoding="utf-8").strip()
    if not re.match(r"\d+\.\d+", number):
        raise ProjectError(_UNREADABLE.format(why="its VERSION is not a version"))
    return Base(files, number)


def write(project: Path, files: Mapping[str, str], version: str = __version__) -> None:
    """Write copies of the shipped files into the project, in place of the earlier copies."""
    folder = project / FOLDER
    for name in set(read(project).files) - set(files):
        (folder / name).unlink()
    for name, text in {**files, _VERSION: f"{version}\n", "README": _README}.items():
        put(folder / name, text)


def put(file: Path, text: str) -> None:
    """Write the text to a file with its line ends unchanged on every system. Create the folder if it is missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="\n")
