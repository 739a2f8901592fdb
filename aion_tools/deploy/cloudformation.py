"""CloudFormation stacks, with their status, nested resources, events and first failures."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aion_tools.deploy.aws import call, client_of, listed
from aion_tools.deploy.errors import AwsRefused
from aion_tools.template.file import parsed

NESTED = "AWS::CloudFormation::Stack"
APPLICATION = "Aion"
"""Logical id of the nested stack with the functions, in the template.yaml of a project."""
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


def application(stack: CloudFormationStack) -> CloudFormationStack:
    """Return the stack with the functions: the stack's nested stack `Aion`, or the stack itself if it has none."""
    client = client_of("cloudformation")
    try:
        found = call(client.describe_stack_resource, StackName=stack.id, LogicalResourceId=APPLICATION)
    except AwsRefused as error:
        if error.code == "ValidationError":  # there is no such resource
            return stack
        raise
    nested = found["StackResourceDetail"]
    if nested["ResourceType"] != NESTED or nested["ResourceStatus"] == "DELETE_COMPLETE":
        return stack
    # A nested stack whose creation has just failed may have no id yet.
    return (find(nested["PhysicalResourceId"]) if nested.get("PhysicalResourceId") else None) or stack


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


def template_resource_types(stack_id: str) -> dict[str, str]:
    """Return the types of the resources in the stack's template by logical id, without those of nested stacks."""
    return {name: each["Type"] for name, each in _template(client_of("cloudformation"), stack_id).items()}


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
