"""Equivalent spellings of valid requests: each has the same result."""

import re
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.runtime.protocol.dialects import Dialect, Json, Sent, body_of
from tests.runtime.protocol.rendering import Path, changed, objects, rendered
from tests.runtime.protocol.variations import ALPHABET, SENDS, Maker, Variation, chance, fresh_contexts, with_body

ODD = st.sampled_from(["\0", "\x1b[31m", "\u202e\u05e9\u05dc\u05d5\u05dd", "\U0001f468\u200d\U0001f469", "\u2028", "\ufeff", "\ufffe", "\\", '"', "</script>", "\r\n\r\ndata: x"])  # fmt: skip
TEXT = st.lists(st.text(max_size=8) | ODD, max_size=4).map("".join)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
KEYS = st.sampled_from(["__proto__", "constructor", "prototype", "toString", "", "a b", "\u00e9"]) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3), max_leaves=6
)
METADATA = st.dictionaries(KEYS.filter(lambda key: not key.lower().strip().startswith("aion:")), VALUES, max_size=3)
UNKNOWN = st.text("qwz", min_size=3, max_size=8).map(lambda name: f"un{name}known")


def contents(draw: DrawFn) -> dict[str, Json]:
    """Valid contents of a message."""
    parts: list[Json] = [{"text": draw(TEXT)}]
    if draw(st.booleans()):
        parts.append(
            {"data": draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=2)), "metadata": draw(METADATA)}
        )
    given: dict[str, Json] = {
        "messageId": draw(st.text(ALPHABET, max_size=120).map(lambda rest: f"m{rest}")),
        "role": "ROLE_USER",
        "parts": parts,
    }
    if draw(st.booleans()):
        given["metadata"] = draw(METADATA)
    if draw(st.booleans()):
        given["extensions"] = ["https://example.com/e"]
    return given


def twice(draw: DrawFn, dialect: Dialect, length: Json = 3) -> tuple[str, Sent, Sent]:
    """Return an operation, and two requests of it: the same message in two different contexts."""
    operation, message = draw(st.sampled_from(SENDS)), contents(draw)
    both = []
    for context in (draw(fresh_contexts), draw(fresh_contexts)):
        params = {"message": {**message, "contextId": context}, "configuration": {"historyLength": length}}
        sent = dialect.request(operation, params)
        assert sent is not None
        both.append(sent)
    return operation, both[0], both[1]


def equal(kind: str, draw: DrawFn, dialect: Dialect, change: Any, **headers: str) -> Variation:
    """Return a request with its body changed by `change`, and the unchanged one; both must have the same result."""
    operation, plain, sent = twice(draw, dialect)
    body = rendered(change(body_of(sent)), chance(draw))
    return Variation(kind, with_body(sent, body, **headers), None, plain, operation)


def another_style(draw: DrawFn, dialect: Dialect) -> Variation:
    return equal("another style", draw, dialect, lambda body: body)


def unknown_fields(draw: DrawFn, dialect: Dialect) -> Variation:
    more, value, pick = draw(UNKNOWN), draw(VALUES), draw(st.integers(0, 100))

    def change(body: Json) -> Json:
        places = [path for path in objects(body) if not _is_data(path)]
        return changed(body, places[pick % len(places)], lambda whole: {**whole, more: value})

    return equal("unknown fields", draw, dialect, change)


def nulls(draw: DrawFn, dialect: Dialect) -> Variation:
    """Add null values for missing fields."""
    names = draw(st.sets(st.sampled_from(["taskId", "metadata", "extensions", "referenceTaskIds"]), min_size=1))

    def change(body: Json) -> Json:
        at = _message(body)
        return changed(body, at, lambda message: {**dict.fromkeys(names), **message})

    return equal("nulls", draw, dialect, change)


def names_of_the_schema(draw: DrawFn, dialect: Dialect) -> Variation:
    """Replace the camelCase names of fields by the snake_case names in the proto file."""

    def snake(value: Json, path: Path = ()) -> Json:
        if isinstance(value, dict) and not _is_data(path):
            return {_snake(name): snake(member, (*path, name)) for name, member in value.items()}
        return [snake(member, (*path, at)) for at, member in enumerate(value)] if isinstance(value, list) else value

    return equal("names of the schema", draw, dialect, snake)


def numbers_as_numbers(draw: DrawFn, dialect: Dialect) -> Variation:
    """Write the integer `historyLength` as a text or as a float."""
    number = draw(st.sampled_from(["3", 3.0]))

    def change(body: Json) -> Json:
        at = (*_message(body)[:-1], "configuration", "historyLength")
        return changed(body, at, lambda _: number)

    return equal("numbers as numbers", draw, dialect, change)


def another_header(draw: DrawFn, dialect: Dialect) -> Variation:
    kinds = [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
    ]
    if dialect.name == "HTTP+JSON 1.0":
        kinds += ["application/a2a+json", "application/a2a+json; charset=utf-8"]
    kind = draw(st.sampled_from(kinds))
    return equal("another header", draw, dialect, lambda body: body, **{"content-type": kind})


EQUALS: tuple[Maker, ...] = (
    another_style, unknown_fields, nulls, names_of_the_schema, numbers_as_numbers, another_header,
)  # fmt: skip


@st.composite
def equals(draw: DrawFn, dialect: Dialect) -> Variation:
    """Draw a request with the same result as the plain one."""
    return draw(st.sampled_from(EQUALS))(draw, dialect)


def _is_data(path: Path) -> bool:
    return any(step in ("metadata", "data") for step in path)


def _message(body: Json) -> Path:
    return ("params", "message") if "params" in body else ("message",)


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda letter: f"_{letter[1].lower()}", name)
