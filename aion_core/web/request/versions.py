"""A2A version that a request states."""

import re
from collections.abc import Callable

from a2a.utils.errors import VersionNotSupportedError
from starlette.requests import Request

VERSION = "A2A-Version"

V1, V03 = "1.0", "0.3"


def stated_version(request: Request) -> str:
    """Return the A2A version in the request's header or query (A2A 3.6.1); "" if the request states no version.

    If several headers state different versions, return them joined by commas.
    """
    # Split the value too, because a Function URL joins several headers of one name by commas.
    stated = dict.fromkeys(filter(None, map(str.strip, ",".join(request.headers.getlist(VERSION)).split(","))))
    return ", ".join(stated) or request.query_params.get(VERSION, "").strip()


def check_version(request: Request, version: str, name_in: Callable[[str], str]) -> None:
    """Raise VersionNotSupportedError if the request states another A2A version than `version`.

    `version` is the version of the request's method or path. A request without a stated version is accepted. By the
    specification it would have version 0.3, but then every v1.0 request without the header would fail. `1` is read as
    1.0, and a patch number is ignored. `name_in` returns the operation's method or path in a supported version, or "" if it has none; the error names it.
    """
    stated = stated_version(request)
    if not stated:
        return
    numbers = re.fullmatch(r"([0-9]+)(\.[0-9]+)?(\.[0-9]+)?", stated)
    read = f"{numbers[1]}{numbers[2] or '.0'}" if numbers else ""
    if read != version:
        other = V03 if version == V1 else V1
        name = name_in(other) if read == other else ""
        hint = f" In {other} it is {name}." if name else ""
        raise VersionNotSupportedError(
            f"This method is of A2A {version}, and the request's {VERSION} is {stated[:8]!r}: "
            f"send {version}, or leave it out.{hint}",
            data={"supportedVersions": f"{V1},{V03}"},
        )
