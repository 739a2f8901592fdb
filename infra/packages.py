"""Builds the package of a function, once: a second time it is taken from .cache, while nothing has changed that it is made of.

Nothing but wheels goes in, so every machine builds for each of Lambda's processors, without docker.
"""

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra import uv
from infra.package_files import compile_all, compiled, fix, keep_services, size_of, strip_libraries, tidy, write_zip
from infra.package_plan import PLATFORMS, ROOT, BuildError, Plan, plan, run

CACHE = ROOT / ".cache" / "packages"
LAMBDA_LIMIT = 250 * 1024 * 1024
SERVICES = frozenset({"dynamodb", "kms", "s3", "secretsmanager", "sqs", "ssm", "sts"})
"""What the project's own code asks of AWS, and what boto3 may ask to sign in."""
# A package that nobody has asked for since then is taken away.
_FORGOTTEN_AFTER = 7 * 86400


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
        with _alone(archive):
            if not archive.is_file():
                written = archive.with_suffix(".part")
                write_zip(self.code, written)
                written.rename(archive)
        return archive

    def __str__(self) -> str:
        return f"{self.plan.function}: {self.size / 1e6:.0f} MB for {self.plan.architecture}, Python {self.plan.python}"


def package(
    function: str, *, architecture: str | None = None, python: str | None = None, configs: Sequence[Path] | None = None
) -> Package:
    """Return the function's package, built if it is not there yet; processes that ask at once share one build.

    The arguments are those of `package_plan.plan`, and so are the errors.
    """
    planned = plan(function, architecture=architecture, python=python, configs=configs)
    folder = CACHE / f"{function}-{planned.architecture}-{planned.python}-{planned.digest()[:20]}"
    with _alone(folder):
        code, told = folder / "code", folder / "warning.txt"
        if not told.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            warning = build(planned, code)
            told.write_text(warning or "")
            _forget_old(function)
        os.utime(told)
        return Package(planned, code, size_of(code), told.read_text() or None)


def build(planned: Plan, target: Path) -> str | None:
    """Fill an empty folder with all that the function needs; return what could not be done on this machine.

    Raises BuildError or UvMissing.
    """
    target.mkdir(parents=True, exist_ok=True)
    _install(planned, target)
    own = {source.relative_to(ROOT).parts[0] for source in planned.sources}
    tidy(target, own)
    for source in planned.sources:
        _copy(source, target / source.relative_to(ROOT))
    strip_libraries(target)
    keep_services(target, SERVICES)
    reason = compile_all(target, planned.python)
    for agent in planned.agents if reason is None else ():
        if not compiled(target / agent.relative_to(ROOT), planned.python).is_file():
            raise BuildError(f"{agent.relative_to(ROOT)} is not valid Python {planned.python}")
    fix(target)
    size = size_of(target)
    if size > LAMBDA_LIMIT:
        raise BuildError(
            f"{planned.function} has {size / 1024**2:.0f} MB, and Lambda takes 250: give its group fewer dependencies"
        )
    return f"no .pyc files, so each cold start compiles what it imports: {reason}" if reason else None


def _install(planned: Plan, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(planned.requirements)
        run(
            [uv.find(), "pip", "install", "--quiet", "--target", str(target), "--requirements", str(requirements)]
            + ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
            + ["--python-platform", PLATFORMS[planned.architecture], "--python-version", planned.python]
            + ["--python", sys.executable]
        )


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _forget_old(function: str) -> None:
    for told in CACHE.glob(f"{function}-*/warning.txt"):
        if time.time() - told.stat().st_mtime > _FORGOTTEN_AFTER:
            shutil.rmtree(told.parent, ignore_errors=True)


@contextmanager
def _alone(made: Path) -> Iterator[None]:
    """Wait until no other process makes this."""
    made.parent.mkdir(parents=True, exist_ok=True)
    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
