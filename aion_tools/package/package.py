"""A built Lambda package, and Lambda's limit of its size."""

import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from aion_tools.agent_code.project_agents import PackagedAgent
from aion_tools.package.functions import Target
from aion_tools.package.installed import InstalledFile

LAMBDA_LIMIT = 250 * 1024**2
IMAGE_LIMIT = 10 * 1024**3
_LISTED = 10
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
# Compression level of zip files. Level 6 makes a zip less than 1 % smaller, but takes a third longer.
_LEVEL = 5


@dataclass(frozen=True)
class Package:
    """A built Lambda package."""

    function: str
    target: Target
    agents: tuple[PackagedAgent, ...]
    code: Path
    """Folder with the content of /var/task, or its zip."""
    size: int
    """Unpacked size of the package in bytes."""
    warnings: tuple[str, ...] = ()
    """Sentences about limitations of the package."""

    def __str__(self) -> str:
        size = f"{self.function}: {self.size / 1024**2:.0f} MB for {', Python '.join(self.target)}"
        agents = ", ".join(f"{agent.id} ({agent.path})" for agent in self.agents)
        return f"{size}; agents: {agents}" if agents else f"{size}; no agents"


def files_in(folder: Path) -> dict[str, Path]:
    """Return all files in the folder by their relative path, in an order independent of the machine."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def add_to_zip(archive: Path, files: Mapping[str, Path]) -> None:
    """Add files to a new or existing zip, by their path in it. Equal files in the same order give equal bytes."""
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as written:
        for place, file in files.items():
            info = zipfile.ZipInfo(place, _ZIP_EPOCH)
            info.create_system = 3  # Unix, so that unzip reads the attributes as file modes
            info.external_attr = (0o100000 | (file.stat().st_mode & 0o777)) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            written.writestr(info, file.read_bytes(), compresslevel=_LEVEL)


def put(source: Path, target: Path, copy: Callable[[Path, Path], object] = shutil.copyfile) -> None:
    """Copy a file to a path in a package, with a mode that lets Lambda's user read it."""
    if not target.parent.is_dir():
        target.parent.mkdir(parents=True)
    copy(source, target)
    is_program = target.suffix == ".sh" or ".so" in target.name or source.stat().st_mode & 0o100
    target.chmod(0o755 if is_program else 0o644)


class Fitted(NamedTuple):
    """Files of dependencies for a package."""

    files: list[InstalledFile]
    dropped: list[str]
    """Names of the distributions whose .pyc files are left out, because the package would be too large."""


def weights_of(files: Iterable[InstalledFile]) -> Counter[str]:
    """Return the total size of the files of each distribution."""
    weights = Counter[str]()
    for file in files:
        weights[file.distribution] += file.size
    return weights


def fitting(files: Sequence[InstalledFile], limit: int) -> Fitted:
    """Leave out the .pyc files of the distributions with the most, until the rest has at most `limit` bytes."""
    dropped: list[str] = []
    weights = weights_of(file for file in files if file.place.endswith(".pyc"))
    total = sum(file.size for file in files)
    for name, weight in weights.most_common():
        if total <= limit:
            break
        dropped.append(name)
        total -= weight
    kept = [file for file in files if not (file.distribution in dropped and file.place.endswith(".pyc"))]
    return Fitted(kept, dropped)


def too_large(function: str, size: int, limit: int, weights: Mapping[str, int], *, is_image: bool) -> str:
    """Return the error for a package above its limit without .pyc files, with the sizes of its distributions."""
    largest = ", ".join(f"{name} {weight / 1024**2:.0f} MB" for name, weight in Counter(weights).most_common(_LISTED))
    form, other = ("an image", "") if is_image else ("a zip", ", or deploy images of up to 10 GB (`image: true`)")
    return (
        f"{function} has {size / 1024**2:.0f} MB without the .pyc files; Lambda's limit for {form} is {limit / 1024**2:.0f} MB.\n"
        f"The largest distributions: {largest}.\n"
        f"If agents need them all, leave out files of theirs in aion.yaml (`exclude:`){other}."
    )
