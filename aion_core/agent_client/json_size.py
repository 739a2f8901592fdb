"""Size of a JSON text, counted in its bytes before it is parsed: levels, values, and all that is no file. Pure."""

import json
import re

MAX_DEPTH = 64
"""Maximum nesting of another agent's JSON. Protobuf parses about 31 levels of it."""

MAX_VALUES = 100_000
"""Maximum number of values in another agent's JSON. Parsers need a hundred times the memory of a text with many small
values."""

MEGABYTE = 1024**2
MAX_TEXT_BYTES = 4 * MEGABYTE
"""Maximum size of another agent's JSON without the content of files. Python may need four bytes for each character of
a text, and a client copies a text ten times until it is shown."""

_FILES = re.compile(rb'"(?:raw|bytes)"\s*:\s*"(?:[A-Za-z0-9+/_=-]++|\\/)*+"')
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.S)
_NO_ASCII = re.compile(rb"[\x80-\xff]+")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def excess_of(text: bytes) -> str:
    """Return what is too much in a JSON text, such as "more than 64 levels", or "". The text may be invalid JSON."""
    if len(text) > MAX_TEXT_BYTES:
        text = _FILES.sub(b'""', text)
        if len(text) > MAX_TEXT_BYTES:
            return f"more than {MAX_TEXT_BYTES // MEGABYTE} MB beside its files"
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


def in_ascii(text: bytes) -> bytes:
    """Return a JSON text with an escape for each character outside of ASCII. Raises UnicodeDecodeError.

    Otherwise a single one makes Python use up to four bytes for each character of the text.
    """
    return _NO_ASCII.sub(lambda found: json.dumps(found[0].decode())[1:-1].encode(), text)
