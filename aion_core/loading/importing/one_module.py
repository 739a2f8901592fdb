"""Import hook by which a file has only one module, also under a second name."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

GENERATED_NAME = "aion_agent_"
"""Beginning of the module name of a file that cannot be imported by a name of its own."""


def file_of_module(module: ModuleType) -> Path | None:
    """Return the resolved path of the module's file; None if it has none."""
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def import_alone(file: Path) -> ModuleType:
    """Import a file under a generated name, or return the module that it has already."""
    name = next((name for name, known in list(sys.modules.items()) if _is_of(known, file, name)), None)
    if name is None:
        # Derive the same name in each process, because checkpoints refer to a class by the name of its module. Replace
        # dots, because Python would import the part before a dot as a package.
        stem = file.stem.replace(".", "_")
        name = f"{GENERATED_NAME}{stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
        _SAME_FILE_FINDER.modules[str(file)] = name
        if _SAME_FILE_FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _SAME_FILE_FINDER)
    return import_module(name)


def _is_of(known: ModuleType, file: Path, name: str) -> bool:
    return (
        name != "__main__" and str(getattr(known, "__file__", "")).endswith(file.name) and file_of_module(known) == file
    )


def import_module(name: str) -> ModuleType:
    """Import a module. Wait for its import in another thread, unless that import waits for this thread.

    `importlib.import_module` raises an error instead if two threads import two modules that import each other.
    """
    # With `fromlist`, `__import__` returns the module, not its first package.
    try:
        return __import__(name, fromlist=["__name__"])
    except KeyError as error:
        packages = _packages_of(name)
        if not error.args or error.args[0] not in packages:
            raise
        # The import of a package has failed in another thread meanwhile: import it again, to raise the package's error.
        for package in packages:
            __import__(package)
        return __import__(name, fromlist=["__name__"])


def _packages_of(name: str) -> list[str]:
    """Return the names of the packages that contain the module, outermost first."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


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
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's original spec. Do not run the module's code a second time."""
        module.__spec__ = self._spec


_SAME_FILE_FINDER = _SameFileFinder()
