"""Where SAM CLI is: in an environment of its own (.sam), since its pins fight ours; installed when it is not there."""

import hashlib
import subprocess
import sys
from pathlib import Path

from aion_core.packaging import uv
from aion_core.packaging.file_lock import file_lock

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".sam"
REQUIREMENTS = ROOT / "infra" / "sam-requirements.txt"
# It tells AWS about every command otherwise.
ENVIRONMENT = {"SAM_CLI_TELEMETRY": "0"}


class SamMissing(Exception):
    """SAM CLI is not there and could not be installed."""


def installed() -> Path:
    """Return the folder of SAM's programs (sam, python), after installing what the requirements pin."""
    programs = HOME / ("Scripts" if sys.platform == "win32" else "bin")
    stamp = HOME / "requirements.sha256"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    with file_lock(HOME):
        if not stamp.is_file() or stamp.read_text() != wanted:
            _run([uv.find(), "venv", "--quiet", "--clear", "--python", sys.executable, str(HOME)])
            python = str(programs / "python")
            install = [uv.find(), "pip", "install", "--quiet", "--python", python]
            _run([*install, "--require-hashes", "-r", str(REQUIREMENTS)])
            stamp.write_text(wanted)
    return programs


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - no shell, and our own words
    if done.returncode:
        raise SamMissing(f"SAM CLI could not be installed:\n{done.stderr.strip()}")


def main() -> int:
    """Install it and say where it is."""
    try:
        print(installed() / "sam")
    except (SamMissing, uv.UvMissing) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
