"""CloudFormation stacks and change sets, with their status, nested resources, events and first failures."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aion_tools.deploy.aws import call, client_of, listed
from aion_tools.deploy.errors import AwsRefused, DeployError, remedy
from aion_tools.template.file import parsed

NESTED = "AWS::CloudFormation::Stack"
RETAINED = ("Retain", "RetainExceptOnCreate")
PAUSE_SECONDS = 2.0
"""Seconds between two requests for the status of a changing stack."""

# Beginnings of CloudFormation's reasons for resources that it cancels because another resource has failed.
_CONSEQUENCES = ("Resource creation cancelled", "Resource update cancelled")

_IN_PROGRESS = "_IN_PROGRESS"


@dataclass(frozen=True)
class CloudFormationStack:
    """A CloudFormation stack with its status, parameters and outputs."""

    name: str
    id: str
    status: str
    parameters: dict[str, str]
    outputs: dict[str, str]
    is_protected: bool
    """True if the stack has termination protection."""

    @property
    def is_changing(self) -> bool:
        """True while CloudFormation creates, updates or deletes the stack."""
        return self.status.endswith(_IN_PROGRESS) and self.status != "REVIEW_IN_PROGRESS"


@dataclass(frozen=True)
class Resource:
    """A resource of a CloudFormation stack or of its nested stacks."""

    path: str
    """Logical ids of the nested stacks and the resource, such as `State/Table`."""
    type: str
    physical_id: str
    status: str
    is_retained: bool
    """True if the template retains the resource when the stack is deleted."""


@dataclass(frozen=True)
class StackEvent:
    """A CloudFormation event of a resource, with the resource's new status."""

    id: str
    path: str
    type: str
    physical_id: str
    status: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.status}{self.reason and f': {self.reason}'}"


def find(name: str) -> CloudFormationStack | None:
    """Return the stack with this name or id, or None if it does not exist. A deleted stack is found by its id only."""
    try:
        (found,) = call(client_of("cloudformation").describe_stacks, StackName=name)["Stacks"]
    except AwsRefused as error:
        if error.code == "ValidationError" and "does not exist" in error.reason:
            return None
        raise
    return CloudFormationStack(
        found["StackName"],
        found["StackId"],
        found["StackStatus"],
        {each["ParameterKey"]: each.get("ParameterValue", "") for each in found.get("Parameters", [])},
        {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])},
        bool(found.get("EnableTerminationProtection")),
    )


def deleted(name: str) -> list[str]:
    """Return the ids of the deleted stacks with this name, newest first. CloudFormation lists them for 90 days."""
    found = [
        each
        for each in listed(
            client_of("cloudformation"), "list_stacks", "StackSummaries", StackStatusFilter=["DELETE_COMPLETE"]
        )
        # Leave out nested stacks: their names only begin with the parent's name, but they also have a ParentId.
        if each["StackName"] == name and not each.get("ParentId")
    ]
    return [each["StackId"] for each in sorted(found, key=lambda each: each["CreationTime"], reverse=True)]


def resources(stack_id: str, above: str = "") -> Iterator[Resource]:
    """Yield the resources of an existing stack and of its nested stacks."""
    cloudformation = client_of("cloudformation")
    policies = _policies(cloudformation, stack_id)
    for each in listed(cloudformation, "list_stack_resources", "StackResourceSummaries", StackName=stack_id):
        name, physical_id = each["LogicalResourceId"], each.get("PhysicalResourceId", "")
        path = f"{above}{name}"
        yield Resource(path, each["ResourceType"], physical_id, each["ResourceStatus"], policies.get(name) in RETAINED)
        if each["ResourceType"] == NESTED and physical_id:
            yield from resources(physical_id, f"{path}/")


def retained_by_deletion(stack_id: str, above: str = "") -> Iterator[Resource]:
    """Yield the resources retained by the deletion of the stack and of its nested stacks.

    They are read from events, since CloudFormation keeps the events of a deleted stack for 90 days.
    """
    nested: dict[str, str] = {}
    for event in _events(stack_id, above=above):
        if event.status == "DELETE_SKIPPED":
            yield Resource(event.path, event.type, event.physical_id, event.status, is_retained=True)
        # Skip the stack's own events, which have the stack's id as their physical id.
        if event.type == NESTED and event.physical_id not in ("", stack_id):
            nested[event.physical_id] = event.path
    for physical_id, path in nested.items():
        yield from retained_by_deletion(physical_id, f"{path}/")


