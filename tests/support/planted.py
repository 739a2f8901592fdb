"""Pytest plugin that imports one file of the source with a planted bug: `-p tests.support.planted`.

The file itself stays as it is. The variable AION_PLANTED_BUG has its path, the text to replace and the new text, as JSON.
"""

import json
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[2]


class PlantedLoader(SourceFileLoader):
    """Loader of the file with the bug. It reads and writes no bytecode."""

    def __init__(self, name: str, path: str, old: str, new: str) -> None:
        super().__init__(name, path)
        self._old, self._new = old, new

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        assert source.count(self._old) == 1, f"{self.path} does not say once: {self._old}"
        code: CodeType = self.source_to_code(source.replace(self._old, self._new).encode(), self.path)
        return code


class PlantedFinder(MetaPathFinder):
    """Finder of the module with the bug."""

    def __init__(self, file: str, old: str, new: str) -> None:
        self._name, self._path = file.removesuffix(".py").replace("/", "."), str(ROOT / file)
        self._old, self._new = old, new
        assert self._name not in sys.modules, f"{self._name} is imported already"

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = PlantedLoader(fullname, self._path, self._old, self._new)
        return spec_from_file_location(fullname, self._path, loader=loader)


sys.meta_path.insert(0, PlantedFinder(**json.loads(os.environ["AION_PLANTED_BUG"])))
