"""Levels and values of JSON at their limits, and texts that hide them."""

import json

import pytest

from aion_core.agent_client.json_size import MAX_DEPTH, MAX_TEXT_BYTES, MAX_VALUES, excess_of, in_ascii

TEXT = "more than 4 MB beside its files"
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
        (b'"' + b"a" * (MAX_TEXT_BYTES - 2) + b'"', ""),
        (b'"' + b"a" * (MAX_TEXT_BYTES - 1) + b'"', TEXT),
        (b'{"raw": "' + b"A" * 2 * MAX_TEXT_BYTES + b'"}', ""),
        (b'{"bytes":"' + b"a\\/" * MAX_TEXT_BYTES + b'"}', ""),
        (b'{"text":"' + b"A" * 2 * MAX_TEXT_BYTES + b'"}', TEXT),
        (b'{"raw":"' + b"A" * 2 * MAX_TEXT_BYTES + b'\\""}', TEXT),
        (b'{"raw":"' + b"A" * 2 * MAX_TEXT_BYTES + b'","data":' + nested(MAX_DEPTH) + b"}", LEVELS),
    ],
)
def test_levels_and_values_are_counted_outside_of_strings(text: bytes, excess: str) -> None:
    assert excess_of(text) == excess


def test_text_in_ascii_is_same_json() -> None:
    document = {"ü": ["€ ", "😀", "\x7f", "a"]}
    escaped = in_ascii(json.dumps(document, ensure_ascii=False).encode())
    assert escaped.isascii()
    assert json.loads(escaped) == document
