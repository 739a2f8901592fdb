"""Static checks: import contracts in every run; all of `make lint-code` in `make test-deep` and CI."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*command: str) -> None:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_import_linter_contracts_hold() -> None:
    run(str(Path(sys.executable).with_name("lint-imports")))


@pytest.mark.deep
def test_code_passes_the_linters() -> None:
    run("make", "--silent", "lint-code")
