"""Arguments and results as short texts: cut, and without credentials."""

from typing import Any

import pytest

from aion_core import log
from aion_core.redaction import REDACTED
from aion_core.trace.content import CUT, LONGEST, MARGIN, short_text
from tests.support.rows import each_row

KEY = "sk-" + "a1B2" * 12


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain\ntext", "plain\ntext"),
        ({"city": "Rom", "é": [1, None]}, '{"city": "Rom", "é": [1, null]}'),
        ({"key": object}, '{"key": "<class \'object\'>"}'),
        ("half a pair: \ud83d", "half a pair: ?"),
    ],
)
def test_content_is_text_or_json(value: Any, text: str) -> None:
    assert short_text(value) == text


@pytest.mark.parametrize("value", [f"use {KEY} now", {"api_key": KEY}, [f"https://me:{KEY}@example.com"]])
def test_content_has_no_credentials(value: Any) -> None:
    text = short_text(value)
    assert REDACTED in text
    assert KEY[:20] not in text


def test_content_has_no_secret_of_agents_code() -> None:
    log.always_keep_out("correct-horse-battery")
    assert short_text({"said": "correct-horse-battery"}) == f'{{"said": "{REDACTED}"}}'


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + MARGIN + 1, 1_000_000])
def test_long_content_is_cut(length: int) -> None:
    text = short_text("x" * length)
    assert text == ("x" * length if length <= LONGEST else "x" * LONGEST + CUT)


@each_row("keys", [0, 20, 60])
@each_row("before", range(LONGEST - 60, LONGEST + MARGIN + 1, 7))
def test_cut_leaves_no_part_of_credential(before: int, keys: int) -> None:
    """Put a key across each place of the cut, after other keys whose redaction shortens the text, also below the limit."""
    others = " ".join([KEY] * keys)
    text = short_text(others + " " * (before - len(others)) + KEY + " " * MARGIN)
    assert "sk-" not in text


def test_content_of_endless_object_is_read_only_to_the_limit() -> None:
    read = []

    class Endless(list[int]):
        def __iter__(self) -> Any:
            for number in range(10**9):
                read.append(number)
                yield number

        def __len__(self) -> int:
            return 10**9

        def __bool__(self) -> bool:
            return True

    assert short_text(Endless([1])).endswith(CUT)
    assert len(read) < LONGEST + MARGIN
