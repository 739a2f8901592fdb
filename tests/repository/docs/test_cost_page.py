"""docs/cost.md: its scenarios and prices, and the meter that counts DynamoDB's units."""

import tomllib
from collections import Counter

from scripts.metering import _of_index, size

INDEX = {
    "KeySchema": [{"AttributeName": "due_shard"}, {"AttributeName": "due_at"}],
    "Projection": {"ProjectionType": "KEYS_ONLY"},
}
DUE = {"pk": {"S": "a"}, "sk": {"S": "b"}, "due_shard": {"S": "DUE#01"}, "due_at": {"N": "1"}}


def test_cost_model_counts_write_units_of_changed_index_entries() -> None:
    moved = {**DUE, "due_at": {"N": "2"}}
    assert [_of_index(INDEX, *change) for change in (({}, {}), ({}, DUE), (DUE, DUE), (DUE, moved), (DUE, {}))] == [
        0, 1, 0, 2, 1,
    ]  # fmt: skip
    assert _of_index(INDEX, DUE, {**DUE, "state": {"S": "not in it"}}) == 0


def test_table_item_size_counts_attribute_names_and_values() -> None:
    assert size({"pk": {"S": "ab"}, "content": {"B": "QUJD"}}) == len("pkabcontent") + 3
    assert size({"n": {"N": "1234"}}) == 1 + 4


def test_cost_page_lists_idle_price_of_each_resource() -> None:
    from scripts.cost import PAGE, PRICES, idle_rows
    from scripts.cost_scenarios import SCENARIOS

    rows = idle_rows({SCENARIOS[-1].name: Counter()}, tomllib.loads(PRICES.read_text(encoding="utf-8")))
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in rows if f"| {name} |" not in page] == [], "Run `make cost`."
