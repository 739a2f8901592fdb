"""Locked dependencies, installed and prepared in the cache, and which of them a function needs."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pathspec import GitIgnoreSpec

from aion_tools.package import elf, trim
from aion_tools.package.cache import entry, filled_once, scratch
from aion_tools.package.declared import parse
from aion_tools.package.functions import Target
from aion_tools.package.lock import Lock, install
from aion_tools.programs import BuildError, uv_version


class InstalledFile(NamedTuple):
    """A file of a distribution for a package."""

    distribution: str
    """Canonical name of the distribution."""
    place: str
    """Path in the package."""
    source: Path
    size: int


class Installed:
    """Dependencies of a project, installed for one target.

    Wheels are installed, stripped and compiled once, in the cache. Sources are built anew, because the code of a local
    folder may change while the lock stays the same.
    """

    def __init__(self, lock: Lock, target: Target) -> None:
        """Install the dependencies. Raises BuildError or UvMissing."""
        self._target = target
        # In the cache, so that packages can have hard links to the files.
        self._scratch = scratch()
        built = self._built(lock) if lock.sources else {}
        self.built = sorted(built)
        """Names of the distributions that were built from their sources."""
        self._folder, self._sources = self._wheels(lock), built

    @cached_property
    def _distributions(self) -> dict[str, Distribution]:
        return {**_distributions(self._folder), **self._sources}

    @cached_property
    def _requirements(self) -> dict[str, list[Requirement]]:
        return {name: list(map(Requirement, each.requires or ())) for name, each in self._distributions.items()}

    @cached_property
    def digest(self) -> str:
        """Hash of everything that is installed."""
        found = hashlib.sha256(self._folder.parent.name.encode())
        for file in (file for name in self.built for file in self._files(name) if trim.is_needed(file.place, ())):
            found.update(f"\n{file.place}\n".encode() + file.source.read_bytes())
        return found.hexdigest()

    @property
    def names(self) -> set[str]:
        """Canonical names of all distributions."""
        return set(self._distributions)

    def reachable(self, requirements: Iterable[str], without: Collection[str] = ()) -> set[str]:
        """Return the names of the distributions that these requirements need, directly or through others."""
        waiting = [parsed for line in requirements if (parsed := parse(line)) is not None]
        seen: set[tuple[str, str]] = set()
        for requirement in waiting:
            name = canonicalize_name(requirement.name)
            if name in without or name not in self._distributions:
                continue
            for extra in {"", *requirement.extras} - {extra for each, extra in seen if each == name}:
                seen.add((name, extra))
                waiting += [line for line in self._requirements[name] if self._target.includes(line, extra)]
        return {name for name, _ in seen}

    def missing(self, requirements: Iterable[str], without: Collection[str] = ()) -> list[str]:
        """Return the names of these requirements' own distributions that are not installed."""
        names = {canonicalize_name(parsed.name) for line in requirements if (parsed := parse(line))}
        return sorted(names - self._distributions.keys() - set(without))

    def files(self, names: Collection[str], words: Iterable[str] = ()) -> list[InstalledFile]:
        """Return the files of these distributions, without boto models of AWS services that no code names.

        `words` are the words quoted by the project's code.
        """
        found = [file for name in sorted(names) for file in self._files(name)]
        services = trim.SERVICES.union(words)
        if "botocore" in names:
            for name in set(names) - trim.BOTOS_OWN:
                services |= trim.boto_words(file.source for file in found if file.distribution == name)
        return [file for file in found if trim.is_needed(file.place, services)]

    def services(self, words: Iterable[str]) -> list[str]:
        """Return those of the words that name an AWS service with a boto model."""
        boto = (self._distributions[name].locate_file(f"{name}/data") for name in trim.BOTOS_OWN & self.names)
        models = {each.name for folder in boto for each in Path(str(folder)).glob("*")}
        return sorted(models.intersection(words))

    def refuse_unmatched(self, patterns: Sequence[str]) -> None:
        """Raise BuildError if one of the patterns matches no file of the dependencies."""
        places = [file.place for file in self.files(self.names)] if patterns else []
        for pattern in patterns:
            if not any(GitIgnoreSpec.from_lines([pattern]).match_files(places)):
                raise BuildError(f"`exclude` in aion.yaml has {pattern!r}, which matches no file of a dependency")

    def _files(self, name: str) -> Iterator[InstalledFile]:
        folder = Path(str(self._distributions[name].locate_file("")))
        for file in self._distributions[name].files or ():
            place = file.as_posix()
            for each in (place, trim.compiled(place, self._target.python)) if place.endswith(".py") else (place,):
                if ".." not in file.parts and (folder / each).is_file():
                    yield InstalledFile(name, each, folder / each, (folder / each).stat().st_size)

    def _wheels(self, lock: Lock) -> Path:
        """Return the cached folder with the installed wheels."""
        parts = [json.dumps(lock.wheels), *self._target, uv_version(), trim.compiler(self._target.python)]
        parts += [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (trim, elf)]
        place = entry(f"wheels-{'-'.join(self._target)}", *parts)
        with filled_once(place) as is_new:
            if is_new:
                install(lock, lock.wheels, place / "code", self._target, "--only-binary", ":all:")
                trim.delete_dead_weight(place / "code")
                trim.strip_libraries(place / "code")
                trim.compile_modules(place / "code", self._target.python)
        return place / "code"

    def _built(self, lock: Lock) -> dict[str, Distribution]:
        """Build the sources, and install them into a temporary folder. Raises BuildError for native code."""
        folder = Path(self._scratch.name, "code")
        # uv would take the earlier build of a folder whose pyproject.toml is unchanged.
        local = [word for each in lock.sources if "directory" in each for word in ("--refresh-package", each["name"])]
        remedy = (
            f"A build compiles only Python. Build the wheel of native code for {self._target.architecture} elsewhere "
            "(`uv build --wheel`), and require the file"
        )
        try:
            install(lock, lock.sources, folder, self._target, *local)
        except BuildError as error:
            raise BuildError(f"{error}\n{remedy}") from error
        built = _distributions(folder)
        for each in built.values():
            tags = (each.read_text("WHEEL") or "").splitlines()
            if not any(line.startswith("Tag:") and line.endswith("-none-any") for line in tags):
                raise BuildError(f"{each.name} {each.version} has native code and no wheel. {remedy}")
        trim.delete_dead_weight(folder)
        trim.compile_modules(folder, self._target.python)
        return built


def _distributions(folder: Path) -> dict[str, Distribution]:
    return {canonicalize_name(each.name): each for each in distributions(path=[str(folder)])}


def without_excluded(files: Sequence[InstalledFile], patterns: Sequence[str]) -> list[InstalledFile]:
    """Return the files that no pattern matches. Raises BuildError if a distribution with modules would keep none."""
    excluded = GitIgnoreSpec.from_lines(patterns)
    kept = [file for file in files if not excluded.match_file(file.place)]
    lost = _with_modules(files) - _with_modules(kept)
    if lost:
        raise BuildError(
            f"`exclude` in aion.yaml leaves no module of {', '.join(sorted(lost))}: narrow the pattern, or remove the dependency"
        )
    return kept


def _with_modules(files: Iterable[InstalledFile]) -> set[str]:
    return {file.distribution for file in files if file.place.endswith((".py", ".so"))}
