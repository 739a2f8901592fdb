"""Change sets of CloudFormation: planned changes of a stack, and their execution."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import WaiterError

from aion_tools.deploy.aws import call, client_of, listed
from aion_tools.deploy.cloudformation import (
    NESTED,
    PAUSE_SECONDS,
    CloudFormationStack,
    StackEvent,
    failures,
    find,
    last_event,
    wait_until_settled,
)
from aion_tools.deploy.errors import AwsRefused, DeployError, remedy

WORDS = {
    "Add": "to create",
    "Modify": "to change",
    "Remove": "to delete",
    "Import": "to import",
    "Dynamic": "to change or not",
}

_RENEWED = ("AWS::Lambda::Version", "AWS::ApiGateway::Deployment")
"""Types of resources that each deployment makes anew. They hold no data, so they would hide a lost table in the list."""
MOST_FAILURES = 4
NEVER_CREATED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED")
"""Statuses of a stack after its first creation has failed. Such a stack can only be deleted."""
_SUCCEEDED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


@dataclass(frozen=True)
class ChangeSet:
    """Planned changes of a CloudFormation stack and of its nested stacks, not executed yet."""

    counts: Counter[str]
    """Number of resources for each action of CloudFormation, such as Add, Modify and Remove."""
    lost: list[str]
    """Lines of text: one for each resource that would be deleted or replaced, so that its data would be lost."""
    unread: str = ""
    """Reason why the changes inside of nested stacks are unknown, or ""."""

    def __str__(self) -> str:
        return ", ".join(f"{self.counts[action]} {words}" for action, words in WORDS.items() if self.counts[action])


def read(arn: str) -> ChangeSet:
    """Read the change set with this ARN, and let CloudFormation compute the changes inside of nested stacks.

    A change set of SAM CLI names only the nested stack that would change. So another change set of the same template,
    with nested change sets, is created, read and deleted. SAM's is the one to execute, as `sam deploy` does.
    """
    found = list(_changes(arn))
    if not any(each["ResourceType"] == NESTED and each["Action"] == "Modify" for _, each in found):
        return _summary(found)
    cloudformation = client_of("cloudformation")
    try:
        preview = _create_preview(arn)
        try:
            cloudformation.get_waiter("change_set_create_complete").wait(
                ChangeSetName=preview, WaiterConfig={"Delay": PAUSE_SECONDS, "MaxAttempts": 150}
            )
            return _summary(_changes(preview))
        finally:
            call(cloudformation.delete_change_set, ChangeSetName=preview)
    except AwsRefused as error:
        return _summary(found, unread=error.reason)
    except WaiterError as error:
        return _summary(found, unread=str(error.last_response.get("StatusReason", error)))


def _create_preview(arn: str) -> str:
    """Create a change set of the same template and parameters with nested change sets. Return its ARN."""
    cloudformation = client_of("cloudformation")
    given = call(cloudformation.describe_change_set, ChangeSetName=arn)
    body = call(cloudformation.get_template, ChangeSetName=arn, TemplateStage="Original")["TemplateBody"]
    preview = call(
        cloudformation.create_change_set,
        StackName=given["StackId"],
        ChangeSetName=f"{given['ChangeSetName']}-nested",
        ChangeSetType="UPDATE",
        IncludeNestedStacks=True,
        TemplateBody=body if isinstance(body, str) else json.dumps(body),
        Parameters=[
            {name: each[name] for name in ("ParameterKey", "ParameterValue")} for each in given.get("Parameters", ())
        ],
        Capabilities=given.get("Capabilities", []),
        Tags=given.get("Tags", []),
    )
    return str(preview["Id"])


def _changes(arn: str, above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and change of each resource. A nested change set is yielded instead of the change of its stack."""
    for each in listed(client_of("cloudformation"), "describe_change_set", "Changes", ChangeSetName=arn):
        change = each["ResourceChange"]
        path = f"{above}{change['LogicalResourceId']}"
        if nested := change.get("ChangeSetId"):
            yield from _changes(nested, f"{path}/")
        else:
            yield path, change


def _summary(changes: Iterable[tuple[str, dict[str, Any]]], unread: str = "") -> ChangeSet:
    counts: Counter[str] = Counter()
    lost = []
    for path, change in changes:
        counts[change["Action"]] += 1
        if change["ResourceType"] in _RENEWED:
            continue
        if change["Action"] == "Remove":
            lost.append(f"{path} ({change['ResourceType']}) is deleted")
        elif change.get("Replacement") == "True":
            lost.append(f"{path} ({change['ResourceType']}) is replaced")
    return ChangeSet(counts, lost, unread)


