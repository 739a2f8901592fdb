"""Import of agents' modules, so that each file has only one module."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

from aion_core.errors import AgentLoadError

GENERATED_NAME = "aion_agent_"
"""Beginning of the module name of a file that cannot be imported by a name of its own."""

YAML_AGENT = "root_agent.yaml"
"""File name of ADK's declarative agent configuration."""


def import_roots(folder: Path, more: Sequence[Path] = ()) -> list[Path]:
    """Return the folders for absolute imports, in order: `more`, the folder's `src` if it exists, the folder itself."""
    src = folder / "src"
    return [*more, *([src] if src.is_dir() and not _is_package(src) else []), folder]


def agent_files(place: str, roots: Sequence[Path]) -> list[Path]:
    """Return the files in which to look for the agent at `place`; an empty list for an installed module.

    `place` is a file or a folder relative to the last root, or the dotted name of a module below one of the roots. For
    a folder, the files have ADK's order.
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
    """Import a file and return its module. Other code that imports the file, under any name, gets the same module.

    The module's name comes from the file's package, or from its path below a root. Otherwise, or if another module has
    this name, the name is generated. Raises the exceptions of the file's code, and AgentLoadError if an import of the
    file gets a module of another folder instead of the one beside the file.
    """
    beside = _modules_beside(file)
    # Check also before sys.path changes, because functions of earlier agents would then import this folder's modules.
    _check_modules_beside(beside, file, roots)
    put_on_path(roots)
    # Discard Python's cached folder listings, because the file may have been created after its folder was listed.
    importlib.invalidate_caches()
    name = _name_of(file, roots)
    try:
        module = _imported(name) if name is not None else _import_alone(file)
    finally:
        # Check also after an error, because the other folder's module may be its reason.
        _check_modules_beside(beside, file, roots)
    if later := {name for name in beside if name not in sys.modules}:
        later &= set[str]().union(*map(_names_in_functions, (file, *beside.values())))
        # A package's folder is last on sys.path: another folder may have precedence for this name.
        _IMPORTED_LATER.update({name: beside[name] for name in later if _is_found(name, beside[name])})
    return module


def import_name(name: str, roots: Sequence[Path]) -> ModuleType:
    """Import a module by its dotted name. Raises the exceptions of the module's code."""
    put_on_path(roots)
    return _imported(name)


def _files_of(folder: Path) -> list[Path]:
    names = ("__init__.py", "agent.py", YAML_AGENT)
    return [(folder / name).resolve() for name in names if (folder / name).is_file()]


def put_on_path(roots: Sequence[Path]) -> None:
    """Insert these folders at the beginning of sys.path, in order, unless sys.path contains them already."""
    for root in reversed(roots):
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))


def _name_of(file: Path, roots: Sequence[Path]) -> str | None:
    """Return a dotted module name that imports exactly this file; None if there is no such name."""
    root = _root_of(file, roots)
    if _is_package(file.parent):
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
    if _is_package(file.parent):
        return next(folder for folder in file.parents if not _is_package(folder))
    above = [root.resolve() for root in roots[:-1] if root.resolve() in file.parents]
    if above:
        return max(above, key=lambda root: len(root.parts))
    # If the file has relative imports, treat its folder as a package although `__init__.py` is missing, because
    # relative imports work only in a package.
    return file.parent.parent if _has_relative_imports(file) else None


def _imports_file(name: str, root: Path, file: Path) -> bool:
    """Return True if an import of this module name would load the file. The file's code does not run."""
    known = sys.modules.get(name)
    if known is not None:
        return _file_of(known) == file
    top = name.partition(".")[0]
    if top in sys.modules:
        # Compare the folders, because another project's package or the standard library may have this name.
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
    name = next((name for name, known in list(sys.modules.items()) if _is_of(known, file, name)), None)
    if name is None:
        # Derive the same name in each process, because checkpoints refer to a class by the name of its module. Replace
        # dots, because Python would import the part before a dot as a package.
        stem = file.stem.replace(".", "_")
        name = f"{GENERATED_NAME}{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
        _SAME_FILE_FINDER.modules[str(file)] = name
        if _SAME_FILE_FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _SAME_FILE_FINDER)
    return _imported(name)


def _is_of(known: ModuleType, file: Path, name: str) -> bool:
    return name != "__main__" and str(getattr(known, "__file__", "")).endswith(file.name) and _file_of(known) == file


