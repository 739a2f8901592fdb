"""A plugin of pytest: runs tests once as they are, and once for each mutant that they are to catch.

AION_MUTANTS holds, as JSON, the mutants by test (`file::function`, or "*" for any); the file that AION_MUTANTS_SEEN
names gets what was seen, as a list of `Seen`. See `tests/contract/test_conditions.py`.

As a program, `python -m tests.support.mutants NAME…` tries every contract test with each mutant whose name begins so,
and prints which tests fail: half a minute for each. Without a NAME it prints what names there are.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import conditions, engines
from tests.support.server import ROOT

UNCHANGED = ""
ASKED: dict[str, list[str]] = json.loads(os.environ.get("AION_MUTANTS", "{}"))


class Seen(NamedTuple):
    """How a test ended on an engine with a mutant."""

    test: str
    mutant: str
    engine: str
    outcome: str
    text: str


_seen: list[Seen] = []


@pytest.fixture(autouse=True)
def mutant(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the mutant be the code while the test runs."""
    if request.param == UNCHANGED:
        yield
    else:
        with conditions.applied(conditions.mutants()[request.param]):
            yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask for the test's mutants."""
    asked = ASKED.get(f"{metafunc.definition.path.name}::{metafunc.definition.name}", ASKED.get("*", []))
    metafunc.parametrize("mutant", [UNCHANGED, *asked], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what runs in memory, or on no engine at all: there is no condition."""
    items[:] = [item for item in items if _engine(item) not in ("", "memory")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    """Note how it ended."""
    report = yield
    if report.when == "call" or report.failed:
        test = f"{item.path.name}::{item.originalname}"
        _seen.append(Seen(test, _param(item, "mutant"), _engine(item), report.outcome, report.longreprtext))
    return report


def pytest_sessionfinish() -> None:
    """Hand over what was seen."""
    Path(os.environ["AION_MUTANTS_SEEN"]).write_text(json.dumps(_seen))


def _engine(item: pytest.Item) -> str:
    return _param(item, "stack") or _param(item, "adapter")


def _param(item: pytest.Item, name: str) -> str:
    params = item.callspec.params if isinstance(item, pytest.Function) else {}
    return str(params.get(name, ""))


# ── As a program, and for others ──────────────────────────────────────────────────────────────────────────────────────


def run(asked: Mapping[str, Sequence[str]], tests: Sequence[str], scratch: Path) -> list[Seen]:
    """Run the tests with the mutants that they are asked to catch, in a pytest of their own."""
    file = scratch / "seen.json"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.mutants", "-p", "no:cacheprovider", "--timeout=60"]
        + ["--tb=short", *tests],
        cwd=ROOT,
        env={
            **os.environ,
            "AION_TEST_ENGINES": ",".join(engines.chosen()),
            "AION_MUTANTS": json.dumps(asked),
            "AION_MUTANTS_SEEN": str(file),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # 0 and 1 say how the tests ended; anything else, that they were not run.
    if ran.returncode not in (0, 1):
        raise RuntimeError(ran.stdout)
    return [Seen(*each) for each in json.loads(file.read_text())]


def main(*names: str) -> None:
    """Print the tests that fail, for each mutant of these names; the names that there are, where none is given."""
    if not names:
        print(*conditions.mutants(), sep="\n")
        return
    os.environ.setdefault("AION_TEST_ENGINES", engines.FASTEST)
    asked = [name for name in conditions.mutants() if name.startswith(names)]
    with tempfile.TemporaryDirectory() as scratch:
        seen = run({"*": asked}, ["tests/contract", "-m", "not long"], Path(scratch))
    for name in asked:
        caught = dict.fromkeys(each.test for each in seen if each.mutant == name and each.outcome == "failed")
        print(name, *caught or ["no test fails"], sep="\n    ")


if __name__ == "__main__":
    main(*sys.argv[1:])
