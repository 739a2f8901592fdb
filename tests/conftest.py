"""Fixtures and settings of the whole suite: the embedded stack, a manual clock, and a summary of the covered areas."""

import gc
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.logging import catching_logs
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.support import service_models
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from aion_tools.stack.stack import LocalStack
    from tests.support.databases import Stack

# Disable garbage collection while pytest collects tests: it takes two CPU-seconds and finds almost nothing.
gc.disable()

settings.register_profile(
    "aion",
    # Leave out the phase `explain`: before Python 3.12, it traces every line, which takes ten times as long.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    # Set no deadline, because a Hypothesis example takes longer on a busy machine.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # Play the same Hypothesis examples in each run of `make test`, and new examples in `make test-deep`.
    derandomize=not os.environ.get("SIMULATION_DEEP"),
)
settings.load_profile("aion")

if not os.environ.get("SIMULATION_DEEP"):
    # Take no constants of the source as examples: which ones, depends on the imported modules, and to choose takes seconds.
    providers.is_local_module_file = lambda _: False  # type: ignore[assignment, attr-defined]


@pytest.fixture(scope="session")
def moto() -> "Iterator[LocalStack]":
    # Import late, because boto3 and moto take two seconds to import.
    from aion_tools.stack.stack import LocalStack

    with LocalStack.start("template.yaml") as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(moto: "LocalStack") -> "LocalStack":
    return moto


@pytest.fixture(scope="session")
def ministack() -> "Iterator[Stack]":
    from tests.support import databases

    with databases.on_ministack() as stack:
        yield stack


@pytest.fixture(scope="session")
def endpoint(moto: "LocalStack") -> "Iterator[Stack]":
    from tests.support import databases

    with databases.on_endpoint(moto) as stack:
        yield stack


@pytest.fixture(scope="module")
def empty_table(moto: "LocalStack") -> None:
    """Empty the table before a module whose commands scan it: items of earlier modules make moto's scans slow."""
    from tests.support import databases

    databases.empty(moto)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def process_is_restored() -> Iterator[None]:
    """Restore environment variables and logging after each test: an app with deployment settings changes both."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # Compare the encoded variables: to decode all of them takes as long as a small test.
    encoded: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    before = encoded.copy()
    yield
    if encoded != before:
        for name in encoded.keys() - before.keys():
            del os.environb[name]
        os.environb.update(before.items() - encoded.items())
    root.handlers[:] = handlers
    # Set no equal level: it clears the cache of each logger.
    if root.level != level:
        root.setLevel(level)


_search_loggers = catching_logs.__enter__


def _catch_at_root(catching: catching_logs[Any]) -> Any:
    """Attach the handler to the root logger. pytest also searches all loggers for those without propagation.

    It does so six times in each test, among the 500 loggers of the frameworks.
    """
    if catching.level is not None:
        return _search_loggers(catching)
    root = logging.getLogger()
    root.addHandler(catching.handler)
    catching.attached_loggers.append(root)
    return catching.handler


catching_logs.__enter__ = _catch_at_root  # type: ignore[method-assign]


def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Fork the workers from a process that has imported the packages."""
    from tests.support.e2e.forked import fork_workers

    fork_workers(specs)


