"""Checkers of the code: the import contracts in each run, and all of `make lint-code` in `make test-deep` and in CI."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str) -> None:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_imports_keep_the_contracts() -> None:
    run(str(Path(sys.executable).with_name("lint-imports")))


@pytest.mark.deep
def test_code_passes_the_linters() -> None:
    run("make", "--silent", "lint-code")
