"""Missing packages of an agent: the command that installs a framework, or a package from the project's requirements."""

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from aion_core.errors import ConfigurationError
from aion_core.loading.discovery.langgraph_json import read_langgraph_json
from aion_core.loading.frameworks import FRAMEWORKS, missing_framework
from aion_core.loading.importing.places import LANGGRAPH_JSON as LANGGRAPH_JSON
from aion_core.loading.load_errors.package_names import normalized, package_name_of

PYPROJECT, REQUIREMENTS = "pyproject.toml", "requirements.txt"

_IN_UVS_CACHE = re.compile(r"(archive|environments)-v\d+")
"""Pattern of the folder names under which uv's cache stores the environments of `uvx`."""


def missing_framework_remedy(module: str, folder: Path) -> str:
    """Return the command that installs the framework with this missing module; "" if no framework has it."""
    found = missing_framework(module)
    if found is None:
        return ""
    extra, framework = found
    if is_uvx():
        command = f"uvx --from 'aion-lambda[{extra},local]' aion dev"
    elif project_table(folder / PYPROJECT):
        command = f"uv add 'aion-lambda[{extra}]'"
    else:
        command = f"pip install 'aion-lambda[{extra},local]'"
    return f"This is {framework.title}: install aion-lambda[{extra},local], as in `{command}`."


def listed_package_remedy(module: str, folder: Path) -> str:
    """Return the remedy for a missing module whose package the project's requirements list; otherwise ""."""
    file, line = next(((file, line) for file, line in _requirements(folder) if _provides(line, module)), ("", ""))
    if not file:
        return ""
    name = _package_name(line)
    if not is_uvx():
        advice = f"{file} names {name}, but the environment that runs aion ({sys.prefix}) does not have it."
        if file == PYPROJECT:
            return f"{advice} Run `uv sync`, then `uv run aion dev`."
        return f"{advice} Run `pip install {f'-r {file}' if file == REQUIREMENTS else repr(line)}` there."
    advice = f"{file} names {name}, but aion runs in an environment of its own (uvx), which does not have it."
    extra = ",".join(installed_extras())
    from_ = f"--from 'aion-lambda[{f'{extra},' if extra else ''}local]' aion dev"
    if file == PYPROJECT:
        has_aion = any(_package_name(each) == "aion-lambda" for _, each in _requirements(folder))
        own = f"'aion-lambda[{extra}]'" if extra else "aion-lambda"
        first = "" if has_aion else f" (after `uv add {own}` and `uv add --dev 'aion-lambda[local]'`)"
        return f"{advice} Start it in the project's: `uv run aion dev`{first}, or `uvx --with-editable . {from_}`."
    more = f"--with-requirements {file}" if file == REQUIREMENTS else f"--with '{line}'"
    return f"{advice} Start it with `uvx {more} {from_}`."


def is_uvx() -> bool:
    """Return True if aion runs in an environment that `uvx` or `uv tool install` has created."""
    prefix = Path(sys.prefix)
    return (prefix / "uv-receipt.toml").is_file() or any(_IN_UVS_CACHE.fullmatch(part) for part in prefix.parts)


def installed_extras() -> Iterator[str]:
    """Yield the extras of aion-lambda whose framework is installed."""
    for extra, framework in FRAMEWORKS.items():
        if framework.distribution:
            with suppress(PackageNotFoundError):
                distribution(framework.distribution)
                yield extra


def _requirements(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the project's requirements, each as a pair of the file that lists it and its line."""
    dependencies = project_table(folder / PYPROJECT).get("dependencies")
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


def project_table(pyproject: Path) -> dict[str, Any]:
    """Return the [project] table of a pyproject.toml; {} if the file or the table is missing or invalid."""
    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    return table if isinstance(table, dict) else {}


def _provides(line: str, module: str) -> bool:
    """Return True if a requirement line names the package of the module, or of one of its parent packages."""
    parts = module.split(".")
    modules = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return _package_name(line) in {normalized(package_name_of(each)) for each in modules}


def _package_name(line: str) -> str:
    found = re.match(r"[A-Za-z0-9][\w.-]*", line)
    return normalized(found[0]) if found else ""
