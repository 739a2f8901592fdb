"""Results of the checks of `aion doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check of `aion doctor`, with its subject, status, message, and next step."""

    name: str
    status: Status
    message: str
    next_step: str = ""
    """Next action for the operator; "" if no action is needed."""


def ok(name: str, message: str) -> CheckResult:
    """Return the result of a passed check."""
    return CheckResult(name, Status.OK, message)


def warning(name: str, message: str, next_step: str) -> CheckResult:
    """Return the result of a check that has found a possible problem or could not be made."""
    return CheckResult(name, Status.WARNING, message, next_step)


def failed(name: str, message: str, next_step: str) -> CheckResult:
    """Return the result of a failed check."""
    return CheckResult(name, Status.FAILED, message, next_step)
