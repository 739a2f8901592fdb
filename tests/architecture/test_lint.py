"""`make lint-code`, the one place that runs the checkers of the code; tests/template checks the template."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.deep
def test_code_passes_the_linters() -> None:
    ran = subprocess.run(["make", "--silent", "lint-code"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
