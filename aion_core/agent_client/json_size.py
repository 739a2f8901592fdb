"""Size of a JSON text, counted in its bytes before it is parsed: levels, values, and all that is no file. Pure."""

import json
import re

from aion_core.agent_client.limits import MAX_DEPTH, MAX_VALUES, MEGABYTE

_FILES = re.compile(rb'"(?:raw|bytes)"\s*:\s*"(?:[A-Za-z0-9+/_=-]++|\\/)*+"')
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.S)
_NO_ASCII = re.compile(rb"[\x80-\xff]+")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def excess_of(text: bytes, *, most_text: int, most_values: int = MAX_VALUES) -> str:
    """Return what is too much in a JSON text, such as "more than 64 levels", or "". The text may be invalid JSON.

    `most_text` is the maximum size of the text without the content of its files, in bytes.
    """
    if len(text) > most_text:
        text = _FILES.sub(b'""', text)
        if len(text) > most_text:
            return f"more than {most_text / MEGABYTE:g} MB beside its files"
    outside = _STRINGS.sub(b"", text)
    if sum(map(outside.count, (b",", b"{", b"["))) > most_values:
        return f"more than {most_values} values"
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
