"""A change set: summed up for people, executed, or thrown away."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from aion_core.deploy import stacks
from aion_core.deploy.aws import call, client_of, listed
from aion_core.deploy.errors import DeployError, remedy
from aion_core.deploy.stacks import PAUSE_SECONDS, Event, Stack

WORDS = {
    "Add": "to create",
    "Modify": "to change",
    "Remove": "to delete",
    "Import": "to import",
    "Dynamic": "to look at",
}
MOST_FAILURES = 4
NEVER_CREATED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED")
"""Statuses of a stack whose first creation failed: it can only be deleted."""
_WELL = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


@dataclass(frozen=True)
class ChangeSet:
    """Changes that CloudFormation has worked out for a stack and not made yet."""

    arn: str
    counts: Counter[str]
    """Numbers of resources that it creates, changes and deletes."""
    lost: list[str]
    """The resources that it deletes or replaces, and so what they hold."""

    def __str__(self) -> str:
        return ", ".join(f"{self.counts[action]} {told}" for action, told in WORDS.items() if self.counts[action])


def read(arn: str) -> ChangeSet:
    """Return the change set of this ARN."""
    counts: Counter[str] = Counter()
    lost = []
    for each in listed(client_of("cloudformation"), "describe_change_set", "Changes", ChangeSetName=arn):
        change = each["ResourceChange"]
        counts[change["Action"]] += 1
        name = f"{change['LogicalResourceId']} ({change['ResourceType']})"
        if change["Action"] == "Remove":
            lost.append(f"{name} is deleted")
        elif change.get("Replacement") == "True":
            lost.append(f"{name} is replaced")
    return ChangeSet(arn, counts, lost)


def discard(arn: str, name: str) -> None:
    """Delete the change set, and its stack if the change set would have created it."""
    cloudformation = client_of("cloudformation")
    call(cloudformation.delete_change_set, ChangeSetName=arn)
    stack = stacks.find(name)
    if stack is not None and stack.status == "REVIEW_IN_PROGRESS":
        call(cloudformation.delete_stack, StackName=stack.id)


def execute(arn: str, name: str, tell: Callable[[Event], None], *, pause: float = PAUSE_SECONDS) -> Stack:
    """Execute the change set and wait; return the stack. Raises DeployError with the first failures."""
    before = stacks.find(name)
    if before is None:
        raise DeployError(f"The stack {name} is gone.", do="Run `aion deploy` again.")
    since = stacks.last_event(before.id)
    # A rollback deletes new resources, also a new table or key with a Retain policy: it is empty.
    call(client_of("cloudformation").execute_change_set, ChangeSetName=arn, RetainExceptOnCreate=True)
    stack = stacks.settled(before.id, since, tell, pause=pause)
    if stack.status in _WELL:
        return stack
    failed = [str(event) for event in stacks.failures(stack.id, since)]
    is_new = stack.status.startswith(("ROLLBACK", "CREATE", "DELETE"))
    what = f"The stack {name} could not be {'created' if is_new else 'updated'}; it is {stack.status} now."
    raise DeployError(what, lines=failed[:MOST_FAILURES], do=remedy(" ".join(failed), _next(stack)))


def _next(stack: Stack) -> str:
    """Return what to do about a stack whose creation or update has failed."""
    if stack.status == "UPDATE_ROLLBACK_FAILED":
        return f"Mend that, then `aws cloudformation continue-update-rollback --stack-name {stack.name}`."
    if stack.status in NEVER_CREATED:
        return f"Mend it, remove the rest with `aion destroy --stack {stack.name} --data`, and run `aion deploy` again."
    return "Mend it, and run `aion deploy` again."


def check_deployable(stack: Stack | None) -> None:
    """Raise DeployError for a stack that CloudFormation would refuse to deploy to."""
    if stack is None:
        return
    if stack.is_changing:
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: an operation is under way.",
            do="Wait until it is over, and run `aion deploy` again.",
        )
    if stack.status == "DELETE_FAILED":
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: its deletion stopped half way.",
            lines=[str(event) for event in stacks.failures(stack.id)][:MOST_FAILURES],
            do=f"Run `aion destroy --stack {stack.name}`, which goes on, and then `aion deploy` again.",
        )
    if stack.status in NEVER_CREATED:
        failed = [str(event) for event in stacks.failures(stack.id)]
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: it was never created as a whole, and cannot be updated.",
            lines=failed[:MOST_FAILURES],
            do=f"Run `aion destroy --stack {stack.name} --data`, and then `aion deploy` again.",
        )
    if stack.status == "UPDATE_ROLLBACK_FAILED":
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: an update failed, and so did the way back.",
            lines=[str(event) for event in stacks.failures(stack.id)][:MOST_FAILURES],
            do=_next(stack),
        )
