"""Builds the package of a function; a second build of the same plan takes it from the cache.

Nothing but wheels goes in, so every machine builds for each of Lambda's processors, without docker.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aion_core.packaging import uv
from aion_core.packaging.cache import cache
from aion_core.packaging.file_lock import file_lock
from aion_core.packaging.files import (
    compile_all,
    fix,
    keep_services,
    no_compiler,
    size_of,
    strip_libraries,
    tidy,
    write_zip,
)
from aion_core.packaging.imports import missing
from aion_core.packaging.interpreters import interpreter
from aion_core.packaging.plan import Plan, plan
from aion_core.packaging.requirements import PLATFORMS
from aion_core.packaging.run import BuildError, run

LAMBDA_LIMIT = 250 * 1024 * 1024
SERVICES = frozenset({"dynamodb", "kms", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""What the project's own code asks of AWS, and what boto3 may ask to sign in."""
# A package that nobody has asked for since then is taken away.
_FORGOTTEN_AFTER = 86400


@dataclass(frozen=True)
class Package:
    """What was built: a folder as it lies in /var/task, to be read and not to be changed."""

    plan: Plan
    code: Path
    size: int
    """The bytes that Lambda unpacks."""
    warning: str | None
    """What could not be done on this machine."""

    def zip(self) -> Path:
        """Return the folder's zip, made at the first call."""
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
    """Return the function's package, built if it is not there yet; processes that ask at once share one build.

    The arguments are those of `package_plan.plan`, and so are the errors.
    """
    planned = plan(function, folder=folder, architecture=architecture, python=python, configs=configs)
    place = cache() / f"{function}-{planned.architecture}-{planned.python}-{planned.digest}"
    with _once(place) as is_new:
        if is_new:
            _check_agents(planned)
            made = dependencies(planned)
            # Links, not copies: neither is changed any more.
            shutil.copytree(made, place / "code", copy_function=os.link, dirs_exist_ok=True)
            _add_files(planned, place / "code")
    reason = None if interpreter(planned.python) else no_compiler(planned.python)
    warning = f"no .pyc files, so that each cold start compiles what it imports: {reason}" if reason else None
    return Package(planned, place / "code", size_of(place / "code"), warning)


def build(planned: Plan, target: Path) -> None:
    """Fill an empty folder with all that the function needs, from nothing; raises BuildError or UvMissing."""
    _check_agents(planned)
    install_dependencies(planned, target)
    _add_files(planned, target)


def dependencies(planned: Plan) -> Path:
    """Return the folder that holds what the plan requires: the same for every state of the project's own code."""
    folder = cache() / f"dependencies-{planned.architecture}-{planned.python}-{planned.dependencies_digest}"
    with _once(folder) as is_new:
        if is_new:
            install_dependencies(planned, folder / "code")
    return folder / "code"


def install_dependencies(planned: Plan, target: Path) -> None:
    """Fill an empty folder with the distributions that the plan requires; raises BuildError or UvMissing."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(planned.requirements)
        command = [uv.find(), "pip", "install", "--quiet", "--target", str(target), "--requirements", str(requirements)]
        command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
        command += ["--python-platform", PLATFORMS[planned.architecture], "--python-version", planned.python]
        try:
            run([*command, "--python", sys.executable])
        except BuildError as error:
            raise BuildError(
                f"what {planned.function} needs could not be installed for {planned.architecture}, Python {planned.python}; "
                f"nothing is compiled here, so each dependency has to have a wheel for it.\n{error}"
            ) from error
    tidy(target)
    strip_libraries(target)
    compile_all(target, planned.python, [target])
    fix(target)


def _check_agents(planned: Plan) -> None:
    """Refuse an agent that is no Python before anything is installed for it, where Lambda's Python is here to ask."""
    program = interpreter(planned.python)
    for agent in [agent for agent in planned.agents if program and agent.file.suffix == ".py"]:
        asks = "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"
        command = [str(program), "-I", "-c", asks, str(agent.file)]
        ran = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own words
        if ran.returncode:
            raise BuildError(f"{planned.place(agent.file)} is not valid Python {planned.python}:\n{_told(ran.stderr)}")


def _told(traceback: str) -> str:
    """Return what the compiler says of the agent's file, without our own lines above it."""
    return traceback[max(traceback.rfind("  File "), 0) :].rstrip()


def _add_files(planned: Plan, target: Path) -> None:
    """Add aion's own files and the project's to the dependencies; raises BuildError where something does not fit."""
    for place, file in planned.files:
        if (target / place).is_dir():
            raise BuildError(f"{place} is a file, and a dependency has a folder of this name: rename it")
        _put(file, target / place)
    places = [target, *(target / planned.place(root) for root in planned.roots)]
    for lost in missing([agent.file for agent in planned.agents], planned.roots, places):
        raise BuildError(
            f"{planned.place(lost.file)} imports {lost.name}, which is not in the package: "
            f"`aion add` brings a dependency into pyproject.toml or requirements.txt"
        )
    keep_services(target, SERVICES)
    tops = {place.split("/")[0] for place, _ in planned.files}
    compile_all(target, planned.python, [target / top for top in sorted(tops) if _is_python(target / top)])
    fix(target)
    size = size_of(target)
    if size > LAMBDA_LIMIT:
        largest = sorted(planned.files, key=lambda file: file[1].stat().st_size, reverse=True)[:3]
        told = ", ".join(f"{place} ({file.stat().st_size / 1e6:.0f} MB)" for place, file in largest)
        raise BuildError(
            f"{planned.function} has {size / 1024**2:.0f} MB, and Lambda takes 250: use fewer dependencies, or leave files "
            f"out by .aionignore; the largest of the project are {told}"
        )


def _is_python(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".py"


def _put(source: Path, target: Path) -> None:
    """Copy a file; the link that a dependency has there under the same name stays whole for packages that share it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    shutil.copy(source, target)


@contextmanager
def _once(folder: Path) -> Iterator[bool]:
    """Yield whether the folder is still to be filled; whoever asks meanwhile waits until it is."""
    is_there = folder / "built"
    with file_lock(folder):
        is_new = not is_there.is_file()
        if is_new:
            _forget_old()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        yield is_new
        is_there.touch()


def _forget_old() -> None:
    for is_there in cache().glob("*/built"):
        if time.time() - is_there.stat().st_mtime > _FORGOTTEN_AFTER:
            shutil.rmtree(is_there.parent, ignore_errors=True)
