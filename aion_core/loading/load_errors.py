"""Errors raised while an agent is loaded, with their cause, the line in the author's files and the remedy."""

import ast
import difflib
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from aion_core.errors import AgentLoadError

LONGEST = 300
"""Maximum number of characters of an exception's text within an error message."""

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
"""Pattern of an environment variable's name."""
_CONFIDENTIAL = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")
"""Last words in the names of environment variables with confidential values."""
_REQUESTED = (*_CONFIDENTIAL, "ENDPOINT", "URL", "PROJECT")
"""Last words in the names of environment variables that libraries commonly require."""
_A2A_MIGRATION = "https://github.com/a2aproject/a2a-python/blob/main/docs/migrations/v1_0/README.md"
"""Guide of the a2a-sdk for code written for its version 0.3."""
_LIBRARIES = ("site-packages", "dist-packages")
_OURS = str(Path(__file__).parents[1])
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)})


def explain_error(
    error: BaseException, subject: str, folder: Path, verb: str = "cannot be imported:", *, file: Path | None = None
) -> AgentLoadError:
    """Return an AgentLoadError with an exception's text, its file and line, and the remedy.

    `subject` begins the message, for example the path of the agent. File names are relative to the project's `folder`.
    If no line of the author's code is known, the error names `file`. The caller sets the error's `__cause__`.
    """
    own, line, source = _author_frame(error, folder)
    return AgentLoadError(
        f"{subject} {verb} {type(error).__name__}: {exception_text(error)}",
        where=_location(own, [line], folder) if own else display_path(file, folder) if file is not None else "",
        source=source,
        do=_remedy(error, own, folder),
    )


def source_location(file: Path | str | None, lines: Iterable[int], folder: Path) -> dict[str, str]:
    """Return the arguments `where` and `source` of AgentLoadError for these lines of the file; {} if `file` is None."""
    numbers = sorted({line for line in lines if line > 0})
    if file is None:
        return {}
    source = linecache.getline(str(file), numbers[0]).strip() if numbers else ""
    return {"where": _location(str(file), numbers, folder), "source": source}


def display_path(file: Path | str, folder: Path) -> str:
    """Return the file's path. It is relative to the folder if the folder contains the file."""
    path = Path(file)
    for base in (folder, folder.resolve()):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the question "Did you mean …?" with the most similar name; "" if no name is similar."""
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
    """Return file, line and source of the author's innermost code in an exception's traceback.

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
    """Return the names of the packages installed next to the agent's code, as in a Lambda package."""
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
    places = [folder, *([Path(file).parent] if file else []), folder / "src"]
    return shadowing_remedy(error, places, folder)


def shadowing_remedy(error: BaseException, places: Iterable[Path], folder: Path) -> str:
    """Return the remedy for a file in `places` named like a standard or installed module; "" for other errors."""
    if not isinstance(error, ImportError | AttributeError):
        return ""
    named = error.name if isinstance(error, ImportError) else getattr(error.obj, "__name__", "")
    top = str(named or "").partition(".")[0]
    files = (place / name for place in places for name in (f"{top}.py", f"{top}/__init__.py"))
    own = next((file for file in files if file.is_file()), None)
    if not top or own is None or not (top in sys.stdlib_module_names or hides_installed_module(top, own)):
        return ""
    owner = "Python" if top in sys.stdlib_module_names else "an installed package"
    name = display_path(own if own.stem == top else own.parent, folder)
    return f"Rename {name}: {owner} has a module {top!r} of its own, and only one of them can be imported."


def hides_installed_module(name: str, file: Path) -> bool:
    """Return True if a top-level module of this name is installed, and is not a copy of this file of the project."""
    spec = PathFinder.find_spec(name, [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    return spec is not None and (not spec.has_location or Path(str(spec.origin)).read_bytes() != file.read_bytes())


def _import_remedy(error: BaseException, file: str, folder: Path) -> str:
    if not isinstance(error, ImportError):
        return ""
    text = str(error)
    if "relative import" in text:
        parent = Path(file).parent.name if file else ""
        if parent and not parent.isidentifier():
            return f"Rename the folder {parent!r}: a package's name has letters, digits and underscores only."
        if "no known parent" in text and file and (Path(file).parent / "__init__.py").is_file():
            return f"Rename the package {parent!r}: another package has this name, and a process can import only one of them."
        return "Put an __init__.py into each folder of the package, or import by the full name: from package.module import x."
    if "partially initialized" in text or "circular import" in text:
        return "The two files import each other: import one of them inside the function that uses it."
    name = error.name or ""
    if name.startswith("a2a."):
        return f"Fix the name. If the code was written for a2a-sdk 0.3, change it as in {_A2A_MIGRATION}"
    if isinstance(error, ModuleNotFoundError) and name:
        return _module_remedy(name, file, folder)
    if requested := re.match(r"cannot import name '(\w+)' from", text):
        from aion_core.loading.missing_packages import missing_framework_remedy

        if advice := missing_framework_remedy(f"{name}.{requested[1]}", folder):
            return advice
        module = sys.modules.get(name)
        return (
            did_you_mean(requested[1], vars(module) if module is not None else ())
            or f"Define {requested[1]!r} in {name}, or fix the name."
        )
    return ""


def _module_remedy(name: str, file: str, folder: Path) -> str:
    # Import late: most agents load without an error and do not need these readers of the project's files.
    from aion_core.loading.missing_packages import listed_package_remedy, missing_framework_remedy, package_name_of

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
        # Return the key only if `os.environ` raised the error, because a key of another mapping is no environment
        # variable.
        return error.args[0] if frames and frames[-1].f_globals.get("__name__") == "os" else ""
    if setting := _missing_setting(error):
        return setting
    text = str(error)
    named = [name for name in _VARIABLE.findall(text) if name not in os.environ]
    requested = [name for name in named if name.endswith(_REQUESTED)]
    if requested:
        return str(requested[0])
    return str(named[0]) if named and "environment" in text.lower() else ""


def _missing_setting(error: BaseException) -> str:
    """Return the variable of the first missing field in a pydantic-settings class; "" for other errors."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        settings: Any = type(frame.f_locals.get("__pydantic_self__"))
        if settings.__module__ != "builtins" and type(error).__name__ == "ValidationError":
            missing = [str(each["loc"][0]) for each in getattr(error, "errors", list)() if each["type"] == "missing"]
            prefix = settings.model_config.get("env_prefix", "")
            # Add the prefix to field names only, because pydantic reports a field with an alias under its alias, and an
            # alias has no prefix.
            names = [f"{prefix}{name}" if name in settings.model_fields else name for name in missing]
            return names[0].upper() if names else ""
    return ""


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
    """Return the number of the last line that assigns the name in the module; 0 if unknown."""
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
