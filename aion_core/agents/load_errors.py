"""Errors raised while an agent is loaded, with the cause, the line in the author's files and the remedy."""

import ast
import difflib
import linecache
import os
import re
import sys
import sysconfig
import tomllib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

from aion_core.agents.discovery import NAME as LANGGRAPH_JSON
from aion_core.agents.discovery import read_langgraph_json
from aion_core.agents.frameworks import FRAMEWORKS, missing_framework
from aion_core.errors import AgentLoadError, ConfigurationError

LONGEST = 300
"""Maximum number of characters of an exception's text within an error message."""

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
"""Pattern of an environment variable's name."""
_CONFIDENTIAL = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")
"""Last words in the names of environment variables with confidential values."""
_REQUESTED = (*_CONFIDENTIAL, "ENDPOINT", "URL", "PROJECT")
"""Last words in the names of environment variables that libraries commonly require."""
_LIBRARIES = ("site-packages", "dist-packages")
_OURS = str(Path(__file__).parents[1])
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)})


def explain_error(
    error: BaseException, subject: str, folder: Path, verb: str = "cannot be imported:", *, file: Path | None = None
) -> AgentLoadError:
    """Return an AgentLoadError with the text of an exception, its file and line, and the remedy.

    `subject` begins the message, such as the path of the agent. File names are relative to the project's `folder`. The
    error names `file` if no line of the author's code is known. The caller sets the error's `__cause__`.
    """
    own, line, source = _author_frame(error, folder)
    return AgentLoadError(
        f"{subject} {verb} {type(error).__name__}: {exception_text(error)}",
        where=_location(own, [line], folder) if own else display_path(file, folder) if file is not None else "",
        source=source,
        do=_remedy(error, own, folder),
    )


def source_location(file: Path | str | None, lines: Iterable[int], folder: Path) -> dict[str, str]:
    """Return AgentLoadError's arguments `where` and `source` for these lines of the file, or {} if `file` is None."""
    numbers = sorted({line for line in lines if line > 0})
    if file is None:
        return {}
    source = linecache.getline(str(file), numbers[0]).strip() if numbers else ""
    return {"where": _location(str(file), numbers, folder), "source": source}


def display_path(file: Path | str, folder: Path) -> str:
    """Return the file's path, relative to the folder if the folder contains the file."""
    path = Path(file)
    for base in (folder, folder.resolve()):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the question "Did you mean …?" with the most similar of the names, "" without a similar name."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""


def _location(file: str, lines: list[int], folder: Path) -> str:
    name = display_path(file, folder)
    if not lines:
        return name
    return f"{name}, line {lines[0]}" if len(lines) == 1 else f"{name}, lines {', '.join(map(str, lines))}"


def exception_text(error: BaseException) -> str:
    """Return the exception's text as one short line."""
    if isinstance(error, SyntaxError):
        return str(error.msg)
    problems = getattr(error, "errors", None)
    if callable(problems) and type(error).__module__.startswith("pydantic"):
        fields = [f"{'.'.join(map(str, problem['loc'])) or 'value'}: {problem['msg']}" for problem in problems()]
        return _shortened("; ".join(fields))
    return _shortened(" ".join(str(error).split()))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _author_frame(error: BaseException, folder: Path) -> tuple[str, int, str]:
    """Return the file, line and source of the author's innermost code in an exception's traceback.

    Return ("", 0, "") if the traceback contains no code of the author.
    """
    if isinstance(error, SyntaxError) and error.filename and not _is_library(error.filename, folder):
        return error.filename, error.lineno or 1, (error.text or "").strip()
    found = ("", 0, "")
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not _is_library(file, folder):
            linecache.checkcache(file)
            found = file, line, linecache.getline(file, line).strip()
    return found


def _is_library(file: str, folder: Path) -> bool:
    if file.startswith("<"):
        return True
    path, own = Path(file), folder.resolve()
    if any(name in path.parts for name in _LIBRARIES):
        return True
    if path.is_relative_to(own) and not path.is_relative_to(_OURS):
        return path.relative_to(own).parts[0].removesuffix(".py") in _installed_in(own)
    return file.startswith((f"{_OURS}{os.sep}", *(f"{place}{os.sep}" for place in _STDLIB)))


@cache
def _installed_in(folder: Path) -> frozenset[str]:
    """Return the names of the packages installed beside the agent's code, as in a Lambda package."""
    return frozenset(packages_distributions()) if Path(_OURS).parent == folder else frozenset()


def _remedy(error: BaseException, file: str, folder: Path) -> str:
    for remedy in (
        _shadowing_remedy,
        _import_remedy,
        _variable_remedy,
        _syntax_remedy,
        _exit_remedy,
        _input_remedy,
        _event_loop_remedy,
        _file_remedy,
    ):
        if advice := remedy(error, file, folder):
            return advice
    return "Fix that line." if file else "Fix the agent's code."


