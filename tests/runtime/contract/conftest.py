"""Fixtures of the databases: a test with `stack`, `adapter` or `table` runs once for each chosen database."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.local.sqlite.table import SQLiteTable
from aion_core.table.item import Key
from aion_core.table.port import Table
from aion_tools.stack.stack import LocalStack
from tests.runtime.contract.tables import skip_deviation
from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.databases import Stack
from tests.support.stores import dynamodb_table, store_of, table_of

HERE = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests by database.

    `stack` and `table` run on the fastest database by default, and on each database with the marker `each_database`; `table`
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


def _on(database: str, request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack:
    made: Stack = request.getfixturevalue(database)
    if database in databases.DEFAULT and database not in emptied:
        databases.empty(made)
        emptied[database] = made
    return made


@pytest.fixture
def stack(request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack:
    """Return the stack on the current database."""
    return _on(request.param, request, emptied)


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> ManualClock:
    """Return a clock that moves 1 ms at each reading, so that two attempts of a retried write have different times."""
    return ManualClock(step=0.0 if request.node.get_closest_marker("exact_times") else 0.001)


@pytest.fixture
def adapter(request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack | None:
    """Return the stack of the port's adapter; None for adapters without AWS."""
    return None if request.param in databases.LOCAL else _on(request.param, request, emptied)


@pytest.fixture
def table(
    request: pytest.FixtureRequest, emptied: dict[str, Stack], clock: ManualClock, tmp_path: Path
) -> Iterator[Table]:
    """Return the table in memory, in SQLite, or on a database, which has its own clock."""
    if request.param in databases.LOCAL:
        made = databases.local_table(request.param, clock, tmp_path)
        yield made
        if isinstance(made, SQLiteTable):
            made.close()
    else:
        yield dynamodb_table(_on(request.param, request, emptied), clock=clock)


_partitions = itertools.count()


@pytest.fixture
def part() -> str:
    """Return a new partition."""
    return f"TEST#{next(_partitions)}"


@pytest.fixture
def key(part: str) -> Key:
    return Key(part, "one")


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["table"]
    return name


@pytest.fixture
def case(request: pytest.FixtureRequest, database: str) -> str:
    """Return the id of the test case; skip a case in which the database is known to differ from DynamoDB."""
    name: str = request.node.callspec.id.removeprefix(f"{database}-").removesuffix(f"-{database}")
    skip_deviation(database, name)
    return name


@pytest.fixture(scope="session")
def ministack() -> Iterator[Stack]:
    with databases.on_ministack() as stack:
        yield stack


@pytest.fixture(scope="session")
def endpoint(moto: LocalStack) -> Iterator[Stack]:
    with databases.on_endpoint(moto) as stack:
        yield stack


@pytest.fixture
def chat(adapter: Stack | None, clock: ManualClock) -> StoreConversation:
    """Return a context in a store: in memory, and on each database."""
    return StoreConversation(store_of(table_of(adapter, clock), adapter, clock), clock)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record the database of each test, for the summary."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        database = params.get("stack") or params.get("adapter") or params.get("table")
        if database and item.path.is_relative_to(HERE):
            item.user_properties.append(("database", database))
