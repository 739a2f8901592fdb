"""Planted bugs: small edits of the source, as a tired engineer makes them. The nearest tests fail for each of them."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BUGS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "planted_bugs.toml").read_text(encoding="utf-8"))[
    "bugs"
]
KINDS = ("second actor", "tenant", "boundary", "letter case", "downgrade", "not awaited")


def test_planted_bug_fits_source_and_its_test() -> None:
    """Compare the texts only: `make test` then notices a change of the source that makes a bug outdated."""
    for bug in BUGS:
        assert (ROOT / bug["file"]).read_text(encoding="utf-8").count(bug["old"]) == 1, bug
        assert bug["kind"] in KINDS, bug
        file, _, test = bug["test"].partition("::")
        name = test.partition("[")[0]
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), bug


@pytest.mark.deep
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug["name"])
def test_planted_bug_fails_its_nearest_test(bug: dict[str, Any]) -> None:
    planted = json.dumps({name: bug[name] for name in ("file", "old", "new")})
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AION_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "tests.support.planted"]
    ran = subprocess.run(
        [*command, bug["test"]],
        cwd=ROOT,
        env={**environ, "AION_PLANTED_BUG": planted},
        capture_output=True,
        text=True,
    )
    # A negative code means that the bug has killed the process of the tests.
    assert ran.returncode == 1 or ran.returncode < 0, f"its test passes: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
