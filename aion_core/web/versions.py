"""Which version of the protocol a request speaks, and what happens where it says another (spec 3.6, D1)."""

import re

from a2a.utils.errors import VersionNotSupportedError
from starlette.requests import Request

VERSION = "A2A-Version"
V1, V03 = "1.0", "0.3"


def stated_version(request: Request) -> str:
    """Return the version that the request states, in its header or as a query parameter (spec 3.6.1); "" for none."""
    return request.headers.get(VERSION, "").strip() or request.query_params.get(VERSION, "").strip()


def settle_version(request: Request, spoken: str) -> None:
    """Refuse a request that states another version than it speaks; where it states none, it is what it speaks.

    The method's name says it in JSON-RPC, the path in REST: the specification takes a missing version for 0.3, which
    would refuse each request of v1.0 that is plainly one. Raises VersionNotSupportedError.
    """
    stated = stated_version(request)
    if not stated:
        return
    numbers = re.fullmatch(r"([0-9]+\.[0-9]+)(\.[0-9]+)?", stated)
    if numbers is None or numbers[1] != spoken:
        raise VersionNotSupportedError(
            f"This method is of A2A {spoken}, and the request's {VERSION} is {stated[:8]!r}: send {spoken}, or leave it out.",
            data={"supportedVersions": f"{V1},{V03}"},
        )
