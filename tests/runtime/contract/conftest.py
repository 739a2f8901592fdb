"""Fixtures of the ports: a test with `stack`, `adapter` or `table` runs once for each chosen database."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.local.sqlite.table import SQLiteTable
from aion_core.table.item import Key
from aion_core.table.port import Table
from tests.runtime.contract.tables import skip_deviation
from tests.support import databases
from tests.support.clock import ManualClock
from tests.support.contract import clock, emptied, on_database, pytest_generate_tests, stack
from tests.support.conversation import StoreConversation
from tests.support.databases import Stack
from tests.support.stores import dynamodb_table, store_of, table_of

__all__ = ["clock", "emptied", "pytest_generate_tests", "stack"]


@pytest.fixture
def adapter(request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack | None:
    """Return the stack of the port's adapter; None for adapters without AWS."""
    return None if request.param in databases.LOCAL else on_database(request.param, request, emptied)


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
        yield dynamodb_table(on_database(request.param, request, emptied), clock=clock)


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


@pytest.fixture
def chat(adapter: Stack | None, clock: ManualClock) -> StoreConversation:
    """Return a context in a store: in memory, and on each database."""
    return StoreConversation(store_of(table_of(adapter, clock), adapter, clock), clock)
