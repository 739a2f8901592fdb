"""Refusals of a write: a failed condition, a conflict with another writer, a reused token."""

from collections.abc import Sequence

from aion_core.errors import StoreError, StoreUnavailable

CONDITION_FAILED, CONFLICT, FINE = "ConditionalCheckFailed", "TransactionConflict", "None"

THROTTLED, CAPACITY_EXCEEDED, INVALID = "ThrottlingError", "ProvisionedThroughputExceeded", "ValidationError"
"""Further cancellation reasons of a DynamoDB transaction."""


class WriteRefused(Exception):
    """Error: nothing was written, because a condition failed or another transaction was writing one of the items."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        """`reasons` has CONDITION_FAILED, CONFLICT or FINE for each write, in the same order."""
        super().__init__(", ".join(reasons))
        self.reasons = reasons

    def failed(self, position: int) -> bool:
        """Return True if the condition of the write at this position did not hold."""
        return self.reasons[position : position + 1] == (CONDITION_FAILED,)

    @property
    def is_conflict(self) -> bool:
        """True if the only reason was another transaction: the same writes may succeed when repeated."""
        return CONFLICT in self.reasons and CONDITION_FAILED not in self.reasons


class TokenReused(StoreError):
    """Error: an earlier call with this token had other writes and may have succeeded (IdempotentParameterMismatch)."""


def canceled(reasons: Sequence[str], operation: str = "") -> Exception:
    """Return the error for a write or transaction that was refused for these cancellation reasons."""
    text = f"{operation}TransactionCanceledException: {', '.join(reasons)}"
    if {THROTTLED, CAPACITY_EXCEEDED} & {*reasons}:
        return StoreUnavailable(text)
    # Any other reason is a mistake, such as an item that is too large.
    is_refusal = {FINE} != {*reasons} <= {CONDITION_FAILED, CONFLICT, FINE}
    return WriteRefused(tuple(reasons)) if reasons and is_refusal else StoreError(text)