def _shadowing_remedy(error: BaseException, file: str, folder: Path) -> str:
    """Return the remedy for an author's file with the name of a standard library module, "" for other errors."""
    if not isinstance(error, ImportError | AttributeError):
        return ""
    named = error.name if isinstance(error, ImportError) else getattr(error.obj, "__name__", "")
    top = str(named or "").partition(".")[0]
    if top not in sys.stdlib_module_names:
        return ""
    places = [folder, *([Path(file).parent] if file else []), folder / "src"]
    own = next((place / f"{top}.py" for place in places if (place / f"{top}.py").is_file()), None)
    if own is None:
        return ""
    return f"Rename {display_path(own, folder)}: Python has a module {top!r} of its own, and only one of them can be imported."


def _import_remedy(error: BaseException, file: str, folder: Path) -> str:
    if not isinstance(error, ImportError):
        return ""
    text = str(error)
    if "relative import" in text:
        parent = Path(file).parent.name if file else ""
        if parent and not parent.isidentifier():
            return f"Rename the folder {parent!r}: a package's name has letters, digits and underscores only."
        return "Put an __init__.py into each folder of the package, or import by the full name: from package.module import x."
    if "partially initialized" in text or "circular import" in text:
        return "The two files import each other: import one of them inside the function that uses it."
    name = error.name or ""
    if isinstance(error, ModuleNotFoundError) and name:
        return _module_remedy(name, file, folder)
    if requested := re.match(r"cannot import name '(\w+)' from", text):
        if advice := missing_framework_remedy(f"{name}.{requested[1]}", folder):
            return advice
        module = sys.modules.get(name)
        return (
            did_you_mean(requested[1], vars(module) if module is not None else ())
            or f"Define {requested[1]!r} in {name}, or fix the name."
        )
    return ""


def _module_remedy(name: str, file: str, folder: Path) -> str:
    if advice := missing_framework_remedy(name, folder) or listed_package_remedy(name, folder):
        return advice
    parent, _, last = name.rpartition(".")
    if parent:
        package = sys.modules.get(parent)
        if package is not None and not hasattr(package, "__path__"):
            hiding = getattr(package, "__file__", None) or "a module of Python's own"
            return f"{parent!r} is {display_path(hiding, folder)}, which hides the package of that name: rename one of them."
        known = [_module_name(path) for place in getattr(package, "__path__", ()) for path in Path(place).iterdir()]
        return (
            did_you_mean(last, known)
            or f"There is no module {last!r} in {parent}: fix the name, or update the package."
        )
    beside = {*_modules(folder), *_modules(folder / "src"), *(_modules(Path(file).parent) if file else ())}
    if near := did_you_mean(name, beside):
        return f"{near} If it is a third-party package, run `aion add {package_name_of(name)}`."
    if package_name_of(name) != name:
        return f"Run `aion add {package_name_of(name)}`, the package of the module {name}."
    return f"Run `aion add {name}`. The package may have another name than the module: look it up on pypi.org."


def _modules(folder: Path) -> Iterator[str]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix == ".py" or (path / "__init__.py").is_file():
            yield _module_name(path)


def _module_name(path: Path) -> str:
    return path.name.removesuffix(".py")


def _variable_remedy(error: BaseException, file: str, folder: Path) -> str:
    if variable := _missing_variable(error):
        if variable.upper().endswith(_CONFIDENTIAL):
            deployed = "name its secret under `secrets` in aion.yaml for AWS"
        else:
            deployed = "set it under `environment` in aion.yaml for AWS"
        return f"Put {variable}=… into .env beside aion.yaml for this machine, and {deployed}."
    return ""


def _missing_variable(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        # `os.environ` is a mapping of the module `os`; any other mapping is the author's.
        return error.args[0] if frames and frames[-1].f_globals.get("__name__") == "os" else ""
    text = str(error)
    named = [name for name in _VARIABLE.findall(text) if name not in os.environ]
    requested = [name for name in named if name.endswith(_REQUESTED)]
    if requested:
        return str(requested[0])
    return str(named[0]) if named and "environment" in text.lower() else ""


def _syntax_remedy(error: BaseException, file: str, folder: Path) -> str:
    text = str(error)
    if (
        isinstance(error, UnicodeError)
        or "null bytes" in text
        or "codec can't decode" in text
        or "unknown encoding" in text
    ):
        return "Save the file as UTF-8 text."
    if isinstance(error, IndentationError):
        return "Fix the indentation of that line, or of the line above it."
    if isinstance(error, SyntaxError):
        return "Fix that line, or the line above it."
    return ""


def _exit_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, SystemExit):
        return 'Code that ends the process, or runs a program, belongs below `if __name__ == "__main__":`.'
    return ""


def _input_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return "Remove input(): a server has no terminal."
    return ""


