"""Levels and values of a JSON text, counted in its bytes before it is parsed. Pure."""

import re

MAX_DEPTH = 64
"""Maximum nesting of another agent's JSON. Protobuf parses about 31 levels of it."""

MAX_VALUES = 100_000
"""Maximum number of values in another agent's JSON. Parsers need a hundred times the memory of a text with many small
values."""

_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.S)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def excess_of(text: bytes) -> str:
    """Return what is too much in a JSON text, such as "more than 64 levels", or "". The text may be invalid JSON."""
    outside = _STRINGS.sub(b"", text)
    if sum(map(outside.count, (b",", b"{", b"["))) > MAX_VALUES:
        return f"more than {MAX_VALUES} values"
    depth = 0
    for bracket in outside.translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return f"more than {MAX_DEPTH} levels"
        if depth < 0:
            break
    return ""
