"""Fixtures of the engines: a test with `stack`, `adapter` or `table` runs once for each chosen engine."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.local.sqlite.table import SQLiteTable
from aion_core.table.item import Key
from aion_core.table.port import Table
from aion_tools.stack.stack import LocalStack
from tests.runtime.contract.tables import skip_deviation
from tests.support import engines
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.engines import Stack
from tests.support.stores import dynamodb_table, store_of, table_of

HERE = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests by engine.

    `stack` and `table` run on the fastest engine by default, and on each engine with the marker `each_engine`; `table`
    also runs in memory and in SQLite. `adapter` runs in memory (blobs and queues also in SQLite), and with the marker
    also on the fastest engine. AION_TEST_ENGINES replaces these defaults.
    """
    on_each = metafunc.definition.get_closest_marker("each_engine") is not None
    names = engines.chosen_for_each() if on_each else engines.chosen()
    if "stack" in metafunc.fixturenames:
        metafunc.parametrize("stack", names, indirect=True)
    if "adapter" in metafunc.fixturenames:
        local = engines.LOCAL if {"blobs", "artifacts", "harness"} & {*metafunc.fixturenames} else ["memory"]
        above = engines.chosen() if on_each else engines.chosen(default=())
        metafunc.parametrize("adapter", [*local, *above], indirect=True)
    # Parametrize `table` only without `stack`: with `stack`, the fixture `table` uses the table of that stack.
    if {"table", "stack"} & {*metafunc.fixturenames} == {"table"}:
        metafunc.parametrize("table", [*engines.LOCAL, *names], indirect=True)


@pytest.fixture(scope="module")
def emptied() -> Iterator[dict[str, Stack]]:
    """Return the stacks emptied for this module so far, by engine; empty these stacks again after the module."""
    used: dict[str, Stack] = {}
    yield used
    for stack in used.values():
        engines.empty(stack)


def _on(engine: str, request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack:
    made: Stack = request.getfixturevalue(engine)
    if engine in engines.DEFAULT and engine not in emptied:
        engines.empty(made)
        emptied[engine] = made
    return made


@pytest.fixture
def stack(request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack:
    """Return the stack on the current engine."""
    return _on(request.param, request, emptied)


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> ManualClock:
    """Return a clock that moves 1 ms at each reading, so that two attempts of a retried write have different times."""
    return ManualClock(step=0.0 if request.node.get_closest_marker("exact_times") else 0.001)


@pytest.fixture
def adapter(request: pytest.FixtureRequest, emptied: dict[str, Stack]) -> Stack | None:
    """Return the stack of the port's adapter; None for adapters without AWS."""
    return None if request.param in engines.LOCAL else _on(request.param, request, emptied)


@pytest.fixture
def table(
    request: pytest.FixtureRequest, emptied: dict[str, Stack], clock: ManualClock, tmp_path: Path
) -> Iterator[Table]:
    """Return the table in memory, in SQLite, or on an engine, which has its own clock."""
    if request.param in engines.LOCAL:
        made = engines.local_table(request.param, clock, tmp_path)
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
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["table"]
    return name


@pytest.fixture
def case(request: pytest.FixtureRequest, engine: str) -> str:
    """Return the id of the test case; skip a case in which the engine is known to differ from DynamoDB."""
    name: str = request.node.callspec.id.removeprefix(f"{engine}-").removesuffix(f"-{engine}")
    skip_deviation(engine, name)
    return name


@pytest.fixture(scope="session")
def ministack() -> Iterator[Stack]:
    with engines.on_ministack() as stack:
        yield stack


@pytest.fixture(scope="session")
def endpoint(moto: LocalStack) -> Iterator[Stack]:
    with engines.on_endpoint(moto) as stack:
        yield stack


@pytest.fixture
def chat(adapter: Stack | None, clock: ManualClock) -> StoreConversation:
    """Return a context in a store: in memory, and on each engine."""
    return StoreConversation(store_of(table_of(adapter, clock), adapter, clock), clock)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record the engine of each test, for the summary."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        engine = params.get("stack") or params.get("adapter") or params.get("table")
        if engine and item.path.is_relative_to(HERE):
            item.user_properties.append(("engine", engine))
