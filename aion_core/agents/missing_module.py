"""Remedies for a module that is not installed: which package has it, and where to install that."""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from aion_core.agents.langgraph_json import NAME as LANGGRAPH_JSON
from aion_core.agents.langgraph_json import read_langgraph_json
from aion_core.errors import ConfigurationError

PYPROJECT, REQUIREMENTS = "pyproject.toml", "requirements.txt"

_FRAMEWORKS = {
    "langgraph": ("a LangGraph agent", "langgraph"),
    "langchain_core": ("a LangGraph agent", "langgraph"),
    "google.adk": ("an ADK agent", "adk"),
    "google.genai": ("an ADK agent", "adk"),
}
"""By module, what an agent that imports it is, and the extra of aion-lambda that brings it."""

_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Packages of well-known modules that have another name."""

_IN_UVS_CACHE = re.compile(r"(archive|environments)-v\d+")
"""Names of the folders in uv's cache that hold the environments of `uvx`."""


def package_of(module: str) -> str:
    """Return the package to install for the module, by its name if no other is known."""
    return _PACKAGES.get(module, module)


def of_framework(module: str, folder: Path) -> str:
    """Return the remedy for a framework's module that is not installed, "" for any other module."""
    if module not in _FRAMEWORKS:
        return ""
    is_, extra = _FRAMEWORKS[module]
    if _is_uvx():
        command = f"uvx --from 'aion-lambda[{extra},local]' aion dev"
    elif _table(folder / PYPROJECT):
        command = f"uv add 'aion-lambda[{extra}]'"
    else:
        command = f"pip install 'aion-lambda[{extra},local]'"
    return f"This is {is_}: install aion-lambda[{extra},local], as in `{command}`."


def of_named_package(module: str, folder: Path) -> str:
    """Return the remedy if the project names the module's package, which is not installed here; else ""."""
    file, line = next(((file, line) for file, line in _named(folder) if _has(line, module)), ("", ""))
    if not file:
        return ""
    name = _name(line)
    if not _is_uvx():
        said = f"{file} names {name}, but the environment that runs aion ({sys.prefix}) does not have it."
        if file == PYPROJECT:
            return f"{said} Run `uv sync`, then `uv run aion dev`."
        return f"{said} Run `pip install {f'-r {file}' if file == REQUIREMENTS else repr(line)}` there."
    said = f"{file} names {name}, but aion runs in an environment of its own (uvx), which does not have it."
    extra = ",".join(_installed_extras())
    from_ = f"--from 'aion-lambda[{f'{extra},' if extra else ''}local]' aion dev"
    if file == PYPROJECT:
        has_aion = any(_name(each) == "aion-lambda" for _, each in _named(folder))
        own = f"'aion-lambda[{extra}]'" if extra else "aion-lambda"
        first = "" if has_aion else f" (after `uv add {own}` and `uv add --dev 'aion-lambda[local]'`)"
        return f"{said} Start it in the project's: `uv run aion dev`{first}, or `uvx --with-editable . {from_}`."
    more = f"--with-requirements {file}" if file == REQUIREMENTS else f"--with '{line}'"
    return f"{said} Start it with `uvx {more} {from_}`."


def _is_uvx() -> bool:
    """Tell whether this environment is uv's own: of `uvx`, or of `uv tool install`."""
    prefix = Path(sys.prefix)
    return (prefix / "uv-receipt.toml").is_file() or any(_IN_UVS_CACHE.fullmatch(part) for part in prefix.parts)


def _installed_extras() -> Iterator[str]:
    for extra, package in (("langgraph", "langgraph"), ("adk", "google-adk")):
        try:
            distribution(package)
        except PackageNotFoundError:
            continue
        yield extra


def _named(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each requirement of the project, and the name of the file that has it."""
    dependencies = _table(folder / PYPROJECT).get("dependencies")
    yield from ((PYPROJECT, str(line)) for line in (dependencies if isinstance(dependencies, list) else ()))
    requirements = folder / REQUIREMENTS
    if requirements.is_file():
        lines = requirements.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from ((REQUIREMENTS, line.strip()) for line in lines)
    if (folder / LANGGRAPH_JSON).is_file():
        try:
            lines = list(read_langgraph_json(folder / LANGGRAPH_JSON).requirements)
        except ConfigurationError:
            lines = []
        yield from ((LANGGRAPH_JSON, line) for line in lines)


def _table(pyproject: Path) -> dict[str, Any]:
    """Return the table [project] of the file, {} if it has none that can be read."""
    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    return table if isinstance(table, dict) else {}


def _has(line: str, module: str) -> bool:
    """Tell whether the requirement is the package of the module, or of a package that the module is in."""
    parts = module.split(".")
    modules = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return _name(line) in {_normal(package_of(each)) for each in modules}


def _name(line: str) -> str:
    found = re.match(r"[A-Za-z0-9][\w.-]*", line)
    return _normal(found[0]) if found else ""


def _normal(name: str) -> str:
    """Return the name as Python's packaging compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
