"""The credentials that came with a request: from its headers, and of AWS's own word in the event that brought it.

Nothing is read from a query string, which logs and histories keep (RFC 6750, 5.3), and no header is taken for AWS's
word: whoever calls writes the headers. Pure.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_CREDENTIALS = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True)
class Presented:
    """What a request brings along to say who calls."""

    headers: Mapping[str, tuple[str, ...]]
    """Every value of each header, by its name in lower case."""
    event: Mapping[str, Any]
    """The Lambda event; empty where this is not Lambda."""

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]], event: Any) -> "Presented":
        """Return what the ASGI scope of a request holds of it."""
        values: dict[str, tuple[str, ...]] = {}
        for raw_name, raw_value in headers:
            name = raw_name.decode("latin-1").lower()
            values[name] = (*values.get(name, ()), raw_value.decode("latin-1").strip())
        return cls(values, event if isinstance(event, Mapping) else {})

    def has(self, header: str) -> bool:
        """Tell whether the header came, with whatever in it."""
        return header.lower() in self.headers

    def the(self, header: str) -> str:
        """Return the header's value; "" where there is none, or more than one: nobody says which is meant."""
        values = self.headers.get(header.lower(), ())
        return values[0] if len(values) == 1 and len(values[0]) <= MAX_CREDENTIALS else ""

    def speaks(self, scheme: str) -> bool:
        """Tell whether some `Authorization` is of the scheme (RFC 9110, 11.4: in whatever case)."""
        return any(_scheme(value) == scheme.lower() for value in self.headers.get("authorization", ()))

    def authorization(self, scheme: str) -> str:
        """Return what follows the scheme in `Authorization`; "" where that is not one token (RFC 9110, 11.2)."""
        value = self.the("authorization")
        if _scheme(value) != scheme.lower():
            return ""
        credentials = value.partition(" ")[2].strip(" ")
        return credentials if _TOKEN.fullmatch(credentials) else ""

    def name_and_password(self) -> tuple[str, str] | None:
        """Return what `Authorization: Basic` says (RFC 7617); None where it says nothing that can be read."""
        try:
            decoded = base64.b64decode(self.authorization("Basic"), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return None
        name, colon, password = decoded.partition(":")
        return (name, password) if colon and name else None


def _scheme(value: str) -> str:
    return value.partition(" ")[0].lower()
