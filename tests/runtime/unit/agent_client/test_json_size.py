"""Levels and values of JSON at their limits, and texts that hide them."""

import pytest

from aion_core.agent_client.json_size import MAX_DEPTH, MAX_VALUES, excess_of

LEVELS, VALUES = f"more than {MAX_DEPTH} levels", f"more than {MAX_VALUES} values"


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def listed(values: int) -> bytes:
    """Return a list; it and its items are the values."""
    return b"[" + b",".join([b"0"] * values) + b"]"


@pytest.mark.parametrize(
    ("text", "excess"),
    [
        (b"", ""),
        (nested(MAX_DEPTH), ""),
        (nested(MAX_DEPTH + 1), LEVELS),
        (b'{"a":' * (MAX_DEPTH + 1), LEVELS),
        (b"[" + nested(MAX_DEPTH - 1) * 3 + b"]", ""),
        (listed(MAX_VALUES), ""),
        (listed(MAX_VALUES + 1), VALUES),
        (b"[" + b"{}," * MAX_VALUES, VALUES),
        (b'["' + b"[" * 1000 + b"," * MAX_VALUES * 2 + b'"]', ""),
        (b'["\\"' + b"[" * 1000 + b'"]', ""),
        (b'["\\\\"' + nested(MAX_DEPTH + 1), LEVELS),
        (b'["' + b"[" * 1000, ""),
        (b"]" * 1000, ""),
        (b'"' + b"\\" * 1_000_001, ""),
    ],
)
def test_levels_and_values_are_counted_outside_of_strings(text: bytes, excess: str) -> None:
    assert excess_of(text) == excess
