"""Credentials of a request, from its headers, or from the Lambda event if AWS IAM has verified its signature.

Credentials in query strings are ignored, because logs and histories store URLs (RFC 6750, 5.3). Information from AWS,
such as the signer, is read from the Lambda event only, because a client can send any header.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

MAX_CREDENTIALS = 16 * 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class RequestCredentials(Struct, frozen=True):
    """Headers and Lambda event of a request. Verifiers read the credentials from it."""

    headers: Mapping[str, tuple[str, ...]]
    """All values of each request header, by the header's name in lower case."""
    event: Mapping[str, Any]
    """Lambda event of the request. It is empty outside Lambda."""

    @classmethod
    def from_request(cls, headers: Iterable[tuple[bytes, bytes]], event: Any) -> "RequestCredentials":
        """Build the credentials from the headers of an ASGI scope and from the Lambda event."""
        values: dict[str, tuple[str, ...]] = {}
        for raw_name, raw_value in headers:
            name = raw_name.decode("latin-1").lower()
            values[name] = (*values.get(name, ()), raw_value.decode("latin-1").strip())
        return cls(values, event if isinstance(event, Mapping) else {})

    def has_header(self, name: str) -> bool:
        """Return True if the request has the header, with any value."""
        return name.lower() in self.headers

    def values(self, name: str) -> tuple[str, ...]:
        """Return all values of the header."""
        return self.headers.get(name.lower(), ())

    def header(self, name: str) -> str:
        """Return the header's value; "" if the header is missing, repeated (ambiguous) or too long."""
        values = self.values(name)
        return values[0] if len(values) == 1 and len(values[0]) <= MAX_CREDENTIALS else ""

    def has_authorization(self, scheme: str) -> bool:
        """Return True if an `Authorization` header has this scheme, in any letter case (RFC 9110, 11.4)."""
        return any(_scheme(value) == scheme.lower() for value in self.headers.get("authorization", ()))

    def authorization(self, scheme: str) -> str:
        """Return this scheme's token from the `Authorization` header; "" without a valid token (RFC 9110, 11.2)."""
        value = self.header("authorization")
        if _scheme(value) != scheme.lower():
            return ""
        credentials = value.partition(" ")[2].strip(" ")
        return credentials if _TOKEN.fullmatch(credentials) else ""


def _scheme(value: str) -> str:
    return value.partition(" ")[0].lower()


def event_text(event: Any, *path: str) -> str:
    """Return the text at a path of keys in a Lambda event; "" if the event has no text there."""
    found = event
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""
