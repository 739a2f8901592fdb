"""Build of a function's Lambda package. A second build of the same plan comes from the cache.

Only wheels are installed as dependencies, so every machine can build for both of Lambda's processors, without docker.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_core.packaging.cache import cache, file_lock, filled_once
from aion_core.packaging.files import (
    compile_all,
    fix_times_and_modes,
    keep_services,
    no_compiler,
    size_of,
    strip_libraries,
    tidy,
    write_zip,
)
from aion_core.packaging.imports import missing
from aion_core.packaging.plan import PackagePlan, plan
from aion_core.packaging.programs import BuildError, find_uv, interpreter, run
from aion_core.packaging.requirements import PLATFORMS

LAMBDA_LIMIT = 250 * 1024 * 1024
SERVICES = frozenset({"dynamodb", "kms", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""Names of the AWS services used by aion and by boto3's sign-in. Their models stay in a package."""


@dataclass(frozen=True)
class Package:
    """A built Lambda package. Its folder holds the content of /var/task and must not be changed, since it is cached."""

    plan: PackagePlan
    code: Path
    size: int
    """Unpacked size of the package in bytes."""
    warning: str | None
    """Sentence about a limitation of the build on this machine, or None."""

    def zip(self) -> Path:
        """Return the path of the package's zip file. The first call creates it."""
        archive = self.code.with_name("package.zip")
        with file_lock(archive):
            if not archive.is_file():
                written = archive.with_suffix(".part")
                write_zip(self.code, written)
                written.rename(archive)
        return archive

    def __str__(self) -> str:
        size = f"{self.plan.function}: {self.size / 1e6:.0f} MB for {self.plan.architecture}, Python {self.plan.python}"
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
    """Return the Lambda package of a function, from the cache or newly built. Concurrent processes share one build.

    The arguments are those of `plan`. Raises the errors of `plan` and `build`.
    """
    planned = plan(function, folder=folder, architecture=architecture, python=python, configs=configs)
    place = cache() / f"{function}-{planned.architecture}-{planned.python}-{planned.digest}"
    with filled_once(place) as is_new:
        if is_new:
            made = dependencies(planned)
            # Use hard links instead of copies, because the dependencies' files do not change any more.
            shutil.copytree(made, place / "code", copy_function=os.link, dirs_exist_ok=True)
            _add_files(planned, place / "code")
    reason = None if interpreter(planned.python) else no_compiler(planned.python)
    warning = f"the package has no .pyc files, which makes cold starts slower: {reason}" if reason else None
    return Package(planned, place / "code", size_of(place / "code"), warning)


def build(planned: PackagePlan, target: Path) -> None:
    """Build the planned package into an empty folder, without the cache. Raises BuildError or UvMissing."""
    install_dependencies(planned, target)
    _add_files(planned, target)


def dependencies(planned: PackagePlan) -> Path:
    """Return the cached folder with the plan's installed dependencies. Install them if they are not cached.

    The cache key does not depend on the project's own code.
    """
    folder = cache() / f"dependencies-{planned.architecture}-{planned.python}-{planned.dependencies_digest}"
    with filled_once(folder) as is_new:
        if is_new:
            install_dependencies(planned, folder / "code")
    return folder / "code"


def install_dependencies(planned: PackagePlan, target: Path) -> None:
    """Install the plan's dependencies into an empty folder. Raises BuildError or UvMissing."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(planned.requirements)
        command = [find_uv(), "pip", "install", "--quiet", "--target", str(target), "--requirements", str(requirements)]
        command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
        command += ["--python-platform", PLATFORMS[planned.architecture], "--python-version", planned.python]
        try:
            run([*command, "--python", sys.executable])
        except BuildError as error:
            raise BuildError(
                f"cannot install the dependencies of {planned.function} for {planned.architecture}, "
                f"Python {planned.python}. Each dependency needs a wheel for it, since the build compiles "
                f"nothing.\n{error}"
            ) from error
    tidy(target)
    strip_libraries(target)
    compile_all(target, planned.python, [target])
    fix_times_and_modes(target)


def _add_files(planned: PackagePlan, target: Path) -> None:
    """Add the files of aion and of the project to the folder with the dependencies. Raises BuildError."""
    for place, file in planned.files:
        if (target / place).is_dir():
            raise BuildError(f"rename the file {place}: a dependency has a folder with this name")
        _put(file, target / place)
    places = [target, *(target / planned.place(root) for root in planned.roots)]
    for lost in missing([agent.file for agent in planned.agents], planned.roots, places):
        raise BuildError(
            f"{planned.place(lost.file)}, line {lost.line}, imports {lost.name}, but the package does not contain it: correct "
            f"the name, or add the dependency with `aion add`"
        )
    keep_services(target, SERVICES)
    tops = {place.split("/")[0] for place, _ in planned.files}
    compile_all(target, planned.python, [target / top for top in sorted(tops) if _is_python(target / top)])
    fix_times_and_modes(target)
    size = size_of(target)
    if size > LAMBDA_LIMIT:
        largest = sorted(planned.files, key=lambda file: file[1].stat().st_size, reverse=True)[:3]
        names = ", ".join(f"{place} ({file.stat().st_size / 1e6:.0f} MB)" for place, file in largest)
        raise BuildError(
            f"{planned.function} has {size / 1024**2:.0f} MB; Lambda's limit is 250 MB. Remove dependencies, or exclude "
            f"files with .aionignore. The project's largest files are {names}"
        )


def _is_python(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".py"


def _put(source: Path, target: Path) -> None:
    """Copy a file to the target path. Replace an existing file, since other packages may share it by a hard link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy(source, target)
