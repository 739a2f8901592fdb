"""`make lint`, the one place that runs the checkers."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_lint_passes() -> None:
    ran = subprocess.run(["make", "--silent", "lint"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
