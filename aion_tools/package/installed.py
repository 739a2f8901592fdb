"""Locked dependencies, installed and prepared in the cache, and which of them a function needs."""

import hashlib
import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aion_tools.package import elf, trim
from aion_tools.package.cache import cache, filled_once
from aion_tools.package.declared import parse
from aion_tools.package.lock import Lock, install, pylock
from aion_tools.package.programs import BuildError, compiler_version, interpreter, uv_version

_MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}


class InstalledFile(NamedTuple):
    """A file of a distribution for a package."""

    distribution: str
    """Canonical name of the distribution."""
    place: str
    """Path in the package."""
    source: Path
    size: int


class Installed:
    """Dependencies of a project, installed for one processor and Python version.

    Wheels are installed, stripped and compiled once, in the cache. Sources are built anew, because the code of a local
    folder may change while the lock stays the same.
    """

    def __init__(self, lock: Lock, architecture: str, python: str) -> None:
        """Install the dependencies. Raises BuildError or UvMissing."""
        self._architecture, self._python = architecture, python
        self._scratch = tempfile.TemporaryDirectory(prefix="aion-sources-")
        folders = [self._wheels(lock), *([self._built(lock)] if lock.sources else [])]
        found = [each for folder in folders for each in distributions(path=[str(folder)])]
        self._distributions: dict[str, Distribution] = {canonicalize_name(each.name): each for each in found}
        words = json.loads(folders[0].with_name("words.json").read_text(encoding="utf-8"))
        self._words: Mapping[str, list[str]] = words | {
            name: sorted(trim.boto_words(name, self._modules(self._distributions[name]))) for name in self.built
        }

    @cached_property
    def built(self) -> list[str]:
        """Names of the distributions that were built from their sources."""
        inside = Path(self._scratch.name).resolve()
        return [
            name
            for name, each in self._distributions.items()
            if inside in Path(str(each.locate_file(""))).resolve().parents
        ]

    def reachable(self, requirements: Iterable[str], without: Collection[str] = ()) -> set[str]:
        """Return the names of the distributions that these requirements need, directly or through others."""
        waiting = [parsed for line in requirements if (parsed := parse(line)) is not None]
        seen: set[tuple[str, str]] = set()
        for requirement in waiting:
            name = canonicalize_name(requirement.name)
            if name in without or name not in self._distributions:
                continue
            for extra in ("", *requirement.extras):
                if (name, extra) not in seen:
                    seen.add((name, extra))
                    waiting += self._required(name, extra)
        return {name for name, _ in seen}

    def missing(self, requirements: Iterable[str], without: Collection[str] = ()) -> list[str]:
        """Return the names of these requirements' own distributions that are not installed."""
        names = {canonicalize_name(parsed.name) for line in requirements if (parsed := parse(line))}
        return sorted(names - self._distributions.keys() - set(without))

    @property
    def names(self) -> set[str]:
        """Canonical names of all distributions."""
        return set(self._distributions)

    def files(self, names: Collection[str], words: Collection[str] = ()) -> Iterator[InstalledFile]:
        """Yield the files of these distributions, without boto models of AWS services that no code names.

        `words` are the words quoted by the project's code.
        """
        services = trim.SERVICES.union(words, *(self._words.get(name, ()) for name in names))
        for name in sorted(names):
            folder = Path(str(self._distributions[name].locate_file("")))
            for file in self._distributions[name].files or ():
                place = file.as_posix()
                for each in (place, trim.compiled(place, self._python)) if place.endswith(".py") else (place,):
                    if ".." not in file.parts and trim.is_needed(each, services) and (folder / each).is_file():
                        yield InstalledFile(name, each, folder / each, (folder / each).stat().st_size)

    def _required(self, name: str, extra: str) -> Iterator[Requirement]:
        environment: dict[str, str | AbstractSet[str]] = {
            key: str(value) for key, value in default_environment().items()
        }
        environment |= {
            "sys_platform": "linux",
            "platform_system": "Linux",
            "platform_machine": _MACHINES[self._architecture],
        }
        environment |= {"python_version": self._python, "python_full_version": f"{self._python}.0", "extra": extra}
        for line in self._distributions[name].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(environment):
                yield requirement

    def _wheels(self, lock: Lock) -> Path:
        """Return the cached folder with the installed wheels."""
        text, compiler = pylock(lock.wheels), interpreter(self._python)
        parts = [text, self._architecture, self._python, uv_version(), compiler_version(compiler) if compiler else ""]
        parts += [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (trim, elf)]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
        place = cache() / f"wheels-{self._architecture}-{self._python}-{digest}"
        with filled_once(place) as is_new:
            if is_new:
                try:
                    install(
                        lock.wheels,
                        place / "code",
                        self._architecture,
                        self._python,
                        "--only-binary",
                        ":all:",
                        indexes=lock.indexes,
                    )
                except BuildError as error:
                    raise BuildError(
                        f"cannot install the dependencies for {self._architecture}, Python {self._python}.\n{error}"
                    ) from error
                self._prepare(place / "code")
        return place / "code"

    def _prepare(self, folder: Path) -> None:
        trim.delete_dead_weight(folder)
        trim.strip_libraries(folder)
        trim.compile_modules(folder, self._python)
        found = {canonicalize_name(each.name): each for each in distributions(path=[str(folder)])}
        words = {name: sorted(trim.boto_words(name, self._modules(each))) for name, each in found.items()}
        folder.with_name("words.json").write_text(json.dumps(words), encoding="utf-8")

    def _modules(self, distribution: Distribution) -> Iterator[Path]:
        for file in distribution.files or ():
            module = Path(str(distribution.locate_file(file)))
            if module.is_file():
                yield module

    def _built(self, lock: Lock) -> Path:
        """Build the sources, install them into a temporary folder, and return it. Raises BuildError for native code."""
        folder = Path(self._scratch.name, "code")
        # uv would take the earlier build of a folder whose pyproject.toml is unchanged.
        local = [word for each in lock.sources if "directory" in each for word in ("--refresh-package", each["name"])]
        try:
            install(lock.sources, folder, self._architecture, self._python, *local, indexes=lock.indexes)
        except BuildError as error:
            names = ", ".join(each["name"] for each in lock.sources)
            raise BuildError(f"cannot build {names}, which have no wheel.\n{error}") from error
        for each in distributions(path=[str(folder)]):
            tags = (each.read_text("WHEEL") or "").splitlines()
            if not any(line.startswith("Tag:") and line.endswith("-none-any") for line in tags):
                raise BuildError(
                    f"{each.name} {each.version} has native code and no wheel for {self._architecture}: the build compiles only "
                    f"Python. Build its wheel on that processor (`uv build --wheel`), and require the file"
                )
        trim.delete_dead_weight(folder)
        trim.compile_modules(folder, self._python)
        return folder
