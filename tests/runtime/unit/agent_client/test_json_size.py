"""Levels and values of JSON at their limits, and texts that hide them."""

import json

from aion_core.agent_client.json_size import excess_of, in_ascii
from aion_core.agent_client.limits import MAX_DEPTH, MAX_VALUES, OF_COMMANDS
from tests.support.rows import each_row

MOST_TEXT = OF_COMMANDS.text
TEXT = "more than 4 MB beside its files"
LEVELS, VALUES = f"more than {MAX_DEPTH} levels", f"more than {MAX_VALUES} values"


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def listed(values: int) -> bytes:
    """Return a list; it and its items are the values."""
    return b"[" + b",".join([b"0"] * values) + b"]"


@each_row(
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
        (b'"' + b"a" * (MOST_TEXT - 2) + b'"', ""),
        (b'"' + b"a" * (MOST_TEXT - 1) + b'"', TEXT),
        (b'{"raw": "' + b"A" * 2 * MOST_TEXT + b'"}', ""),
        (b'{"bytes":"' + b"a\\/" * MOST_TEXT + b'"}', ""),
        (b'{"text":"' + b"A" * 2 * MOST_TEXT + b'"}', TEXT),
        (b'{"raw":"' + b"A" * 2 * MOST_TEXT + b'\\""}', TEXT),
        (b'{"raw":"' + b"A" * 2 * MOST_TEXT + b'","data":' + nested(MAX_DEPTH) + b"}", LEVELS),
    ],
)
def test_levels_and_values_are_counted_outside_of_strings(text: bytes, excess: str) -> None:
    assert excess_of(text, most_text=MOST_TEXT) == excess


def test_limits_are_those_given() -> None:
    assert excess_of(listed(10), most_text=100, most_values=9) == "more than 9 values"
    assert excess_of(b"a" * (3 * 512 * 1024 + 1), most_text=3 * 512 * 1024) == "more than 1.5 MB beside its files"


def test_text_in_ascii_is_same_json() -> None:
    document = {"ü": ["€ ", "😀", "\x7f", "a"]}
    escaped = in_ascii(json.dumps(document, ensure_ascii=False).encode())
    assert escaped.isascii()
    assert json.loads(escaped) == document
