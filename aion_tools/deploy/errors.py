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


REMEDIES = (
    (
        "ReservedConcurrentExecutions",
        "Your account's limit of concurrent executions is too low. Deploy with --parameter ApiConcurrency=0, or ask for more "
        '(Service Quotas, AWS Lambda, "Concurrent executions"; it is free).',
    ),
    (
        "MaximumConcurrency",
        "Your account's limit of concurrent executions is too low. Deploy with --parameter TaskConcurrency=2 --parameter PushConcurrency=2.",
    ),
    ("is not authorized to perform", "Your AWS credentials lack a permission. Ask the account's administrator for it."),
    ("AccessDenied", "Your AWS credentials lack a permission. Ask the account's administrator for it."),
    ("already exists", "Another resource has this name. Deploy under another name (--stack), or remove the resource."),
    ("Rate exceeded", "AWS throttles this account's requests. Run the command again."),
    ("TooManyRequestsException", "AWS throttles this account's requests. Run the command again."),
    ("LimitExceeded", "A quota of the account is used up. Ask for more (Service Quotas), or remove unused resources."),
    ("Unzipped size must be smaller", "The package is too large for Lambda: give the agents fewer dependencies (`aion build` prints its size)."),
    ("certificate", "Check CertificateArn: the certificate has to be issued, for DomainName, in this region."),
    ("Unable to locate credentials", "Name a profile (--profile, AWS_PROFILE), or sign in (`aws sso login`)."),
    ("ExpiredToken", "Your AWS credentials have expired. Sign in again (`aws sso login`)."),
    ("does not exist in the template", "template.yaml has no such parameter. Check its spelling."),
)  # fmt: skip
"""Pairs of a text to search for in AWS's reason of a failure, and the remedy. The first matching pair applies."""


def remedy(reason: str, otherwise: str) -> str:
    """Return the remedy for AWS's reason of a failure, or `otherwise` if no remedy is known."""
    return next((text for words, text in REMEDIES if words in reason), otherwise)