def _imported(name: str) -> ModuleType:
    """Import a module. Wait for its import in another thread, unless that import waits for this thread.

    `importlib.import_module` raises an error instead if two threads import two modules that import each other.
    """
    return __import__(name, fromlist=["__name__"])  # with `fromlist`, it returns the module, not its first package


class _SameFileFinder(MetaPathFinder):
    """Import hook: if code imports an agent's file under a second name, it gets the existing module of that file.

    Otherwise the file's classes would exist twice, and `isinstance` would fail between the copies.
    """

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        """Names of the modules with generated names, by the path of their file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a generated name, or one that loads the file's module. None for names of other files."""
        modules = self.modules.copy()  # another thread may add a module
        if (file := next((file for file, name in modules.items() if name == fullname), None)) is not None:
            return importlib.util.spec_from_file_location(fullname, file)
        last = fullname.rpartition(".")[2]
        if not any(Path(file).stem == last for file in modules):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        origin = str(Path(spec.origin).resolve()) if spec is not None and spec.origin else ""
        known = modules.get(origin)
        return importlib.util.spec_from_loader(fullname, _SameModuleLoader(known)) if known is not None else None


class _SameModuleLoader(Loader):
    """Import loader that returns the module with a generated name. It waits for its import in another thread."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module. Import it if it does not exist, for example after a failed import."""
        module = _imported(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's original spec. Do not run the module's code a second time."""
        module.__spec__ = self._spec


_SAME_FILE_FINDER = _SameFileFinder()


_IMPORTED_LATER: dict[str, Path] = {}
"""Files of the modules that functions of the loaded agents import when they run, by the modules' names."""


def _modules_beside(file: Path) -> dict[str, Path]:
    """Return the modules beside the file that it imports, also through another such module: their files by name."""
    files, found = [file], dict[str, Path]()
    for each in files:
        for name in _imported_names(_parsed(each)):
            places = (file.parent / f"{name}.py", file.parent / name / "__init__.py")
            beside = next((place.resolve() for place in places if place.is_file()), None)
            if beside is not None and beside not in files:
                files.append(beside)
                found[name] = beside
    return found


def _check_modules_beside(modules: Mapping[str, Path], file: Path, roots: Sequence[Path]) -> None:
    """Raise AgentLoadError if the process has another folder's module instead of one of these, which the file imports.

    A process has one module of each name: of two agents with a `tools.py` each, the second would silently get the tools
    of the first. Equal copies of a file are permitted.
    """
    *_, folder = starts = [root.resolve() for root in roots]
    for name, beside in modules.items():
        other = _file_of(sys.modules[name]) if name in sys.modules else _IMPORTED_LATER.get(name)
        if other in (None, beside) or folder not in other.parents or "site-packages" in other.parts:
            continue
        # The folders in `roots` have precedence over a package's folder. A Lambda package has its installed modules there.
        is_expected = _root_of_module(other) in starts and (
            _is_package(file.parent) or name in packages_distributions()
        )
        if not is_expected and other.read_bytes() != beside.read_bytes():
            raise AgentLoadError(
                f"the module {name!r} of this process is {other.relative_to(folder)}, not the file beside the agent",
                where=str(beside),
                do=f"Rename one of the two files. Or put an __init__.py into both folders, and write: from .{name} import …",
            )


def _root_of_module(file: Path) -> Path:
    return file.parent.parent if file.name == "__init__.py" else file.parent


def _is_found(name: str, file: Path) -> bool:
    """Return True if an import of this top-level module name would find exactly this file."""
    spec = PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file


def _names_in_functions(file: Path) -> set[str]:
    """Return the first part of the name of each absolute import in the file's functions."""
    nodes = ast.walk(_parsed(file))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return set[str]().union(*map(_imported_names, functions))


def _imported_names(tree: ast.AST) -> set[str]:
    """Return the first part of the name of each absolute import in the code."""
    names: set[str] = set()
    for node in _imports(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def _has_relative_imports(file: Path) -> bool:
    """Return True if the file has relative imports, such as `from .tools import …`."""
    return any(isinstance(node, ast.ImportFrom) and node.level for node in _imports(_parsed(file)))


def _parsed(file: Path) -> ast.Module:
    """Return the file's syntax tree. It is empty if the file cannot be parsed: an import of the file raises the error."""
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
