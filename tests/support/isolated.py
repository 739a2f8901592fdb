"""Imports that leave nothing behind: the modules and the path of this process, as they were before a test."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def isolated_imports(folder: Path) -> Iterator[None]:
    """Restore sys.path at the end, and forget the modules that were imported from below the folder."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if any(Path(place).is_relative_to(folder) for place in _places(module)):
                del sys.modules[name]


def _places(module: ModuleType) -> list[str]:
    file = getattr(module, "__file__", None)
    # A folder without `__init__.py` is a package without a file.
    return [file] if isinstance(file, str) else [str(place) for place in getattr(module, "__path__", ())]
