"""Build of a function's Lambda package. A second build of the same plan returns the cached package.

Dependencies are installed from wheels only, so any machine can build for both of Lambda's processors, without docker.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aion_tools.package.cache import cache, delete_expired, file_lock, filled_once
from aion_tools.package.files import compile_all, fix_times_and_modes, no_compiler, put, size_of
from aion_tools.package.imports import missing
from aion_tools.package.parts import install, link_parts
from aion_tools.package.plan import PackagePlan, plan
from aion_tools.package.programs import BuildError, interpreter, standard_modules
from aion_tools.package.selection import top_module
from aion_tools.package.zip_writer import ZipWriter

LAMBDA_LIMIT = 250 * 1024 * 1024


@dataclass(frozen=True)
class Package:
    """A built Lambda package. Its folder holds the content of /var/task and must not be changed, since it is cached."""

    plan: PackagePlan
    code: Path
    size: int
    """Unpacked size of the package in bytes."""
    warning: str | None
    """Sentence about a limitation of the build on this machine, or None."""

    def zip(self, writer: ZipWriter) -> Path:
        """Return the path of the package's zip file. The first call creates the file with the writer."""
        archive = self.code.with_name("package.zip")
        with file_lock(archive):
            if not archive.is_file():
                written = archive.with_suffix(".part")
                writer.write(self.code, written)
                written.rename(archive)
        return archive

    def __str__(self) -> str:
        size = f"{self.plan.function}: {self.size / 1024**2:.0f} MB for {self.plan.architecture}, Python {self.plan.python}"
        agents = ", ".join(f"{agent.id} ({agent.path})" for agent in self.plan.agents)
        return f"{size}; agents: {agents}" if agents else f"{size}; no agents"


def package(
    function: str,
    *,
    folder: Path | None = None,
    architecture: str | None = None,
    python: str | None = None,
    configs: Sequence[Path] | None = None,
) -> Package:
    """Return the Lambda package of a function. Arguments as in `plan`. Raises the errors of `plan` and `packages`."""
    (built,) = packages([plan(function, folder=folder, architecture=architecture, python=python, configs=configs)])
    return built


def packages(plans: Sequence[PackagePlan]) -> list[Package]:
    """Return the planned packages, from the cache or newly built. Only one of several processes builds a package.

    Raises BuildError or UvMissing.
    """
    # Build one package after another, because the first package installs nearly all distributions of the others.
    for planned in plans:
        marker = _place(planned) / "built"
        if marker.is_file():
            marker.touch()  # before the deletion of expired packages
        else:
            install(planned)
    delete_expired()
    with ThreadPoolExecutor() as executor:
        return list(executor.map(_package, plans))


def _place(planned: PackagePlan) -> Path:
    return cache() / f"{planned.function}-{planned.architecture}-{planned.python}-{planned.digest}"


def _package(planned: PackagePlan) -> Package:
    place = _place(planned)
    with filled_once(place) as is_new:
        if is_new:
            link_parts(planned, place / "code")
            _add_files(planned, place / "code")
        size = size_of(place / "code")
        _check_size(planned, size, place / "code")
    reason = None if interpreter(planned.python) else no_compiler(planned.python)
    warning = f"the package has no .pyc files, which makes cold starts slower: {reason}" if reason else None
    return Package(planned, place / "code", size, warning)


def _add_files(planned: PackagePlan, target: Path) -> None:
    """Add the project's files to the folder with the dependencies and aion's own code. Raises BuildError."""
    for place, file in planned.project_files:
        if (target / place).is_dir():
            raise BuildError(f"rename the file {place}: a dependency has a folder with this name")
        if top_module(place) and (target / place).is_file() and (target / place).read_bytes() != file.read_bytes():
            top = place.partition("/")[0]
            raise BuildError(f"rename {top}, or add it to .aionignore: a dependency has a module with this name")
        put(file, target / place)
    places = [target, *(target / planned.place(root) for root in planned.roots)]
    standard = standard_modules(planned.python)
    for lost in missing([agent.file for agent in planned.agents], planned.roots, places, standard):
        raise BuildError(
            f"{planned.place(lost.file)}, line {lost.line}, imports {lost.name}, but the package does not contain it: correct "
            f"the name, or add the dependency with `aion add`"
        )
    compile_all(target, planned.python, [Path(place) for place, _ in planned.project_files])
    fix_times_and_modes(target)


def _check_size(planned: PackagePlan, size: int, code: Path) -> None:
    """Raise BuildError for a package above Lambda's limit. The error names the largest files and folders at its top."""
    if size > LAMBDA_LIMIT:
        sizes = [(size_of(entry) if entry.is_dir() else entry.stat().st_size, entry.name) for entry in code.iterdir()]
        names = ", ".join(f"{name} ({each / 1024**2:.0f} MB)" for each, name in sorted(sizes, reverse=True)[:3])
        raise BuildError(
            f"{planned.function} has {size / 1024**2:.0f} MB; Lambda's limit is 250 MB. Remove dependencies, or exclude "
            f"files with .aionignore. The largest parts are {names}"
        )
