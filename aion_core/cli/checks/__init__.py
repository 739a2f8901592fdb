"""One line of `aion doctor`: what was looked at, how it stands, and what to do next."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How it stands."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was looked at."""

    name: str
    status: Status
    said: str
    do: str = ""
    """What to do next; "" where nothing is to be done."""


def ok(name: str, said: str) -> CheckResult:
    """Return that it is well."""
    return CheckResult(name, Status.OK, said)


def warning(name: str, said: str, do: str) -> CheckResult:
    """Return that it works, or was not looked at, and why one may want to know."""
    return CheckResult(name, Status.WARNING, said, do)


def failed(name: str, said: str, do: str) -> CheckResult:
    """Return that it does not work."""
    return CheckResult(name, Status.FAILED, said, do)
