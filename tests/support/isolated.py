"""Isolated imports: after a test, the process has the modules and the `sys.path` that it had before."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.support.server import ROOT


@contextmanager
def isolated_imports(folder: Path) -> Iterator[None]:
    """Import from the folder like a new process, without the sys.path entries of other tests."""
    path, tests = list(sys.path), folder.parent
    sys.path[:] = [
        place
        for place in path
        if place in ("", str(ROOT))
        or Path(place).is_relative_to(sys.base_prefix)
        or Path(place).is_relative_to(sys.prefix)
    ]
    _forget(tests)
    try:
        yield
    finally:
        sys.path[:] = path
        _forget(tests)


@cache
def _outside(folder: Path) -> dict[str, ModuleType]:
    """Return the modules outside of the folder, by name; the result is cached, as a test session imports thousands."""
    return {}


def _forget(folder: Path) -> None:
    within, outside = f"{folder}{os.sep}", _outside(folder)
    for name, module in list(sys.modules.items()):
        if outside.get(name) is module:
            continue
        if any(place.startswith(within) for place in _places(module)):
            del sys.modules[name]
        else:
            outside[name] = module


def _places(module: ModuleType) -> list[str]:
    file = getattr(module, "__file__", None)
    # A package without `__init__.py` has no file, only folders.
    return [file] if isinstance(file, str) else [str(place) for place in getattr(module, "__path__", ())]
