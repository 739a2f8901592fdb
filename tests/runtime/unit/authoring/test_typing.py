"""Type checks of an author's code by mypy, without this repository's mypy settings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Run this test in `deep` only, because mypy takes 40 s of CPU time without a cache filled by `make lint`.
pytestmark = pytest.mark.deep

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".mypy_cache"
"""Cache of this repository's own mypy run. It contains the results for the common imports."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """Return the errors of mypy by file name: (line, error code)."""
    folder = tmp_path_factory.mktemp("author")
    for path in (HERE / "author").glob("*.py"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    command = ["mypy", "--strict", "--config-file=", "--cache-dir", str(CACHE), "--no-pretty", "."]
    ran = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True)
    found: dict[str, list[tuple[int, str]]] = {}
    for name, line, code in re.findall(r"^([^:\n]+):(\d+): error: .*\[([a-z-]+)\]$", ran.stdout, re.MULTILINE):
        found.setdefault(name, []).append((int(line), code))
    assert found, ran.stdout + ran.stderr
    return found


def test_mypy_accepts_well_typed_author_code(said: dict[str, list[tuple[int, str]]]) -> None:
    assert set(said) == {"ill_typed.py"}


def test_mypy_finds_each_mistake_at_its_line(said: dict[str, list[tuple[int, str]]]) -> None:
    lines = (HERE / "author" / "ill_typed.py").read_text(encoding="utf-8").splitlines()
    wrong = [(number, line.split("# wrong: ")[1]) for number, line in enumerate(lines, 1) if "# wrong: " in line]
    assert said["ill_typed.py"] == wrong
