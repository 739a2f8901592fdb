"""Catalogue of the remedies of exceptions raised while an agent is loaded."""

import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from aion_core.loading.discovery.adk_folders import is_adk_folder
from aion_core.loading.load_errors.missing_packages import listed_package_remedy, missing_framework_remedy
from aion_core.loading.load_errors.missing_variables import variable_remedy
from aion_core.loading.load_errors.newer_python import newer_python_remedy
from aion_core.loading.load_errors.package_names import has_other_name, package_name_of, package_of_namespace
from aion_core.loading.load_errors.source_lines import display_path
from aion_core.loading.suggestions import did_you_mean

_TYPO = 0.85
"""Least similarity of a missing module's name to a module of the project. `anthropic` is no typo of `anthropic_chat`."""


def remedy_of(error: BaseException, file: str, folder: Path) -> str:
    """Return the remedy for an exception. `file` is the author's file that raised it; "" if unknown."""
    for each in CATALOGUE:
        if isinstance(error, each.error) and (found := re.search(each.text, str(error))):
            if isinstance(each.advice, str):
                return each.advice.format(*found.groups())
            if advice := each.advice(error, file, folder):
                return advice
    return "Fix that line." if file else "Fix the agent's code."


def _shadowing_file(error: BaseException, file: str, folder: Path) -> str:
    """Return the remedy for a file of the project named like a standard or installed module; "" if there is none."""
    named = error.name if isinstance(error, ImportError) else getattr(getattr(error, "obj", None), "__name__", "")
    top = str(named or "").partition(".")[0]
    places = [folder, *([Path(file).parent] if file else []), folder / "src"]
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


def _relative_import(error: BaseException, file: str, folder: Path) -> str:
    parent = Path(file).parent.name if file else ""
    if parent and not parent.isidentifier():
        return f"Rename the folder {parent!r}: a package's name has letters, digits and underscores only."
    if "no known parent" in str(error) and file and (Path(file).parent / "__init__.py").is_file():
        return (
            f"Rename the package {parent!r}: another package has this name, and a process can import only one of them."
        )
    return (
        "Put an __init__.py into each folder of the package, or import by the full name: from package.module import x."
    )


def _missing_name(error: BaseException, file: str, folder: Path) -> str:
    name, requested = getattr(error, "name", None) or "", str(error).split("'")[1]
    whole, module = f"{name}.{requested}", sys.modules.get(name)
    return (
        missing_framework_remedy(whole, folder)
        or package_of_namespace(whole)
        or did_you_mean(requested, vars(module) if module is not None else ())
        or f"Define {requested!r} in {name}, or fix the name."
    )


def _old_sdk(error: BaseException, file: str, folder: Path) -> str:
    if not (getattr(error, "name", None) or "").startswith("a2a."):
        return ""
    table = "docs/from-a2a-sdk.md#names-of-a2a-sdk-02-and-03"
    return f"Fix the name. If the code was written for a2a-sdk 0.2 or 0.3, change it as in {table}"


def _missing_file(error: BaseException, file: str, folder: Path) -> str:
    if not getattr(error, "filename", None):
        return ""
    return "Name files relative to the code, not to where the server was started: Path(__file__).parent / …."


def _missing_module(error: BaseException, file: str, folder: Path) -> str:
    name = getattr(error, "name", None)
    if not name:
        return ""
    if advice := missing_framework_remedy(name, folder) or listed_package_remedy(name, folder):
        return advice
    parent, _, last = name.rpartition(".")
    if parent:
        package = sys.modules.get(parent)
        if package is not None and not hasattr(package, "__path__"):
            hiding = getattr(package, "__file__", None) or "a module of Python's own"
            return f"{parent!r} is {display_path(hiding, folder)}, which hides the package of that name: rename one of them."
        if advice := package_of_namespace(name):
            return advice
        known = [_module_name(path) for place in getattr(package, "__path__", ()) for path in Path(place).iterdir()]
        return (
            did_you_mean(last, known)
            or f"There is no module {last!r} in {parent}: fix the name, or update the package."
        )
    package_name = package_name_of(name)
    if has_other_name(name):
        return f"Run `uv add {package_name}`, the package of the module {name}."
    places = dict.fromkeys([folder, folder / "src", *([Path(file).parent] if file else [])])
    if near := did_you_mean(name, [each for place in places for each in _modules(place, file)], similarity=_TYPO):
        return f"{near} If it is a third-party package, run `uv add {package_name}`."
    return f"Run `uv add {package_name}`. The package's name may differ from the module's: look it up on pypi.org."


def _modules(folder: Path, file: str) -> Iterator[str]:
    """Yield the names of the folder's modules, without folders of other ADK agents than that of the author's file."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix == ".py" or (
            (path / "__init__.py").is_file() and (Path(file).is_relative_to(path) or not is_adk_folder(path))
        ):
            yield _module_name(path)


def _module_name(path: Path) -> str:
    return path.name.removesuffix(".py")


class Remedy(NamedTuple):
    """Entry of the catalogue: an exception, a part of its text as a pattern, and the advice."""

    error: type[BaseException] | tuple[type[BaseException], ...]
    text: str
    advice: str | Callable[[BaseException, str, Path], str]
    """Advice with the pattern's groups, or a function of the exception, the author's file and the project's folder. It
    returns "" if the entry does not fit."""


_UTF8 = "Save the file as UTF-8 text."

CATALOGUE = (
    Remedy((ImportError, AttributeError), "", _shadowing_file),
    Remedy(BaseException, "", newer_python_remedy),
    Remedy(ImportError, "relative import", _relative_import),
    Remedy(
        ImportError,
        "partially initialized|circular import",
        "The two files import each other: import one of them inside the function that uses it.",
    ),
    Remedy(ImportError, "", _old_sdk),
    Remedy(ModuleNotFoundError, "", _missing_module),
    Remedy(ImportError, r"cannot import name '\w+' from", _missing_name),
    # LangChain says this of a model's provider.
    Remedy(ImportError, r"pip install ([A-Za-z0-9][\w.-]*)", "Run `uv add {0}`."),
    Remedy(BaseException, "", variable_remedy),
    Remedy(UnicodeError, "", _UTF8),
    Remedy(BaseException, "null bytes|codec can't decode|unknown encoding", _UTF8),
    Remedy(IndentationError, "", "Fix the indentation of that line, or of the line above it."),
    Remedy(SyntaxError, "", "Fix that line, or the line above it."),
    Remedy(
        SystemExit, "", 'Code that ends the process, or runs a program, belongs below `if __name__ == "__main__":`.'
    ),
    Remedy(EOFError, "reading a line", "Remove input(): a server has no terminal."),
    Remedy(
        RuntimeError,
        "running event loop",
        "Await it in a node, or in an async factory: `async def make(): …`, without asyncio.run.",
    ),
    Remedy(FileNotFoundError, "", _missing_file),
)
"""Remedies by precedence: the first that fits counts."""
