"""Errors of a deployment, with the failed step, the output lines that state the reason, and the remedy."""

from collections.abc import Sequence

from aion_core.errors import AionError, StoreError


class DeployError(AionError):
    """Error of a failed step of a deployment.

    The message has the failure, some `lines` of the failed tool's output, and the next step.
    """

    def __init__(self, what: str, *, lines: Sequence[str] = (), next_step: str = "") -> None:
        text = [what, *(f"    {line}" for line in lines), *([f"  → {next_step}"] if next_step else [])]
        super().__init__("\n".join(text))
        self.what, self.lines, self.next_step = what, tuple(lines), next_step


class AwsRefused(StoreError):
    """Error of an operation refused by AWS. `code` is AWS's error code, and `reason` is its message."""

    def __init__(self, operation: str, code: str, reason: str) -> None:
        super().__init__(f"{operation}: {code}")
        self.code, self.reason = code, reason
