"""SAM CLI: the one on the path if it is new enough, else one in an environment of its own, since its pins fight ours."""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

from aion_core.errors import AionError
from aion_core.packaging import uv
from aion_core.packaging.file_lock import file_lock

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("sam-requirements.txt")
# A checkout keeps it beside the code, where `make clean` finds it; an installed package in the user's cache folder.
HOME = ROOT / ".sam" if (ROOT / "template.yaml").is_file() else platformdirs.user_cache_path("aion-lambda") / "sam"
# It tells AWS about every command otherwise.
ENVIRONMENT = {"SAM_CLI_TELEMETRY": "0"}
OLDEST = (1, 150)
"""The first SAM CLI that knows `ResponseTransferMode`, by which a REST API streams."""


class SamMissing(AionError):
    """SAM CLI is not there and could not be installed."""


def command() -> Path:
    """Return the program `sam`: the one on the path, or, without a new enough one there, what `installed` installs.

    Raises SamMissing.
    """
    found = shutil.which("sam")
    if found and _version_of(found) >= OLDEST:
        return Path(found)
    return installed() / "sam"


def installed() -> Path:
    """Return the folder of SAM's programs (sam, python), after installing what the requirements pin.

    Raises SamMissing.
    """
    programs = HOME / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = HOME / "requirements.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    with file_lock(HOME):
        if not stamp.is_file() or stamp.read_text() != wanted:
            try:
                program = uv.find()
            except uv.UvMissing as error:
                raise SamMissing(f"SAM CLI is not here, and cannot be installed: {error}") from error
            _run([program, "venv", "--quiet", "--clear", "--python", sys.executable, str(HOME)])
            python = str(programs / "python")
            install = [program, "pip", "install", "--quiet", "--python", python]
            _run([*install, "--require-hashes", "-r", str(REQUIREMENTS)])
            stamp.write_text(wanted)
    return programs


def _version_of(program: str) -> tuple[int, ...]:
    """Return the version that the program names, (0,) for one that names none."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True)  # noqa: S603 - found on the path
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", told.stdout)
    return tuple(map(int, version.groups())) if version and not told.returncode else (0,)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - no shell, and our own words
    if done.returncode:
        raise SamMissing(f"SAM CLI could not be installed:\n{done.stderr.strip()}")


def main() -> int:
    """Install it and say where it is."""
    try:
        print(installed() / "sam")
    except SamMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
