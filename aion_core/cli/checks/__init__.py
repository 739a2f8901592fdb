"""Checks of `aion doctor`, and their results."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result line of `aion doctor`: the subject, its status, and the next step."""

    name: str
    status: Status
    message: str
    next_step: str = ""
    """"" if there is nothing to do."""


def ok(name: str, message: str) -> CheckResult:
    """Return a passed check."""
    return CheckResult(name, Status.OK, message)


def warning(name: str, message: str, next_step: str) -> CheckResult:
    """Return a check with a possible problem, or a skipped check."""
    return CheckResult(name, Status.WARNING, message, next_step)


def failed(name: str, message: str, next_step: str) -> CheckResult:
    """Return a failed check."""
    return CheckResult(name, Status.FAILED, message, next_step)