def _event_loop_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, RuntimeError) and "running event loop" in str(error):
        return "Await it in a node, or in an async factory: `async def make(): …`, without asyncio.run."
    return ""


def _file_remedy(error: BaseException, file: str, folder: Path) -> str:
    if isinstance(error, FileNotFoundError) and error.filename:
        return "Name files relative to the code, not to where the server was started: Path(__file__).parent / …."
    return ""


def assignment_line(module: Any, name: str) -> int:
    """Return the number of the last line that assigns the name in the module, or 0 if it is unknown."""
    try:
        tree = ast.parse(Path(module.__file__).read_bytes())
    except (OSError, TypeError, SyntaxError, ValueError, AttributeError):
        return 0
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name)
    ]
    return max(lines, default=0)


# ── Missing packages ──────────────────────────────────────────────────────────────────────────────────────────────────

PYPROJECT, REQUIREMENTS = "pyproject.toml", "requirements.txt"

_PACKAGES = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""Names of PyPI packages by module name, for packages named differently from their module."""

_IN_UVS_CACHE = re.compile(r"(archive|environments)-v\d+")
"""Pattern of the folder names under which uv's cache stores the environments of `uvx`."""


def package_name_of(module: str) -> str:
    """Return the name of the PyPI package to install for a module, by default the module's name."""
    return _PACKAGES.get(module, module)


def missing_framework_remedy(module: str, folder: Path) -> str:
    """Return the command that installs the framework of a missing module, "" for a module of no framework."""
    found = missing_framework(module)
    if found is None:
        return ""
    extra, framework = found
    if _is_uvx():
        command = f"uvx --from 'aion-lambda[{extra},local]' aion dev"
    elif _project_table(folder / PYPROJECT):
        command = f"uv add 'aion-lambda[{extra}]'"
    else:
        command = f"pip install 'aion-lambda[{extra},local]'"
    return f"This is {framework.title}: install aion-lambda[{extra},local], as in `{command}`."


def listed_package_remedy(module: str, folder: Path) -> str:
    """Return the remedy for a missing module if the project's requirements list its package, else ""."""
    file, line = next(((file, line) for file, line in _requirements(folder) if _provides(line, module)), ("", ""))
    if not file:
        return ""
    name = _package_name(line)
    if not _is_uvx():
        advice = f"{file} names {name}, but the environment that runs aion ({sys.prefix}) does not have it."
        if file == PYPROJECT:
            return f"{advice} Run `uv sync`, then `uv run aion dev`."
        return f"{advice} Run `pip install {f'-r {file}' if file == REQUIREMENTS else repr(line)}` there."
    advice = f"{file} names {name}, but aion runs in an environment of its own (uvx), which does not have it."
    extra = ",".join(_installed_extras())
    from_ = f"--from 'aion-lambda[{f'{extra},' if extra else ''}local]' aion dev"
    if file == PYPROJECT:
        has_aion = any(_package_name(each) == "aion-lambda" for _, each in _requirements(folder))
        own = f"'aion-lambda[{extra}]'" if extra else "aion-lambda"
        first = "" if has_aion else f" (after `uv add {own}` and `uv add --dev 'aion-lambda[local]'`)"
        return f"{advice} Start it in the project's: `uv run aion dev`{first}, or `uvx --with-editable . {from_}`."
    more = f"--with-requirements {file}" if file == REQUIREMENTS else f"--with '{line}'"
    return f"{advice} Start it with `uvx {more} {from_}`."


def _is_uvx() -> bool:
    """Return True if aion runs in an environment created by `uvx` or `uv tool install`."""
    prefix = Path(sys.prefix)
    return (prefix / "uv-receipt.toml").is_file() or any(_IN_UVS_CACHE.fullmatch(part) for part in prefix.parts)


def _installed_extras() -> Iterator[str]:
    for extra, framework in FRAMEWORKS.items():
        if framework.distribution:
            with suppress(PackageNotFoundError):
                distribution(framework.distribution)
                yield extra


def _requirements(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each requirement of the project, after the name of the file that lists it."""
    dependencies = _project_table(folder / PYPROJECT).get("dependencies")
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


def _project_table(pyproject: Path) -> dict[str, Any]:
    """Return the [project] table of a pyproject.toml, {} if the file or the table is missing or invalid."""
    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    return table if isinstance(table, dict) else {}


def _provides(line: str, module: str) -> bool:
    """Return True if a requirement line names the package of the module or of one of its parent packages."""
    parts = module.split(".")
    modules = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return _package_name(line) in {_normalized(package_name_of(each)) for each in modules}


def _package_name(line: str) -> str:
    found = re.match(r"[A-Za-z0-9][\w.-]*", line)
    return _normalized(found[0]) if found else ""


def _normalized(name: str) -> str:
    """Return the normalized package name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
