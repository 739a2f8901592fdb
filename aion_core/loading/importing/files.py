"""Import of an agent's file or module."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from aion_core.loading.importing.modules_beside import check_modules_beside, modules_beside, note_later_imports
from aion_core.loading.importing.one_module import file_of_module, import_alone, import_module
from aion_core.loading.importing.places import is_package, put_on_path
from aion_core.loading.importing.syntax import has_relative_imports


def import_file(file: Path, roots: Sequence[Path]) -> ModuleType:
    """Import a file and return its module. Other code that imports the file, under any name, gets the same module.

    The module's name comes from the file's package, or from its path below a root. Otherwise, or if another module has
    this name, the name is generated. Raises the exceptions of the file's code, and AgentLoadError if an import of the
    file gets a module of another folder instead of the one beside the file.
    """
    beside = modules_beside(file)
    # Check also before sys.path changes, because functions of earlier agents would then import this folder's modules.
    check_modules_beside(beside, file, roots)
    put_on_path(roots)
    # Discard Python's cached folder listings, because the file may have been created after its folder was listed.
    importlib.invalidate_caches()
    name = _name_of(file, roots)
    try:
        module = import_module(name) if name is not None else import_alone(file)
    finally:
        # Check also after an error, because the other folder's module may be its reason.
        check_modules_beside(beside, file, roots)
    note_later_imports(beside, file)
    return module


def import_name(name: str, roots: Sequence[Path]) -> ModuleType:
    """Import a module by its dotted name. Raises the exceptions of the module's code."""
    put_on_path(roots)
    return import_module(name)


def _name_of(file: Path, roots: Sequence[Path]) -> str | None:
    """Return a dotted module name that imports exactly this file; None if there is no such name."""
    root = _root_of(file, roots)
    if is_package(file.parent):
        # Append the folder to the end of sys.path, so that the package's `types.py` or `email.py` does not replace the
        # module of this name in the standard library.
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))
    elif str(file.parent) not in sys.path:
        # Insert the file's folder first, so that the file can import modules beside it, as if Python ran the file as a
        # script.
        sys.path.insert(0, str(file.parent))
    if root is None:
        return None
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    steps = file.relative_to(root).with_suffix("").parts
    steps = steps[:-1] if steps[-1] == "__init__" else steps
    if not all(step.isidentifier() for step in steps):
        return None
    name = ".".join(steps)
    return name if _imports_file(name, root, file) else None


def _root_of(file: Path, roots: Sequence[Path]) -> Path | None:
    """Return the folder that must be on sys.path to import the file by a dotted name; None if no folder is known."""
    if is_package(file.parent):
        return next(folder for folder in file.parents if not is_package(folder))
    above = [root.resolve() for root in roots[:-1] if root.resolve() in file.parents]
    if above:
        return max(above, key=lambda root: len(root.parts))
    # If the file has relative imports, treat its folder as a package although `__init__.py` is missing, because
    # relative imports work only in a package.
    return file.parent.parent if has_relative_imports(file) else None


def _imports_file(name: str, root: Path, file: Path) -> bool:
    """Return True if an import of this module name would load the file. The file's code does not run."""
    known = sys.modules.get(name)
    if known is not None:
        return file_of_module(known) == file
    top = name.partition(".")[0]
    if top in sys.modules:
        # Compare the folders, because another project's package or the standard library may have this name.
        return any(Path(place).resolve() == root / top for place in getattr(sys.modules[top], "__path__", []))
    spec = PathFinder.find_spec(top)
    return spec is not None and _is_below(spec, root)


def _is_below(spec: ModuleSpec, root: Path) -> bool:
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(root in Path(place).resolve().parents for place in places)
