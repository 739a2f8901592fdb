"""Keys with the prefix `aion:` are reserved for the server, in any spelling and at any depth."""

import string
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st

from aion_core.protocol.reserved_keys import is_reserved, without_reserved_keys, without_reserved_metadata
from aion_core.protocol.types import Task
from tests.runtime.unit.authoring.strategies import json_values, tasks
from tests.support.rows import each_row

WIDE = str.maketrans({char: chr(ord(char) + 0xFEE0) for char in string.ascii_letters + ":"})
ITALIC = str.maketrans({char: chr(0x1D44E + ord(char) - ord("a")) for char in "aion"})


@each_row(
    "name",
    [
        "aion:",
        "aion:network",
        "Aion:x",
        "aion:x".translate(WIDE),
        "aion:x".translate(ITALIC),
        "aion\N{SMALL COLON}x",
        "a\N{INFORMATION SOURCE}on:x",
        "\N{ZERO WIDTH SPACE}aion:x",
        "aion\N{SOFT HYPHEN}:x",
        "\N{ZERO WIDTH NO-BREAK SPACE}AION:x",
        "aion\N{VARIATION SELECTOR-16}:x",
        "a\N{HANGUL FILLER}ion:x",
        " aion:x",
        "aion\t:x",
        "\0aion:x",
        "a\N{TAG LATIN SMALL LETTER X}ion:x",
        "\N{ZERO WIDTH SPACE}" * 9 + "aion:x".translate(WIDE),
        " " * 17 + "x",
    ],
)
def test_reserved_name_is_recognised_in_any_spelling(name: str) -> None:
    assert is_reserved(name)
    assert without_reserved_keys({name: 1, "own": {"list": [{name: 2, "kept": 3}]}}) == {"own": {"list": [{"kept": 3}]}}


@each_row(
    "name",
    [
        "",
        " ",
        "\N{ZERO WIDTH SPACE}",
        "aion",
        "aionx:",
        "my:aion:x",
        "aio:n",
        " " * 16 + "x",
        7,
        None,
    ],
)
def test_metadata_keys_that_are_not_reserved_are_kept(name: Any) -> None:
    assert not is_reserved(name)
    assert without_reserved_keys({name: 1}) == {name: 1}


names = st.sampled_from(["aion:x", "AION:y", "aion:z".translate(WIDE), "own", "aion"])
mixed = st.recursive(
    json_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def keys_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for held in value.values() for key in keys_of(held))]
    return [key for held in value for key in keys_of(held)] if isinstance(value, list) else []


@settings(deadline=None, max_examples=30)
@given(value=mixed)
def test_reserved_keys_are_removed_at_any_depth(value: Any) -> None:
    before = repr(value)
    cleaned = without_reserved_keys(value)
    assert not any(map(is_reserved, keys_of(cleaned)))
    assert without_reserved_keys(cleaned) == cleaned
    assert repr(value) == before


def test_reserved_keys_are_removed_from_metadata_only() -> None:
    sent = {"aion:network": "x", "own": [{"AION:y": 1, "kept": {"aion:z": 2}}]}
    kept: dict[str, Any] = {"own": [{"kept": {}}]}
    part = {"data": sent, "metadata": sent}
    message = {"parts": [part], "metadata": sent}
    task = ParseDict(
        {
            "status": {"message": message},
            "history": [message],
            "artifacts": [{"parts": [part], "metadata": sent}],
            "metadata": sent,
        },
        Task(),
    )
    before = MessageToDict(task)
    clean_part = {"data": sent, "metadata": kept}
    clean_message = {"parts": [clean_part], "metadata": kept}
    assert MessageToDict(without_reserved_metadata(task)) == {
        "status": {"message": clean_message},
        "history": [clean_message],
        "artifacts": [{"parts": [clean_part], "metadata": kept}],
        "metadata": kept,
    }
    assert MessageToDict(task) == before


@settings(deadline=None, max_examples=30)
@given(task=tasks)
def test_metadata_without_reserved_keys_is_unchanged(task: Task) -> None:
    assert without_reserved_metadata(task) == task
