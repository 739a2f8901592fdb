"""What AWS's event says of a request: AWS writes it, no caller does, and nothing is taken for granted of its shape. Pure."""

from collections.abc import Mapping
from typing import Any


def text_in(event: Any, *names: str) -> str:
    """Return the text that stands in the event below these names, one within the other; "" where there is none."""
    found = event
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""
