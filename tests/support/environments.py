"""Python environments of their own, for what does not go together with the project's lock."""

import subprocess
import sys
from pathlib import Path

from infra import uv
from tests.support.server import ROOT


def python_with(requirements: Path) -> Path:
    """The interpreter of an environment that holds what the lock file names, made once; quick the second time."""
    environment = ROOT / ".cache" / f"{requirements.stem}-{sys.version_info.major}.{sys.version_info.minor}"
    python = environment / "bin" / "python"
    stamp = environment / requirements.name
    if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
        program = uv.find()
        subprocess.run([program, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
        subprocess.run(
            [program, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", requirements],
            check=True,
        )
        stamp.write_bytes(requirements.read_bytes())
    return python
