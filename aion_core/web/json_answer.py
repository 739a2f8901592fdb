"""JSON responses that may be large."""

from typing import Any

import msgspec
from starlette.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """JSON response with the result of an operation.

    It is written as UTF-8 at once. Starlette makes a text of it first: with four bytes for each character if one of them is
    an emoji, and twice.
    """

    def render(self, content: Any) -> bytes:
        """Return the JSON."""
        return msgspec.json.encode(content)
