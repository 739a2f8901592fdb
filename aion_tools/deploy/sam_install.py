"""Installation of SAM CLI by its pinned requirements."""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

from aion_core.errors import AionError
from aion_tools.package.cache import file_lock
from aion_tools.programs import UvMissing, find_uv, without_credentials

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("sam-requirements.txt")
# Folder of the installed SAM CLI. In a git checkout it is in the root folder, so that `make clean` removes it.
HOME = ROOT / ".sam" if (ROOT / "template.yaml").is_file() else platformdirs.user_cache_path("aion-lambda") / "sam"
# Disable the telemetry that SAM CLI sends about every command.
ENVIRONMENT = {"SAM_CLI_TELEMETRY": "0"}
OLDEST = (1, 150)
"""First version of SAM CLI with `ResponseTransferMode`, needed for streaming through a REST API."""


class SamMissing(AionError):
    """Error if SAM CLI is missing and could not be installed. Its text hides the credentials in URLs."""

    def __init__(self, message: str) -> None:
        super().__init__(without_credentials(message))


def command() -> Path:
    """Return the path of `sam`: the program on PATH if it is new enough, else the program of our own installation.

    Raises SamMissing.
    """
    found = shutil.which("sam")
    if found and _version_of(found) >= OLDEST:
        return Path(found)
    return installed() / "sam"


def installed() -> Path:
    """Install SAM CLI by its pinned requirements if necessary. Return the folder with its programs (sam, python).

    SAM CLI has an environment of its own, since its pinned dependencies conflict with ours. Raises SamMissing.
    """
    programs = HOME / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = HOME / "requirements.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    with file_lock(HOME):
        if not stamp.is_file() or stamp.read_text() != wanted:
            try:
                program = find_uv()
            except UvMissing as error:
                raise SamMissing(f"SAM CLI is missing and cannot be installed: {error}") from error
            _run([program, "venv", "--quiet", "--clear", "--python", sys.executable, str(HOME)])
            python = str(programs / "python")
            install = [program, "pip", "install", "--quiet", "--python", python]
            _run([*install, "--require-hashes", "-r", str(REQUIREMENTS)])
            stamp.write_text(wanted)
    return programs


def _version_of(program: str) -> tuple[int, ...]:
    """Return the version printed by a program as numbers, or (0,) if it prints no version."""
    result = subprocess.run([program, "--version"], capture_output=True, text=True)  # noqa: S603 - found on the path
    version = re.search(r"(\d+)\.(\d+)\.(\d+)", result.stdout)
    return tuple(map(int, version.groups())) if version and not result.returncode else (0,)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - no shell
    if done.returncode:
        raise SamMissing(f"SAM CLI could not be installed:\n{done.stderr.strip()}")


def main() -> int:
    """Install SAM CLI and print its path."""
    try:
        print(installed() / "sam")
    except SamMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