def discard(arn: str, name: str) -> None:
    """Delete the change set. Delete its stack too if the change set would have created it."""
    cloudformation = client_of("cloudformation")
    call(cloudformation.delete_change_set, ChangeSetName=arn)
    stack = find(name)
    if stack is not None and stack.status == "REVIEW_IN_PROGRESS":
        call(cloudformation.delete_stack, StackName=stack.id)


def execute(
    arn: str,
    name: str,
    report: Callable[[StackEvent], None],
    *,
    disables_rollback: bool = False,
    pause: float = PAUSE_SECONDS,
) -> CloudFormationStack:
    """Execute the change set, wait for its end, and return the stack. Raises DeployError with the first failures.

    With `disables_rollback`, CloudFormation keeps the resources that it has created or changed before a failure.
    """
    before = find(name)
    if before is None:
        raise DeployError(f"The stack {name} is gone.", next_step="Run `aion deploy` again.")
    since = last_event(before.id)
    # Let a rollback also delete new resources with the policy Retain, such as tables and keys, because they are still
    # empty.
    more = {"DisableRollback": True} if disables_rollback else {}
    call(client_of("cloudformation").execute_change_set, ChangeSetName=arn, RetainExceptOnCreate=True, **more)
    stack = wait_until_settled(before.id, since, report, pause=pause)
    if stack.status in _SUCCEEDED:
        return stack
    failed = [str(event) for event in failures(stack.id, since)]
    is_new = stack.status.startswith(("ROLLBACK", "CREATE", "DELETE"))
    what = f"The stack {name} could not be {'created' if is_new else 'updated'}; it is {stack.status} now."
    raise DeployError(
        what, lines=failed[:MOST_FAILURES], next_step=remedy(" ".join(failed), _next(stack, disables_rollback))
    )


def _next(stack: CloudFormationStack, disables_rollback: bool) -> str:
    """Return the next step for the operator after a failed creation or update of the stack."""
    if stack.status == "UPDATE_FAILED" or (stack.status == "CREATE_FAILED" and disables_rollback):
        return (
            "Fix the cause and run `aion deploy` again with `disable_rollback = true` in samconfig.toml, or run `aws "
            f"cloudformation rollback-stack --stack-name {stack.name}`."
        )
    if stack.status == "UPDATE_ROLLBACK_FAILED":
        return f"Fix the cause, then run `aws cloudformation continue-update-rollback --stack-name {stack.name}`."
    if stack.status in NEVER_CREATED:
        return f"Fix the cause, remove the remaining resources with `aion destroy --stack {stack.name} --data`, and run `aion deploy` again."
    return "Fix the cause and run `aion deploy` again."


def check_deployable(stack: CloudFormationStack | None, *, disables_rollback: bool = False) -> None:
    """Raise DeployError, with the next step, if CloudFormation would refuse a deployment to the existing stack."""
    # Only a deployment without rollback can update a stack whose last deployment was not rolled back.
    if stack is None or (disables_rollback and stack.status in ("CREATE_FAILED", "UPDATE_FAILED")):
        return
    if stack.is_changing:
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: an operation is in progress.",
            next_step="Wait for its end, then run `aion deploy` again.",
        )
    if stack.status == "DELETE_FAILED":
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: its deletion failed.",
            lines=[str(event) for event in failures(stack.id)][:MOST_FAILURES],
            next_step=f"Run `aion destroy --stack {stack.name}` to finish it, then `aion deploy` again.",
        )
    if stack.status in NEVER_CREATED:
        failed = [str(event) for event in failures(stack.id)]
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: its creation failed, so it cannot be updated.",
            lines=failed[:MOST_FAILURES],
            next_step=f"Run `aion destroy --stack {stack.name} --data`, then `aion deploy` again.",
        )
    if stack.status in ("UPDATE_FAILED", "UPDATE_ROLLBACK_FAILED"):
        what = "an update and its rollback" if "ROLLBACK" in stack.status else "an update without rollback"
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: {what} failed.",
            lines=[str(event) for event in failures(stack.id)][:MOST_FAILURES],
            next_step=_next(stack, disables_rollback),
        )
