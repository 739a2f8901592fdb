"""A request's body, read within its limits and parsed strictly: what is wrong with it is said before anything runs.

Starlette's own `request.json()` knows no limit, takes NaN, and turns bad UTF-8 into an internal error.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
)
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

MAX_BODY_BYTES = 5 * 1024 * 1024
"""A Function URL itself refuses above 6 MB."""
MAX_DEPTH = 32
"""Levels of the whole body, where R11 would have 64: protobuf reads back no more than about 31 levels of JSON within a
message, three of its own hundred for each, a limit that Python cannot raise; and what cannot be read back must not be
recorded."""
MAX_INTEGER = 2**53


JSON = "application/json"


class BodyRefused(Exception):
    """The body is not read at all: HTTP has a status of its own for why."""

    def __init__(self, http: int, error: A2AError) -> None:
        super().__init__(str(error))
        self.http, self.error = http, error


@dataclass(frozen=True, slots=True)
class _Unusable:
    """What stands for a number that is none of JSON's as we take it, until the whole body has been read."""

    sentence: str


class StrictRequest(Request):
    """A request whose `json()` raises the protocol's errors; each says what to mend."""

    def __init__(self, scope: Scope, receive: Receive, *media_types: str) -> None:
        """`media_types`: what the body may be; JSON where none is given."""
        super().__init__(scope, receive)
        self._media_types = media_types or (JSON,)
        self.read: Any = None
        """The body as it was read, once it was, though it may not be usable: its `id` is what a refusal answers to."""

    async def body(self) -> bytes:
        """Return the whole body; raises BodyRefused as soon as it is too large, is cut, or is compressed."""
        if not hasattr(self, "_body"):
            encoding = self.headers.get("content-encoding", "").strip().lower()
            if encoding not in ("", "identity"):
                # What it unpacks to is not bounded by what was sent.
                raise BodyRefused(
                    415, ContentTypeNotSupportedError("The body is compressed: send it without a Content-Encoding.")
                )
            chunks: list[bytes] = []
            size = 0
            try:
                async for chunk in self.stream():
                    size += len(chunk)
                    if size > MAX_BODY_BYTES:
                        sentence = f"The body is larger than {MAX_BODY_BYTES} bytes: send a part with the url of a file instead."
                        raise BodyRefused(413, InvalidRequestError(sentence))
                    chunks.append(chunk)
            except ClientDisconnect as error:
                # Nobody hears it; and it is nothing that the operator could mend.
                raise BodyRefused(400, InvalidRequestError("The connection was closed within the body.")) from error
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """Return the parsed body.

        Raises BodyRefused, ContentTypeNotSupportedError, JSONParseError, InvalidRequestError or InvalidParamsError.
        """
        if hasattr(self, "_json"):
            return self._json
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in self._media_types:
            wanted = " or ".join(self._media_types)
            raise ContentTypeNotSupportedError(f"The Content-Type is {media_type[:80] or 'missing'}: send {wanted}.")
        self.read = _read(await self.body())
        _check_tree(self.read)
        self._json = self.read
        return self._json


def is_text(text: str) -> bool:
    """Tell whether UTF-8 can carry the text: it has no half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read(body: bytes) -> Any:
    """Return what the JSON text says; raises JSONParseError or InvalidRequestError."""
    if not body:
        raise JSONParseError("The body is empty: send a JSON object.")
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_constant=_no_constant,
            object_pairs_hook=_no_twice,
            parse_int=_integer,
            parse_float=_float,
        )
    except UnicodeDecodeError as error:
        raise JSONParseError(f"The body is not UTF-8: see byte {error.start}.") from error
    except json.JSONDecodeError as error:
        raise JSONParseError(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise JSONParseError(f"The body is nested too deeply: {MAX_DEPTH} levels are enough.") from error


def _no_constant(constant: str) -> NoReturn:
    raise JSONParseError(f"The body is not JSON: {constant} is no JSON number.")


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidRequestError("An object of the body has the same key twice.")
    return mapping


def _float(digits: str) -> float | _Unusable:
    number = float(digits)
    if math.isinf(number):
        return _Unusable("The body has a number too large for JSON's doubles: send it as a string.")
    return number


def _integer(digits: str) -> int | _Unusable:
    # 5000 digits are refused here, before Python refuses to convert them.
    if len(digits) > 17 or abs(number := int(digits)) > MAX_INTEGER:
        return _Unusable("The body has an integer above 2^53: send it as a string.")
    return number


def _check_tree(parsed: Any) -> None:
    """Refuse what no A2A message needs: depth, a number that others read as another, and half a surrogate pair."""
    level = [parsed]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            match value:
                case dict():
                    below.extend(value)
                    below.extend(value.values())
                case list():
                    below.extend(value)
                case str() if not value.isascii() and not is_text(value):
                    raise InvalidParamsError("A text of the body has half a surrogate pair (\\ud800 to \\udfff).")
                case _Unusable():
                    raise InvalidParamsError(value.sentence)
        if not below:
            return
        level = below
    raise InvalidParamsError(f"The body is nested more than {MAX_DEPTH} levels deep.")
