"""How the text of a condition is taken apart, and what makes it hold always (`tests/support/conditions.py`)."""

import pytest

from tests.support.conditions import always, is_condition, parts


@pytest.mark.parametrize(
    ("condition", "joined"),
    [
        ("a = :a", []),
        ("a = :a OR b = :b", []),
        ("a = :a AND b = :b", ["a = :a", "b = :b"]),
        ("a = :a AND (b = :b OR c = :c AND d = :d)", ["a = :a", "(b = :b OR c = :c AND d = :d)"]),
        ("a = :a OR b = :b AND c = :c", ["b = :b", "c = :c"]),
        ("a BETWEEN :a AND :b", []),
        ("a BETWEEN :a AND :b AND c = :c", ["a BETWEEN :a AND :b", "c = :c"]),
        ("(a BETWEEN :a AND :b) AND NOT c = :c", ["(a BETWEEN :a AND :b)", "NOT c = :c"]),
    ],
)
def test_a_condition_is_taken_apart_where_and_joins_it(condition: str, joined: list[str]) -> None:
    assert [condition[start:end] for start, end in parts(condition)] == joined


@pytest.mark.parametrize(
    "text",
    ["attribute_not_exists(pk)", "fence = :fence", "size(waiting) < :most", "#state IN (:a, :b)", " AND a <> :a"],
)
def test_a_condition_is_known_by_what_it_compares(text: str) -> None:
    assert is_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "HEAD",
        "SET fence = :fence",
        "a = :a, b = :b",
        ", expires = :expires REMOVE waiting[0]",
        "due_shard, due_at",
        "IN",
    ],
)
def test_a_change_is_no_condition(text: str) -> None:
    assert not is_condition(text)


def test_brackets_are_never_doubled() -> None:
    assert always("a = :a").endswith("AND a = :a)")
    assert always("a = :a OR b = :b").endswith("AND (a = :a OR b = :b))")
    assert always("(a = :a OR b = :b)").endswith("AND (a = :a OR b = :b))")
    assert always("(a = :a) OR (b = :b)").endswith("AND ((a = :a) OR (b = :b)))")
