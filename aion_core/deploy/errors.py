"""Failures of a deployment: what failed, the lines that say so, and what to do."""

from collections.abc import Sequence

from aion_core.errors import AionError, StoreError


class DeployError(AionError):
    """A step failed. The text is one screen: what failed, `lines` of the tool that failed, and what to do."""

    def __init__(self, what: str, *, lines: Sequence[str] = (), do: str = "") -> None:
        told = [what, *(f"    {line}" for line in lines), *([f"  → {do}"] if do else [])]
        super().__init__("\n".join(told))
        self.what, self.lines, self.do = what, tuple(lines), do


class AwsRefused(StoreError):
    """AWS refused an operation; `code` is its name for the reason, `reason` its sentence."""

    def __init__(self, operation: str, code: str, reason: str) -> None:
        super().__init__(f"{operation}: {code}")
        self.code, self.reason = code, reason


REMEDIES = (
    (
        "ReservedConcurrentExecutions",
        "Your account may run too few functions at once. Deploy with --parameter ApiConcurrency=0, or ask for more "
        '(Service Quotas, AWS Lambda, "Concurrent executions"; it is free).',
    ),
    (
        "MaximumConcurrency",
        "Your account may run too few functions at once: deploy with --parameter TaskConcurrency=2 --parameter PushConcurrency=2.",
    ),
    ("is not authorized to perform", "Your AWS credentials may not do this; whoever administers the account can allow it."),
    ("AccessDenied", "Your AWS credentials may not do this; whoever administers the account can allow it."),
    ("already exists", "Something else has this name. Deploy under another one (--stack), or remove what has it."),
    ("Rate exceeded", "AWS has too many requests of this account just now. Run the command again."),
    ("TooManyRequestsException", "AWS has too many requests of this account just now. Run the command again."),
    ("LimitExceeded", "A quota of the account is used up. Ask for more (Service Quotas), or remove what is not needed."),
    ("Unzipped size must be smaller", "The package is too large for Lambda: give the agents fewer dependencies (`aion build` prints its size)."),
    ("certificate", "Look at CertificateArn: it has to be issued, for DomainName, in this region."),
    ("Unable to locate credentials", "Name a profile (--profile, AWS_PROFILE), or sign in (`aws sso login`)."),
    ("ExpiredToken", "Your AWS credentials have expired. Sign in again (`aws sso login`)."),
    ("does not exist in the template", "template.yaml has no such parameter. Look for a typo; `aion upgrade` brings the newest template."),
)  # fmt: skip
"""Remedies by words of AWS's failure reason; the first match applies."""


def remedy(reason: str, otherwise: str) -> str:
    """Return what to do about AWS's reason."""
    return next((do for words, do in REMEDIES if words in reason), otherwise)
