"""Limits of JSON before its conversion to a message: number of values in the bytes, and length of lists.

Parsers need a hundred times the memory of a body with many small values. Counting such values in the bytes takes about
ten milliseconds for the largest body.
"""

from collections.abc import Mapping
from typing import Any

from a2a.utils.errors import InvalidParamsError

from aion_core.protocol.errors import invalid_params
from aion_core.protocol.message_rules import MAX_PARTS

MAX_VALUES = 5_000
"""Maximum number of values in a JSON body. Members, items, objects and lists count."""


def check_values(body: bytes) -> None:
    """Raise InvalidParamsError for a JSON body with too many values. The rest of the body may be invalid JSON."""
    # Without escapes, a quotation mark is the beginning or the end of a text.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    # A member has a comma or a bracket before it, and at most two texts.
    if plain.count(b'"') <= 4 * MAX_VALUES + 4:
        outside = b"".join(plain.split(b'"')[::2])
        if sum(map(outside.count, (b",", b"{", b"["))) <= MAX_VALUES:
            return
    raise InvalidParamsError(
        f"The body has more than {MAX_VALUES} values: send large data as a file, or a part with the url of a file."
    )


def check_list(values: list[Any], field: str) -> None:
    """Raise InvalidParamsError for a list with too many items. `field` is its path in the request."""
    if len(values) > MAX_PARTS:
        name = "parts" if field.rpartition(".")[2] == "parts" else "items"
        raise invalid_params(f"{field} has more than {MAX_PARTS} {name}: send fewer.", field)


def check_lists(value: Mapping[str, Any], path: str = "") -> None:
    """Raise InvalidParamsError for a list with too many items, outside of metadata and of the items of lists."""
    for name, member in value.items():
        field = f"{path}{name}"
        if isinstance(member, list):
            check_list(member, field)
        elif isinstance(member, dict) and name != "metadata":
            check_lists(member, f"{field}.")
