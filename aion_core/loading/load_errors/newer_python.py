"""Remedies of code that needs a newer Python: its syntax, names of the standard library, and what the project declares."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from aion_core.loading.load_errors.missing_packages import (
    LANGGRAPH_JSON,
    PYPROJECT,
    installed_extras,
    is_uvx,
    project_table,
)

_NEW_NAMES: dict[str, dict[str, int]] = {
    "asyncio": {"QueueShutDown": 13, "create_eager_task_factory": 12, "eager_task_factory": 12},
    "calendar": {"Day": 12, "Month": 12},
    "collections.abc": {"Buffer": 12},
    "compression": {"": 14},
    "concurrent.futures": {"InterpreterPoolExecutor": 14},
    "concurrent.interpreters": {"": 14},
    "copy": {"replace": 13},
    "enum": {"EnumDict": 13},
    "functools": {"Placeholder": 14},
    "inspect": {"getasyncgenlocals": 12, "getasyncgenstate": 12, "markcoroutinefunction": 12},
    "io": {"Reader": 14, "Writer": 14},
    "itertools": {"batched": 12},
    "math": {"fma": 13, "sumprod": 12},
    "os": {"process_cpu_count": 13},
    "pathlib": {"UnsupportedOperation": 13},
    "queue": {"ShutDown": 13},
    "string.templatelib": {"": 14},
    "sys": {"monitoring": 12},
    "types": {"CapsuleType": 13, "get_original_bases": 12},
    "typing": {
        "NoDefault": 13,
        "ReadOnly": 13,
        "TypeAliasType": 12,
        "TypeIs": 13,
        "evaluate_forward_ref": 14,
        "get_protocol_members": 13,
        "is_protocol": 13,
        "override": 12,
    },
    "uuid": {"uuid6": 14, "uuid7": 14, "uuid8": 14},
    "annotationlib": {"": 14},
    "warnings": {"deprecated": 13},
}
"""Minor versions of Python 3 that have added names to modules of the standard library; "" for the module itself."""

_NEW_SYNTAX = (
    (re.compile(r"\s*type\s+\w+\s*(\[.*\]\s*)?="), 12, "the statement `type`"),
    (re.compile(r"\s*(async\s+)?def\s+\w+\s*\["), 12, "a function's type parameters"),
    (re.compile(r"\s*class\s+\w+\s*\["), 12, "a class's type parameters"),
    (re.compile(r".*(?<!\w)t[rR]?[\"']"), 14, "a template string"),
)
"""Beginnings of lines with syntax that is newer than Python 3.11: pattern, minor version and name."""

_NEW_MESSAGES = {
    "f-string expression part cannot include a backslash": (12, "a backslash in an f-string's braces"),
    "f-string expression part cannot include '#'": (12, "a comment in an f-string's braces"),
    "multiple exception types must be parenthesized": (14, "several exceptions after `except` without parentheses"),
}
"""Messages of a SyntaxError for syntax that a newer Python accepts: its minor version and the syntax's name."""

_F_STRING = re.compile(r"(?<!\w)(?:[fF][rR]?|[rR][fF])(\"{3}|'{3}|[\"'])")
_LEAST = re.compile(r"(?:>=|>|~=|==|\^|=)?\s*3\.(\d+)")
_UPPER = re.compile(r"(?:<=?|!=)\s*[\d.*]+")


def newer_python_remedy(error: BaseException, file: str, folder: Path) -> str:
    """Return the remedy for code that needs a newer Python than this one; "" for other errors."""
    needed, subject = _needed(error)
    declared, by = _declared(file, folder) if needed or _may_be_newer(error) else (0, "")
    if not needed and declared <= _MINOR:
        return ""
    version = max(needed, declared)
    needs = f"{subject} needs Python 3.{needed}" if needed else f"{by} requires Python 3.{declared}"
    if needed and declared > _MINOR:
        needs = f"{needs}, {by} requires 3.{declared}"
    return f"{needs}, and this is Python 3.{_MINOR}. {_start_with(f'3.{version}', folder)}"


_MINOR = sys.version_info.minor


def _needed(error: BaseException) -> tuple[int, str]:
    """Return the minor version of Python that the failed code needs, and the subject that needs it; (0, "") if unknown."""
    if isinstance(error, SyntaxError):
        needed, syntax = _of_syntax(str(error.msg), error.text or "")
        return (needed, syntax[0].upper() + syntax[1:]) if needed > _MINOR else (0, "")
    for module, name in _missing_names(error):
        if (needed := _NEW_NAMES.get(module, {}).get(name, 0)) > _MINOR:
            return needed, f"{module}.{name}" if name else f"The module {module}"
    return 0, ""


def _of_syntax(message: str, line: str) -> tuple[int, str]:
    if message in _NEW_MESSAGES:
        return _NEW_MESSAGES[message]
    if message.startswith("f-string:") and _nests_quotes(line):
        return 12, "a quote of the f-string's own kind within its braces"
    return next(((minor, name) for pattern, minor, name in _NEW_SYNTAX if pattern.match(line)), (0, ""))


def _nests_quotes(line: str) -> bool:
    """Return True if an f-string of the line has its own quote at least twice within its braces, as since Python 3.12."""
    for start in _F_STRING.finditer(line):
        quote, depth, inner = start[1], 0, 0
        for each in re.findall(rf"{{{{|}}}}|{quote}|[{{}}]", line[start.end() :]):
            if each == quote:
                if not depth:
                    break
                inner += 1
            elif depth or each == "{":
                depth = max(depth + each.count("{") - each.count("}"), 0)
                if not depth and inner > 1:
                    return True
    return False


def _missing_names(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield the module and the name that an import or an attribute lacks."""
    if isinstance(error, ModuleNotFoundError):
        parts = (error.name or "").split(".")
        yield from ((".".join(parts[:length]), "") for length in range(len(parts), 0, -1))
    elif isinstance(error, ImportError):
        if found := re.match(r"cannot import name '(\w+)' from", str(error)):
            yield error.name or "", found[1]
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        yield error.obj.__name__, error.name or ""


def _may_be_newer(error: BaseException) -> bool:
    """Return True for an error that may come of an older Python: of syntax, or of a name of the standard library."""
    if isinstance(error, SyntaxError):
        return True
    return any(module.partition(".")[0] in sys.stdlib_module_names for module, _ in _missing_names(error))


def _declared(file: str, folder: Path) -> tuple[int, str]:
    """Return the least minor version of Python that the project declares, and the file that does; (0, "") if none."""
    own = [folder, *(place for place in Path(file).parents if place.is_relative_to(folder))] if file else [folder]
    found = [(_least(str(project_table(place / PYPROJECT).get("requires-python", ""))), PYPROJECT) for place in own]
    with suppress(OSError, ValueError, AttributeError):
        version = json.loads((folder / LANGGRAPH_JSON).read_text(encoding="utf-8")).get("python_version", "")
        found.append((_least(str(version)), LANGGRAPH_JSON))
    return max(found)


def _least(specifiers: str) -> int:
    """Return the minor version of the lower bound in version specifiers such as `>=3.12,<3.14`; 0 without one."""
    minors = [int(found[1]) for found in _LEAST.finditer(_UPPER.sub("", specifiers))]
    return max(minors, default=0)


def _start_with(version: str, folder: Path) -> str:
    if is_uvx():
        extras = ",".join([*installed_extras(), "local"])
        return f"Start it with `uvx --python {version} --from 'aion-lambda[{extras}]' aion dev`."
    if project_table(folder / PYPROJECT):
        return f"Run `uv python pin {version}`, then `uv sync`."
    return f"Run aion in an environment of Python {version} or newer."
