"""Why the last operation of a stack has failed, and the operator's next step."""

from collections.abc import Iterator
from typing import Any

from aion_tools.deploy.aws import client_of, listed
from aion_tools.deploy.cloudformation import NESTED, CloudFormationStack
from aion_tools.deploy.errors import DeployError

MOST_FAILURES = 4
REFUSED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED")
"""Statuses of a stack that no deployment can update."""

_NEVER_CREATED = (
    "its creation failed, so it cannot be updated",
    "Run `aion destroy --stack {0} --data`, then `aion deploy` again.",
)
_WITHOUT_ROLLBACK = (
    "an operation without rollback failed",
    "Correct the cause and run `aion deploy` again with `disable_rollback = true` in samconfig.toml, or run `aws "
    "cloudformation rollback-stack --stack-name {0}`.",
)
_PROBLEMS = {
    "ROLLBACK_COMPLETE": _NEVER_CREATED,
    "ROLLBACK_FAILED": _NEVER_CREATED,
    "CREATE_FAILED": _WITHOUT_ROLLBACK,
    "UPDATE_FAILED": _WITHOUT_ROLLBACK,
    "DELETE_FAILED": (
        "its deletion failed",
        "Correct the cause, run `aion destroy --stack {0}` to finish it, then `aion deploy` again.",
    ),
    "UPDATE_ROLLBACK_COMPLETE": (
        "its last deployment failed, and was rolled back",
        "Correct the cause and run `aion deploy` again.",
    ),
    "UPDATE_ROLLBACK_FAILED": (
        "an update and its rollback failed",
        "Correct the cause, then run `aws cloudformation continue-update-rollback --stack-name {0}`.",
    ),
}
"""Description and next step for each status of a stack after a failure."""
_REMEDIES = {
    "ReservedConcurrentExecutions": "--parameter ApiConcurrency=0 avoids this limit of a new account (docs/deploy.md).",
    "MaximumConcurrency": "--parameter TaskConcurrency=2 --parameter PushConcurrency=2 avoid this limit of a new account.",
    "is not authorized to perform": "Your AWS credentials lack this permission.",
    "already exists": "Another resource has this name: deploy under another name (--stack), or remove the resource.",
    "LimitExceeded": "A quota of the account is used up: ask for more (Service Quotas), or remove unused resources.",
    "certificate": "CertificateArn has to be an issued certificate, for DomainName, in this region.",
}
"""Remedies, by words in CloudFormation's reason of a failure."""
# Beginnings of CloudFormation's reasons for resources that it cancels because another resource has failed.
_CONSEQUENCES = ("Resource creation cancelled", "Resource update cancelled")


def failure_of(stack: CloudFormationStack) -> DeployError | None:
    """Return the failure of the stack's last operation, with its reasons and the next step, or None if it succeeded."""
    if stack.status not in _PROBLEMS:
        return None
    what, next_step = _PROBLEMS[stack.status]
    lines = list(_reasons(stack.id))
    remedy = next((f"{text} " for words, text in _REMEDIES.items() if words in " ".join(lines)), "")
    return DeployError(
        f"The stack {stack.name} is {stack.status}: {what}.",
        lines=lines[:MOST_FAILURES],
        next_step=remedy + next_step.format(stack.name),
    )


def last_event(stack_id: str) -> str:
    """Return the id of the stack's newest event."""
    return str(next(_events(stack_id))["EventId"])


def _reasons(stack_id: str, above: str = "") -> Iterator[str]:
    """Yield the failures of the stack's last operation, oldest first, without those of cancelled resources.

    The failures inside of a nested stack replace that of the nested stack itself.
    """
    failed = []
    # A nested stack is deleted by the rollback of its creation, which is the operation that has failed.
    starts = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", *(() if above else ("DELETE_IN_PROGRESS",)))
    for event in _events(stack_id):
        is_own, status = event.get("PhysicalResourceId") == stack_id, event["ResourceStatus"]
        if is_own and status in starts:
            break
        if not is_own and status.endswith("_FAILED"):
            failed.append(event)
    for event in reversed(failed):
        path, reason = f"{above}{event['LogicalResourceId']}", event.get("ResourceStatusReason", "")
        if reason.startswith(_CONSEQUENCES):
            continue
        nested = event.get("PhysicalResourceId") if event["ResourceType"] == NESTED else ""
        below = list(_reasons(nested, f"{path}/")) if nested else []
        yield from below or [f"{path}: {event['ResourceStatus']}{reason and f': {reason}'}"]


def _events(stack_id: str) -> Iterator[dict[str, Any]]:
    """Yield the stack's events, newest first."""
    yield from listed(client_of("cloudformation"), "describe_stack_events", "StackEvents", StackName=stack_id)
