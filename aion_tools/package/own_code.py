"""aion-lambda's own code in a package, from the installation that runs the build."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import aion_core
from aion_core.loading.frameworks import FRAMEWORKS
from aion_tools.package import trim
from aion_tools.package.cache import entry, filled_once
from aion_tools.package.package import files_in, put
from aion_tools.shipped import shipped

RESERVED = ("aion", "aion_core", "aion_tools", "handlers")
"""Names in the top folder of a Lambda package reserved for aion-lambda's own code."""


def compiled_code(python: str) -> Path:
    """Return the cached folder with the files of the installed aion-lambda, compiled. Another code has another folder."""
    files = list(own_files())
    contents = (f"{place}\n{hashlib.sha256(file.read_bytes()).hexdigest()}" for place, file in files)
    folder = entry(f"aion-{python}", trim.compiler(python), *contents)
    with filled_once(folder) as is_new:
        if is_new:
            for place, file in files:
                put(file, folder / "code" / place)
            trim.compile_modules(folder / "code", python)
    return folder / "code"


def own_files() -> Iterator[tuple[str, Path]]:
    """Yield pairs of a path in the package and a file of the installed aion-lambda, for files needed on Lambda."""
    code = Path(aion_core.__file__).resolve().parent
    yield from _sources(code, "aion_core")
    for name in (*(name for name, framework in FRAMEWORKS.items() if framework.library), "shared"):
        yield from _sources(code.parent / "aion" / name, f"aion/{name}")
    yield from _sources(shipped() / "handlers", "handlers")


def _sources(folder: Path, place: str) -> Iterator[tuple[str, Path]]:
    for name, file in files_in(folder).items():
        if "__pycache__" not in file.parts:
            yield f"{place}/{name}", file
