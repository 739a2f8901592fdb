"""Search for a Python interpreter of a given minor version on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def interpreter(version: str) -> str | None:
    """Return the path of a Python of this version ("3.13"); None if this machine has no such Python."""
    return next((python for python in _candidates(version) if _is(python, version)), None)


def _candidates(version: str) -> Iterator[str]:
    """Yield possible interpreters: the running one, the one on the path, pyenv's, uv's."""
    yield sys.executable
    if on_the_path := shutil.which(f"python{version}"):
        yield on_the_path
    # The pyenv program on the path runs only the selected version, so look in pyenv's own folders too.
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(python) for python in sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    by_uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    yield from (str(python) for python in sorted(by_uv.glob(f"cpython-{version}.*/bin/python")))


def _is(python: str, version: str) -> bool:
    code = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.split() == ["cpython", version]
