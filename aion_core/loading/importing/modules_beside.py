"""Check that a process has the modules beside an agent's file, not modules of the same names of another folder."""

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

from aion_core.errors import AgentLoadError
from aion_core.loading.importing.one_module import file_of_module
from aion_core.loading.importing.places import is_package
from aion_core.loading.importing.syntax import imported_names, names_in_functions, parsed

_IMPORTED_LATER: dict[str, Path] = {}
"""Files of the modules that functions of the loaded agents import when they run, by the modules' names."""


def modules_beside(file: Path) -> dict[str, Path]:
    """Return the modules beside the file that it imports, also through another such module: their files by name."""
    files, found = [file], dict[str, Path]()
    for each in files:
        for name in imported_names(parsed(each)):
            places = (file.parent / f"{name}.py", file.parent / name / "__init__.py")
            beside = next((place.resolve() for place in places if place.is_file()), None)
            if beside is not None and beside not in files:
                files.append(beside)
                found[name] = beside
    return found


def check_modules_beside(modules: Mapping[str, Path], file: Path, roots: Sequence[Path]) -> None:
    """Raise AgentLoadError if the process has another folder's module instead of one of these, which the file imports.

    A process has one module of each name: of two agents with a `tools.py` each, the second would silently get the tools
    of the first. Equal copies of a file are permitted.
    """
    *_, folder = starts = [root.resolve() for root in roots]
    for name, beside in modules.items():
        other = file_of_module(sys.modules[name]) if name in sys.modules else _IMPORTED_LATER.get(name)
        if other in (None, beside) or folder not in other.parents or "site-packages" in other.parts:
            continue
        # The folders in `roots` have precedence over a package's folder. A Lambda package has its installed modules there.
        is_expected = _root_of_module(other) in starts and (is_package(file.parent) or name in packages_distributions())
        if not is_expected and other.read_bytes() != beside.read_bytes():
            raise AgentLoadError(
                f"the module {name!r} of this process is {other.relative_to(folder)}, not the file beside the agent",
                where=str(beside),
                do=f"Rename one of the two files. Or put an __init__.py into both folders, and write: from .{name} import …",
            )


def note_later_imports(modules: Mapping[str, Path], file: Path) -> None:
    """Note the modules beside the file that its functions import when they run, for the checks of later agents."""
    if later := {name for name in modules if name not in sys.modules}:
        later &= set[str]().union(*map(names_in_functions, (file, *modules.values())))
        # A package's folder is last on sys.path: another folder may have precedence for this name.
        _IMPORTED_LATER.update({name: modules[name] for name in later if _is_found(name, modules[name])})


def _root_of_module(file: Path) -> Path:
    return file.parent.parent if file.name == "__init__.py" else file.parent


def _is_found(name: str, file: Path) -> bool:
    """Return True if an import of this top-level module name would find exactly this file."""
    spec = PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file
