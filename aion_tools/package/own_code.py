"""aion-lambda's own code in a package, from the installation that runs the build."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import aion_core
from aion_core.loading.frameworks import FRAMEWORKS
from aion_tools.package import trim
from aion_tools.package.cache import cache, filled_once
from aion_tools.package.package import put
from aion_tools.shipped import shipped

RESERVED = ("aion", "aion_core", "aion_tools", "handlers")
"""Names in the top folder of a Lambda package reserved for aion-lambda's own code."""


def compiled_files(python: str) -> Iterator[tuple[str, Path]]:
    """Yield pairs of a path in the package and a file of the installed aion-lambda, also of the .pyc files."""
    files = list(own_files())
    digest = hashlib.sha256(python.encode())
    for place, file in files:
        digest.update(f"\n{place}\n".encode() + file.read_bytes())
    folder = cache() / f"aion-{python}-{digest.hexdigest()[:20]}"
    with filled_once(folder) as is_new:
        if is_new:
            for place, file in files:
                put(file, folder / "code" / place)
            trim.compile_modules(folder / "code", python)
    yield from ((file.relative_to(folder / "code").as_posix(), file) for file in _files(folder / "code"))


def own_files() -> Iterator[tuple[str, Path]]:
    """Yield pairs of a path in the package and a file of the installed aion-lambda, for files needed on Lambda."""
    code = Path(aion_core.__file__).resolve().parent
    yield from _sources(code, "aion_core")
    for name in (*(name for name, framework in FRAMEWORKS.items() if framework.library), "shared"):
        yield from _sources(code.parent / "aion" / name, f"aion/{name}")
    yield from _sources(shipped() / "handlers", "handlers")


def _sources(folder: Path, place: str) -> Iterator[tuple[str, Path]]:
    for file in _files(folder):
        if "__pycache__" not in file.parts:
            yield f"{place}/{file.relative_to(folder).as_posix()}", file


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
