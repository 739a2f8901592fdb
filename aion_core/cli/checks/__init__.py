"""One line of `aion doctor`: what was looked at, how it stands, and what to do next."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How it stands."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at."""

    name: str
    status: Status
    said: str
    do: str = ""
    """What to do next; "" where nothing is to be done."""


def ok(name: str, said: str) -> Check:
    """Return that it is well."""
    return Check(name, Status.OK, said)


def warning(name: str, said: str, do: str) -> Check:
    """Return that it works, or was not looked at, and why one may want to know."""
    return Check(name, Status.WARNING, said, do)


def failed(name: str, said: str, do: str) -> Check:
    """Return that it does not work."""
    return Check(name, Status.FAILED, said, do)
