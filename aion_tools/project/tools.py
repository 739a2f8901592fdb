"""Commands of the dependency tools uv, pip, Poetry, PDM and Pipenv."""

import os
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aion_tools.package.programs import find_uv, without_credentials
from aion_tools.project import ProjectError


@dataclass(frozen=True, slots=True)
class Tool:
    """A dependency tool with its commands."""

    add: str
    """Command to add a dependency, without the requirement."""
    add_tool: str
    """Command to add a development tool, without the requirement."""
    run: str
    """Prefix that runs a command in the project's environment."""
    steps: tuple[str, ...]
    """Steps of a GitHub workflow that install the project, as YAML. `{local}` stands for aion-lambda[local]."""


_PYTHON = 'uses: actions/setup-python@v6\n        with:\n          python-version: "3.13"'

UV = Tool("uv add", "uv add --dev", "uv run ", ("uses: astral-sh/setup-uv@v7", "run: uv sync --locked"))
PIP = Tool(
    "",
    "",
    ".venv/bin/",
    (
        _PYTHON,
        "run: python -m venv .venv",
        "run: .venv/bin/pip install -r requirements.txt {local}",
    ),
)
POETRY = Tool(
    "poetry add",
    "poetry add --group dev",
    "poetry run ",
    (_PYTHON, "run: pipx install poetry", "run: poetry install --no-root"),
)
PDM = Tool("pdm add", "pdm add --dev", "pdm run ", (_PYTHON, "run: pipx install pdm", "run: pdm sync --no-self"))
PIPENV = Tool(
    "pipenv install",
    "pipenv install --dev",
    "pipenv run ",
    (_PYTHON, "run: pipx install pipenv", "run: pipenv sync --dev"),
)

BY_FILE = {"poetry.lock": POETRY, "pdm.lock": PDM, "Pipfile": PIPENV}
"""Dependency tools by the name of a file used only by them."""


def tool_of(folder: Path) -> Tool:
    """Return the dependency tool used in the folder, by default uv. Raises ProjectError for an invalid pyproject.toml.

    A requirements.txt beside a pyproject.toml without dependencies is pip's, as for `aion build`.
    """
    for file, tool in BY_FILE.items():
        if (folder / file).is_file():
            return tool
    project = read_pyproject(folder)
    if "poetry" in project.get("tool", {}):
        return POETRY
    is_for_pip = "dependencies" not in project.get("project", {}) and (folder / "requirements.txt").is_file()
    return PIP if is_for_pip else UV


def read_pyproject(folder: Path) -> dict[str, Any]:
    """Return the parsed pyproject.toml of the folder, or {} if the file is missing. Raises ProjectError."""
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(read_text(file)) if file.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise ProjectError(f"{file} is not valid TOML: {error}.") from error


def read_text(file: Path) -> str:
    """Return the text of a file in the project, without a byte order mark. Raises ProjectError if it is not UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProjectError(f"{file} is not UTF-8 ({error}): save it as UTF-8.") from error


_OF_OUR_OWN_RUN = ("VIRTUAL_ENV", "UV_RUN_RECURSION_DEPTH")
"""Environment variables to remove before running uv, so that it uses the project's environment, not this program's."""


def uv_run(folder: Path, arguments: Sequence[str]) -> str:
    """Run uv with these arguments in the folder. Return "" on success, else uv's output. Raises UvMissing.

    The output has no credentials in URLs.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _OF_OUR_OWN_RUN}
    # uv refuses to run if one of these folders is missing, such as the `dist` of a clone before its first build.
    links = environment.pop("UV_FIND_LINKS", "").split(",")
    if existing := [link for link in links if "://" in link or (link and (folder / link).exists())]:
        environment["UV_FIND_LINKS"] = ",".join(existing)
    command = [find_uv(), *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)  # noqa: S603 - no shell
    output = without_credentials(ran.stderr.strip() or ran.stdout.strip())
    return "" if ran.returncode == 0 else output or f"uv exits {ran.returncode}"
