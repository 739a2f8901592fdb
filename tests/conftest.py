"""What the whole suite shares: the embedded stack, a clock that only moves when it is told to, and what was covered."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings

from aion_core.local.stack import LocalStack
from tests.support import telling
from tests.support.clock import ManualClock
from tests.support.rows import ROWS, rows_in

# Explaining a failure traces every line of every example before Python 3.12: ten times the time.
settings.register_profile("aion", phases=[phase for phase in Phase if phase is not Phase.explain])
settings.load_profile("aion")


@pytest.fixture(scope="session")
def moto() -> Iterator[LocalStack]:
    with LocalStack.start("template.yaml") as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(moto: LocalStack) -> LocalStack:
    return moto


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


FIRST = (
    "tests/simulation/test_simulation.py",
    "tests/house/test_house.py",
    "tests/e2e/test_deploy.py",
    "tests/e2e/test_deployed.py",
    "tests/e2e/test_sam.py",
    "tests/protocol/test_variations.py",
    "tests/e2e/",
)
"""What takes longest is begun first, so that no process has half of it before it when the others have done."""
LAST = "tests/unit/authoring/test_typing.py"
"""By then mypy has read what it imports; see there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files into the order in which the processes of a run take them (`--no-loadscope-reorder`)."""

    def place(item: pytest.Item) -> int:
        named = [number for number, start in enumerate(FIRST) if item.nodeid.startswith(start)]
        return named[0] if named else len(FIRST) + item.nodeid.startswith(LAST)

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Have the garbage collector look no more at what has been imported: it is there to the end, and most of all there is."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what this process has to tell, where it works for another."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["told"] = telling.tell()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Hear what a process of the run has to tell."""
    telling.hear(getattr(node, "workeroutput", {}).get("told", {}))


_proven: dict[int, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note for each requirement that a test names whether the test held."""
    if report.when == "call":
        rows = " ".join(str(value) for name, value in report.user_properties if name == "rows")
        for row in map(int, rows.split()):
            _proven[row] = _proven.get(row, True) and report.passed


@pytest.fixture(autouse=True)
def _rows(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Take the requirements that a test proves from its docstring."""
    record_property("rows", " ".join(rows_in(getattr(request.function, "__doc__", None) or "")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which requirements the run has proven: those that a passing test names."""
    held = sorted(row for row, passed in _proven.items() if passed)
    if held:
        terminalreporter.section("covered")
        terminalreporter.line(f"{len(held)} of {ROWS} requirements are named by tests that passed: {_ranges(held)}")


def _ranges(rows: list[int]) -> str:
    spans: list[list[int]] = []
    for row in rows:
        if spans and row == spans[-1][-1] + 1:
            spans[-1].append(row)
        else:
            spans.append([row])
    return ", ".join(f"R{span[0]}" if len(span) == 1 else f"R{span[0]}-R{span[-1]}" for span in spans)
