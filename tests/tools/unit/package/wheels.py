"""Wheels for the tests of packages."""

import hashlib
import zipfile
from pathlib import Path


def wheel(folder: Path, module: str = "mine.py", text: str = "", name: str = "mine") -> Path:
    """Write the wheel of a distribution's version 1.0 with this module into the folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(module, text)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", f"{module},,\n")
    return written


def hashed(requirement: str, written: Path) -> str:
    """Return the requirement with the hash of this wheel."""
    return f"{requirement} --hash=sha256:{hashlib.sha256(written.read_bytes()).hexdigest()}"
