"""Waiting tasks: their contexts in the index, and the limit. tests/tools/unit/cli/checks/test_waiting_tasks.py reads tables."""

import pytest

from aion_core.table import keys
from aion_core.table.keys import ContextKey
from aion_tools.operator.waiting_tasks import WaitingTasks
from tests.support.rows import each_row

ONE, TWO, THREE = (ContextKey("owner", "agent", name) for name in ("c-1", "c-2", "c-3"))


@pytest.mark.parametrize("context", [ONE, ContextKey("https://issuer#a|b%23", "an agent#1", "c#1%23#2")])
def test_index_partition_names_its_context(context: ContextKey) -> None:
    assert keys.context_of_listing(keys.listing_context(context)) == context


@each_row(("limit", "expected"), [(0, []), (1, [ONE]), (2, [ONE]), (3, [ONE, TWO]), (9, [ONE, TWO, THREE])])
def test_newest_contexts_have_at_most_the_limit(limit: int, expected: list[ContextKey]) -> None:
    assert WaitingTasks({ONE: 1, TWO: 2, THREE: 1}, True).newest(limit) == expected
