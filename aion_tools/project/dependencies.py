"""Addition of packages to the agent's dependencies. Development tools stay unchanged."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from aion_tools.programs import UvMissing
from aion_tools.project import ProjectError
from aion_tools.project.names import normal
from aion_tools.project.tools import BY_FILE, PIP, POETRY, read_pyproject, read_text, tool_of, uv_run

_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Matches the package name at the beginning of a requirement. It does not match options and paths."""


def add(folder: Path, packages: Sequence[str], *, environment: Path | None = None) -> str:
    """Add packages to the project's dependencies and install them. Return a sentence about the result.

    With a pyproject.toml, uv adds, locks and installs the packages. With a requirements.txt, and no dependencies in a
    pyproject.toml, each package becomes a line of the file; uv installs it into the folder's .venv or, if this is
    missing, into `environment` (by default this program's). Raises ProjectError, before any change, for an invalid
    package name, for a folder without these files, for a project of another tool, and for an unreadable file.
    """
    for package in packages:
        if not _REQUIREMENT.match(package):
            raise ProjectError(
                f"{package!r} is not a package name. Use the name in the package index, such as langchain-openai."
            )
    named = ", ".join(packages)
    for file, tool in BY_FILE.items():
        if (folder / file).is_file():
            raise ProjectError(f"{file} belongs to another dependency tool. Run: {tool.add} {' '.join(packages)}")
    tool = tool_of(folder)
    if tool is PIP:
        return _add_to_requirements(folder, packages, named, environment)
    if "project" in read_pyproject(folder):
        return _add_to_project(folder, packages, named)
    if tool is POETRY:
        raise ProjectError(f"pyproject.toml has no [project] table. Run: {tool.add} {' '.join(packages)}")
    if (folder / "pyproject.toml").is_file():
        raise ProjectError(
            "pyproject.toml has no [project] table for dependencies. Add one with `name` and `version`, or list the "
            "dependencies in a requirements.txt."
        )
    raise ProjectError(
        f"{folder} has neither a pyproject.toml nor a requirements.txt for {named}. `aion new --here` makes this folder a "
        f"project. For one run: uvx {' '.join(f'--with {package}' for package in packages)} "
        f"--from 'aion-lambda[langgraph,local]' aion dev"
    )


def _add_to_project(folder: Path, packages: Sequence[str], named: str) -> str:
    # Install with a second command, because `uv add` alone would also install the dependency group `dev` with pytest.
    _run(folder, ["add", "--quiet", "--no-sync", "--", *packages], f"{named} could not be added to pyproject.toml")
    _run(
        folder,
        ["sync", "--quiet", "--inexact", "--no-default-groups"],
        f"{named} is in pyproject.toml and uv.lock, but could not be installed",
    )
    return f"{named}: added to pyproject.toml and uv.lock, and installed."


def _add_to_requirements(folder: Path, packages: Sequence[str], named: str, environment: Path | None) -> str:
    file = folder / "requirements.txt"
    text = read_text(file)
    existing = {normal(found[0]) for line in text.splitlines() if (found := _REQUIREMENT.match(line.strip()))}
    new = [package for package in packages if normal(_REQUIREMENT.match(package)[0]) not in existing]  # type: ignore[index]
    own = folder / ".venv"
    environment = own if own.is_dir() else environment or Path(sys.prefix)
    if is_lasting := not _is_for_one_run(environment):
        install = ["pip", "install", "--quiet", "--python", str(environment), "--", *packages]
        _run(folder, install, f"{named} could not be installed")
    with file.open("a", encoding="utf-8", newline="\n") as lines:
        lines.write("".join(["" if text.endswith("\n") or not text else "\n", *(f"{package}\n" for package in new)]))
    where = "added to requirements.txt" if new else "already in requirements.txt"
    if is_lasting:
        return f"{named}: {where}, and installed."
    return (
        f"{named}: {where}. This aion runs in a temporary environment (uvx). Start it again with "
        f"uvx --with-requirements requirements.txt --from 'aion-lambda[langgraph,local]' aion dev"
    )


def _is_for_one_run(environment: Path) -> bool:
    """Return True for an environment of uvx or `uv tool`. Packages installed into it are lost, or disturb the tool."""
    return (environment / "uv-receipt.toml").is_file() or any(
        part.startswith("archive-v") for part in environment.parts
    )


def _run(folder: Path, arguments: Sequence[str], failed: str) -> None:
    try:
        reason = uv_run(folder, arguments)
    except UvMissing as error:
        raise ProjectError(f"{failed}: {error}") from error
    if reason:
        raise ProjectError(f"{failed}:\n{reason}")