ALL_DEEP = re.compile(r"^pytestmark = .*\bmark\.deep\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files whose tests are all deep, if no deep test runs: some import what takes seconds to import."""
    if config.option.markexpr != "not deep" or not collection_path.match("test_*.py"):
        return None
    return True if ALL_DEEP.search(collection_path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out the deep cases of a test but one, if no deep test runs: to collect and deselect all takes CPU-seconds."""
    if metafunc.config.option.markexpr == "not deep":
        calls = metafunc._calls
        metafunc._calls = [call for call in calls if all(mark.name != "deep" for mark in call.marks)] or calls[:1]


# ── Order of the tests ────────────────────────────────────────────────────────────────────────────────────────────────

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

FIRST = (
    "tests/simulation/test_simulation.py",
    "tests/runtime/contract/",
    "tests/tools/contract/",
    "tests/tools/e2e/containers/",
    "tests/tools/e2e/console/",
    "tests/tools/e2e/test_installed.py",
    "tests/tools/e2e/test_dev_loop.py",
    "tests/runtime/unit/agents/langgraph/test_generated_streams.py",
    "tests/tools/e2e/",
    "tests/runtime/clients/",
    "tests/runtime/e2e/",
    "tests/repository/policies/test_iam_permissions.py",
    "tests/runtime/protocol/",
    "tests/tools/unit/cli/",
)
"""The longest files run first, so that no worker still runs a long file when the other workers have finished."""
CONTRACT = ("tests/runtime/contract/", "tests/tools/contract/")
TOGETHER = (CONTRACT, ("tests/tools/e2e/console/",), ("tests/tools/e2e/containers/",))
"""Groups of folders that one worker runs whole: a second worker would start another ministack, browser or docker engine."""
LAST = "tests/runtime/unit/authoring/test_typing.py"
"""This file runs last, because the cache of mypy then has the imported packages."""


class GroupedScheduling(LoadFileScheduling):  # type: ignore[misc]
    """pytest-xdist scheduling by file; all files of a group in TOGETHER run in the same worker."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group[0] for group in TOGETHER if nodeid.startswith(group)), nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupedScheduling | None:
    return GroupedScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Start each folder at a different file in each worker: a worker then loads files that others have compiled."""
    report = yield
    if isinstance(collector, pytest.Directory):
        start = len(report.result) * WORKER // WORKERS
        report.result = [*report.result[start:], *report.result[:start]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first and LAST last: the workers take files in this order (`--no-loadscope-reorder`)."""

    def place(item: pytest.Item) -> tuple[int, str]:
        file = item.nodeid.partition("::")[0]
        named = [number for number, start in enumerate(FIRST) if file.startswith(start)]
        return named[0] if named else len(FIRST) + file.startswith(LAST), file

    items.sort(key=place)
    _record_databases(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Load the shared modules once, and exempt their objects from garbage collection."""
    service_models.share()
    if (transports := sys.modules.get("httpx._transports.default")) is not None:
        # Share one SSL context: otherwise each client reads the trusted certificates again, which takes 18 ms of CPU.
        transports.create_ssl_context = cache(transports.create_ssl_context)  # type: ignore[attr-defined]
    if (fields := sys.modules.get("pydantic._internal._fields")) is not None:
        # Read the signature of each default factory once: Pydantic reads it for each object with private attributes.
        fields.takes_validated_data_argument = lru_cache(512)(fields.takes_validated_data_argument)  # type: ignore[attr-defined]
    # Collect garbage once after the tests. By default pytest collects it five times, for a second in each worker.
    session.config.stash[gc_collect_iterations_key] = 1
    gc.freeze()
    # Raise the thresholds, because garbage collection takes a tenth of the tests' CPU time with the default thresholds.
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


# ── Summary ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SIMULATED = Path(__file__).parents[1] / ".cache" / "simulated.txt"
"""Summary of the simulation, written by the worker that has run the simulation."""

_begun = time.time()
_areas: Counter[tuple[str, str]] = Counter()
_databases: Counter[tuple[str, str]] = Counter()
_figures: list[str] = []


def area_of(nodeid: str) -> str:
    """Return the area of a test: its folder below `tests/runtime`, `tests/tools` and so on, and below their `unit`."""
    _, *folders = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(folders[: 3 if folders[1:2] == ["unit"] else 2]) or "tests"


def _record_databases(items: list[pytest.Item]) -> None:
    """Record the database of each contract test, for the summary."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        database = params.get("stack") or params.get("adapter") or params.get("table")
        if database and item.nodeid.startswith(CONTRACT):
            item.user_properties.append(("database", database))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the test by its area, and by the database that it ran on."""
    if report.when != "call" and report.passed:
        return
    outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    _areas[area_of(report.nodeid), outcome] += 1
    for name, value in report.user_properties:
        if name == "database":
            _databases[str(value), outcome] += 1
        elif name == "figures":
            _figures.append(str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of cases by area and by database, and the faults of the simulation."""
    for title, counted in (("covered", _areas), ("databases", _databases)):
        if counted:
            terminalreporter.section(title)
        for name in sorted({name for name, _ in counted}):
            counts = ", ".join(f"{count} {outcome}" for (of, outcome), count in sorted(counted.items()) if of == name)
            terminalreporter.line(f"{name:24} {counts}")
    if _figures:
        terminalreporter.section("figures")
        terminalreporter.write("".join(f"{line}\n" for line in _figures))
    if SIMULATED.is_file() and SIMULATED.stat().st_mtime >= _begun:
        terminalreporter.section("simulated")
        terminalreporter.write(SIMULATED.read_text(encoding="utf-8"))
