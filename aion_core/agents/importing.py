"""Imports of agents' modules: import roots, module names, and one module for one file."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

YAML_AGENT = "root_agent.yaml"
"""ADK's file of an agent that is declared, not programmed."""


def import_roots(folder: Path, more: Sequence[Path] = ()) -> list[Path]:
    """Return the folders that absolute imports start from: `more`, the `src` of the folder where it exists, the folder."""
    src = folder / "src"
    return [*more, *([src] if src.is_dir() and not _is_package(src) else []), folder]


def agent_files(place: str, roots: Sequence[Path]) -> list[Path]:
    """Return the files that `place` may mean: a file, the files of an agent's folder in ADK's order, or a module's.

    `place` is relative to the last of the roots, or a dotted name that is looked for in each. Returns an empty list for
    the dotted name of an installed module.
    """
    folder = roots[-1]
    if place.endswith(".py"):
        return [(folder / place).resolve()]
    if "/" in place or (folder / place).is_dir():
        return _files_of(folder / place)
    for root in roots:
        module = root.joinpath(*place.split("."))
        for file in (module.parent / f"{module.name}.py", module / "__init__.py"):
            if file.is_file():
                return _files_of(module) if file.name == "__init__.py" else [file.resolve()]
    return []


def import_file(file: Path, roots: Sequence[Path]) -> ModuleType:
    """Return the file's module: the one that other code imports too, by whichever name it does.

    The file belongs to the package of its folder; without one, to the `src` or the root that it is below. It is a module
    of its own elsewhere, or where another module already has its name. Raises whatever the file raises.
    """
    put_on_path(roots)
    # The file may be younger than what Python remembers of its folder.
    importlib.invalidate_caches()
    name = _name_of(file, roots)
    if name is not None:
        return importlib.import_module(name)
    return _import_alone(file)


def import_name(name: str, roots: Sequence[Path]) -> ModuleType:
    """Return the module of this dotted name, such as an installed one; raises whatever it raises."""
    put_on_path(roots)
    return importlib.import_module(name)


def _files_of(folder: Path) -> list[Path]:
    names = ("__init__.py", "agent.py", YAML_AGENT)
    return [(folder / name).resolve() for name in names if (folder / name).is_file()]


def put_on_path(roots: Sequence[Path]) -> None:
    """Let imports start from these folders, from the first one first."""
    for root in reversed(roots):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))


def _name_of(file: Path, roots: Sequence[Path]) -> str | None:
    """Return the dotted name by which imports find this very file; None where they find none, or another."""
    root = _root_of(file, roots)
    if _is_package(file.parent):
        # Behind all others: a `types.py` or an `email.py` of a package must not take the place of Python's own.
        if str(file.parent) not in sys.path:
            sys.path.append(str(file.parent))
    elif str(file.parent) not in sys.path:
        # An agent's file imports its neighbours as it would when run from its own folder.
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
    return name if _finds(name, root, file) else None


def _root_of(file: Path, roots: Sequence[Path]) -> Path | None:
    """Return the folder that the file's dotted name starts from; None for a file that stands by itself."""
    if _is_package(file.parent):
        return next(folder for folder in file.parents if not _is_package(folder))
    above = [root.resolve() for root in roots[:-1] if root.resolve() in file.parents]
    if above:
        return max(above, key=lambda root: len(root.parts))
    # `from .tools import x` in a folder without `__init__.py`: the folder is the package.
    return file.parent.parent if _imports_by_dots(file) else None


def _finds(name: str, root: Path, file: Path) -> bool:
    """Tell whether importing this name gives the file, without running it: its packages only are looked for."""
    known = sys.modules.get(name)
    if known is not None:
        return _file_of(known) == file
    top = name.partition(".")[0]
    if top in sys.modules:
        # It may be another project's package, or Python's own.
        return any(Path(place).resolve() == root / top for place in getattr(sys.modules[top], "__path__", []))
    spec = PathFinder.find_spec(top)
    return spec is not None and _is_below(spec, root)


def _is_below(spec: ModuleSpec, root: Path) -> bool:
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(root in Path(place).resolve().parents for place in places)


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _import_alone(file: Path) -> ModuleType:
    for name, known in list(sys.modules.items()):
        if name != "__main__" and str(getattr(known, "__file__", "")).endswith(file.name) and _file_of(known) == file:
            return known
    # The same in each process: checkpoints name classes by their module.
    name = f"aion_agent_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101  # the name ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    # Known by its name before it runs: dataclasses and get_type_hints look their module up there.
    sys.modules[name] = module
    _SAME_FILE.modules[str(file)] = name
    if _SAME_FILE not in sys.meta_path:
        sys.meta_path.insert(0, _SAME_FILE)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _SameFile(MetaPathFinder):
    """Import hook: gives an agent's file that is imported by another name the module that it has already.

    Otherwise its classes would be there twice, and `isinstance` would tell them apart.
    """

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        """The names of the modules that were imported alone, by their files."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec of the module that is there, None for every other name."""
        last = fullname.rpartition(".")[2]
        if not any(Path(file).stem == last for file in self.modules):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        origin = str(Path(spec.origin).resolve()) if spec is not None and spec.origin else ""
        known = sys.modules.get(self.modules.get(origin, ""))
        return importlib.util.spec_from_loader(fullname, _Known(known)) if known is not None else None


class _Known(Loader):
    """Loader of a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module as it is."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing; the module keeps its own spec."""
        module.__spec__ = self._spec


_SAME_FILE = _SameFile()


def _imports_by_dots(file: Path) -> bool:
    """Tell whether the file imports its neighbours as `from .tools import …`."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        # Python says what is wrong with it when it is imported.
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))
