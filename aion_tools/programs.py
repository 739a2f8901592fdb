"""This machine's programs and processor for a package build: uv and Python interpreters."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

_SHOWN_LINES = 10
OTHER_ARCHITECTURE = "AION_SAM_LOCAL_ARCHITECTURE"
"""Variable by which `aion sam-local` names the processor of its containers to the `aion build` that SAM calls.

No user sets it: packages of another processor than the template's would fail on AWS.
"""


class BuildError(Exception):
    """Error of a Lambda package that cannot be built. The message names the fix, without the credentials in URLs."""

    def __init__(self, message: str) -> None:
        super().__init__(without_credentials(message))


def machine_architecture() -> str:
    """Return this machine's processor architecture by Lambda's name."""
    return "arm64" if platform.machine().lower() in ("arm64", "aarch64") else "x86_64"


def without_credentials(text: str) -> str:
    """Return the text with asterisks in place of the credentials in URLs."""
    return re.sub(r'://[^/\s"]*@', "://****@", text)


def run(command: Sequence[str], *, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> str:
    """Run a program and return its standard output. If it fails, raise BuildError with the end of its error output.

    `more` adds environment variables. Pass a secret there: all users of this machine can read a program's arguments.
    """
    environ = {**os.environ, "UV_NO_WRAP": "1", **(more or {})}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True)  # noqa: S603 - no shell
    if done.returncode:
        # uv explains a conflict of versions in up to 2,000 lines, and the last of them are the conclusion.
        lines = done.stderr.strip().splitlines()
        shown = lines if len(lines) <= _SHOWN_LINES else ["…", *lines[-_SHOWN_LINES:]]
        raise BuildError("\n".join([f"{Path(command[0]).name} {' '.join(command[1:3])} failed:", *shown]))
    return done.stdout


class UvMissing(Exception):
    """Error if uv is not installed on this machine, or if the variable UV names no program."""

    def __init__(self, given: str | None = None) -> None:
        installed = "uv is not installed: https://docs.astral.sh/uv/getting-started/installation/"
        super().__init__(
            f"UV is {given}, which is not a program: correct or unset this variable" if given else installed
        )


def find_uv() -> str:
    """Return the path of uv: the uv that started this process, or beside this Python, or on PATH. Raises UvMissing."""
    beside = Path(sys.executable).with_name("uv")
    given = os.environ.get("UV")
    found = shutil.which(given) if given else str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise UvMissing(given)
    return found


@cache
def uv_version() -> str:
    """Return the output of `uv --version`. Raises BuildError or UvMissing."""
    return run([find_uv(), "--version"]).strip()


@cache
def interpreter(version: str) -> str | None:
    """Return the path of a CPython interpreter of this version, such as "3.13", or None if this machine has none."""
    return next((found for python in _candidates(version) if (found := _executable(python, version))), None)


@cache
def compiler_version(program: str) -> str:
    """Return `sys.version` of a Python interpreter, with version and build. Raises BuildError."""
    return run([program, "-I", "-c", "import sys; print(sys.version)"])


@cache
def standard_modules(version: str) -> frozenset[str]:
    """Return the names of the standard modules of a Python version, or of this Python if this machine lacks the version."""
    program = interpreter(version) or sys.executable
    return frozenset(run([program, "-I", "-c", "import sys; print(*sys.stdlib_module_names)"]).split())


def _candidates(version: str) -> Iterator[str]:
    """Yield paths of Python interpreters: of this process, on PATH, and installed by pyenv and uv."""
    yield sys.executable
    if on_the_path := shutil.which(f"python{version}"):
        yield on_the_path
    # Look in pyenv's own folders too, because pyenv's `python` on PATH runs only the selected version.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(python) for python in sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    by_uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    yield from (str(python) for python in sorted(by_uv.glob(f"cpython-{version}.*/bin/python")))


def _executable(python: str, version: str) -> str | None:
    """Return the path of the interpreter that this program starts, or None if it is no CPython of this version.

    A shim of pyenv starts another interpreter in each folder, and none in a folder that selects another version.
    """
    code = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2], sys.executable)"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    start = f"cpython {version} "
    return done.stdout.strip().removeprefix(start) if done.stdout.startswith(start) else None
