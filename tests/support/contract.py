"""Fixtures of the contract tests of both houses: each test runs once for each chosen database."""

from collections.abc import Iterator

import pytest

from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.databases import Stack


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests by database.

    `stack` and `table` run on the fastest database by default, with the marker `each_database` also on an endpoint; `table`
    also runs in memory and in SQLite. `adapter` runs in memory (blobs and queues also in SQLite), and with the marker
    also on the fastest database. AION_TEST_DATABASES replaces these defaults.
    """
    on_each = metafunc.definition.get_closest_marker("each_database") is not None
    names = databases.chosen_for_each() if on_each else databases.chosen()
    if "stack" in metafunc.fixturenames:
        metafunc.parametrize("stack", names, indirect=True)
    if "adapter" in metafunc.fixturenames:
        local = databases.LOCAL if {"blobs", "artifacts", "harness"} & {*metafunc.fixturenames} else ["memory"]
        above = databases.chosen() if on_each else databases.chosen(default=())
        metafunc.parametrize("adapter", [*local, *above], indirect=True)
    # Parametrize `table` only without `stack`: with `stack`, the fixture `table` uses the table of that stack.
    if {"table", "stack"} & {*metafunc.fixturenames} == {"table"}:
        metafunc.parametrize("table", [*databases.LOCAL, *names], indirect=True)


@pytest.fixture(scope="module")
def emptied() -> Iterator[dict[str, Stack]]:
    """Return the stacks emptied for this module so far, by database; empty these stacks again after the module."""
    used: dict[str, Stack] = {}
    yield used
    for stack in used.values():
        databases.empty(stack)


def on_database(database: str, request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack:
    """Return the stack on the database, emptied for this module."""
    made: Stack = request.getfixturevalue(database)
    if database in databases.DEFAULT and database not in emptied:
        databases.empty(made)
        emptied[database] = made
    return made


@pytest.fixture
def stack(request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack:
    """Return the stack on the current database."""
    return on_database(request.param, request, emptied)


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> ManualClock:
    """Return a clock that moves 1 ms at each reading, so that two attempts of a retried write have different times."""
    return ManualClock(step=0.0 if request.node.get_closest_marker("exact_times") else 0.001)
