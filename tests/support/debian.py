"""Programs of Debian packages. Tests that run as root install what is missing."""

import os
import shutil
import subprocess
import warnings

from aion_tools.package.cache import file_lock
from tests.support.server import ROOT

# Wait for the lock of dpkg, because another process may be installing a package.
APT = ["apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=300"]
# Some users' PATH lacks the folders of an administrator's programs.
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


class ProgramMissing(Exception):
    """Error: a program is neither installed nor installable on this machine."""


def program(*names: str, package: str) -> str:
    """Return the path of the first program found; as root, install the Debian package if there is none.

    An installation shows in pytest's summary as a warning. Raise ProgramMissing.
    """
    with file_lock(ROOT / ".cache" / "debian"):
        if found := _found(names):
            return found
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise ProgramMissing(f"{names[0]} is not there: apt-get install {package}")
        _install(package)
    installed = _found(names)
    assert installed is not None, f"{package} has been installed without {names}"
    return installed


def _found(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name, path=PATH))), None)


def _install(package: str) -> None:
    warnings.warn(f"The tests are installing the Debian package {package}.", stacklevel=3)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ([*APT, "update"], [*APT, "install", "--yes", "--no-install-recommends", package]):
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ran.returncode != 0:
            raise ProgramMissing(f"{' '.join(command)} failed: {ran.stderr.strip()[-500:]}")