def template_resource_ids(stack_id: str) -> set[str]:
    """Return the logical ids of the resources in the stack's template, without the resources of nested stacks."""
    return set(_template(client_of("cloudformation"), stack_id))


def _policies(cloudformation: Any, stack_id: str) -> dict[str, str]:
    """Return the deletion policy of each resource in the stack's template, by logical id."""
    return {name: each.get("DeletionPolicy", "") for name, each in _template(cloudformation, stack_id).items()}


def _template(cloudformation: Any, stack_id: str) -> dict[str, Any]:
    """Return the resources in the stack's template by logical id, after the template's transforms."""
    try:
        body = call(cloudformation.get_template, StackName=stack_id, TemplateStage="Processed")["TemplateBody"]
    except AwsRefused as error:
        # Return no resources: the stack has no template before its first change set is executed.
        if error.code == "ValidationError":
            return {}
        raise
    document = parsed(body) if isinstance(body, str) else body
    return document.get("Resources") or {}


def last_event(stack_id: str) -> str:
    """Return the id of the newest event of the stack."""
    return next((event.id for event in _events(stack_id)), "")


def failures(stack_id: str, since: str = "", above: str = "") -> list[StackEvent]:
    """Return the failure events after the event `since`, oldest first, without events of cancelled resources.

    Failures of resources in a nested stack replace the failure of the nested stack itself.
    """
    found: list[StackEvent] = []
    for event in reversed(list(_events(stack_id, since, above))):
        is_own = event.physical_id == stack_id
        if not event.status.endswith("_FAILED") or event.reason.startswith(_CONSEQUENCES) or is_own:
            continue
        below = event.type == NESTED and event.physical_id
        nested = failures(event.physical_id, above=f"{event.path}/") if below else []
        found += nested or [event]
    return found


def _events(stack_id: str, since: str = "", above: str = "") -> Iterator[StackEvent]:
    """Yield the stack's events that follow the event with the id `since`, newest first."""
    for each in listed(client_of("cloudformation"), "describe_stack_events", "StackEvents", StackName=stack_id):
        if each["EventId"] == since:
            return
        yield StackEvent(
            each["EventId"],
            f"{above}{each['LogicalResourceId']}",
            each["ResourceType"],
            each.get("PhysicalResourceId", ""),
            each["ResourceStatus"],
            each.get("ResourceStatusReason", ""),
        )


def wait_until_settled(
    stack_id: str, since: str, report: Callable[[StackEvent], None], *, pause: float = PAUSE_SECONDS
) -> CloudFormationStack:
    """Wait until CloudFormation no longer changes the stack, and return the stack. `report` receives each new event."""
    seen = since
    while True:
        # Read the status before the events. Otherwise an event between the two reads, such as the last one, would not
        # be reported.
        stack = find(stack_id)
        news = list(_events(stack_id, seen))
        for event in reversed(news):
            report(event)
        seen = news[0].id if news else seen
        if stack is not None and not stack.is_changing:
            return stack
        time.sleep(pause)


WORDS = {
    "Add": "to create",
    "Modify": "to change",
    "Remove": "to delete",
    "Import": "to import",
    "Dynamic": "to change or not",
}
MOST_FAILURES = 4
NEVER_CREATED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED")
"""Statuses of a stack after its first creation has failed. Such a stack can only be deleted."""
_SUCCEEDED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


@dataclass(frozen=True)
class ChangeSet:
    """Planned changes of a CloudFormation stack, not executed yet."""

    arn: str
    counts: Counter[str]
    """Number of resources for each action of CloudFormation, such as Add, Modify and Remove."""
    lost: list[str]
    """Lines of text: one for each resource that would be deleted or replaced, so that its data would be lost."""

    def __str__(self) -> str:
        return ", ".join(f"{self.counts[action]} {words}" for action, words in WORDS.items() if self.counts[action])


def read(arn: str) -> ChangeSet:
    """Read the change set with this ARN from CloudFormation."""
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
