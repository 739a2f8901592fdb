"""Strict JSON of clients: refused texts, and the limit of values, counted in the bytes of the text."""

import json
import tracemalloc
from typing import Any

import pytest
from a2a.utils.errors import A2AError, InvalidParamsError
from hypothesis import given, settings
from hypothesis import strategies as st

from aion_core.protocol.strict_json import MAX_VALUES, check_json, check_values, parse_json, strict_json
from tests.support.rows import each_row

NAMED = ("file", "send fewer.")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('",{}[]:\\\nxé')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('",{[\\x')), inner),
)


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def values_in(value: Any) -> int:
    """Return the number of commas and opening brackets in the JSON of a value."""
    if isinstance(value, dict):
        return max(len(value), 1) + sum(map(values_in, value.values()))
    if isinstance(value, list):
        return max(len(value), 1) + sum(map(values_in, value))
    return 0


@settings(max_examples=30)
@given(JSON)
def test_value_limit_counts_json_values_but_not_string_contents(value: Any) -> None:
    zeros = b",0" * (MAX_VALUES - values_in(value) - 1)
    check_values(b"[" + dumped(value) + zeros + b"]", *NAMED)
    with pytest.raises(InvalidParamsError, match="5000 values"):
        check_values(b"[" + dumped(value) + zeros + b",0]", *NAMED)


@each_row("hostile", ["[]", "{}", '""', '"\\""', "0", '"a":0', '"\\\\":0'])
def test_json_with_over_5000_values_is_refused(hostile: str) -> None:
    with pytest.raises(InvalidParamsError, match="more than 5000 values"):
        check_values(",".join([hostile] * (MAX_VALUES + 2)).encode(), *NAMED)


def test_check_of_json_value_limit_uses_little_memory() -> None:
    body = b"[" + b"{}," * 1_500_000 + b"{}]"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidParamsError):
            check_values(body, *NAMED)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    finally:
        tracemalloc.stop()


def test_integers_too_large_for_doubles_are_refused_only_in_bodies() -> None:
    assert strict_json(b"[9007199254740993]", "file") == [9007199254740993]
    with pytest.raises(A2AError, match=r"above 2\^53"):
        check_json(parse_json(b"[9007199254740993]", "body"), "body")


@each_row(
    ("text", "problem"),
    [
        (b"", "is empty"),
        (b"\xff", "is not UTF-8: see byte 0."),
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        (b"[NaN]", "is not JSON: NaN is no JSON number."),
        (b"[1e999]", "has a number too large for JSON's doubles: send it as a string."),
        (b'{"a": 1, "a": 2}', "An object of the file has the same key twice."),
        (b'["\\ud800"]', "A text of the file has half a surrogate pair"),
        (b"[" * 40 + b"]" * 40, "is nested more than 32 levels deep."),
        (b"[" * 60_000, "more than 5000 values: send fewer."),
    ],
)
def test_error_for_invalid_json_names_problem_and_source(text: bytes, problem: str) -> None:
    with pytest.raises(A2AError) as refused:
        strict_json(text, "file")
    assert problem in str(refused.value)
    assert "file" in str(refused.value)
