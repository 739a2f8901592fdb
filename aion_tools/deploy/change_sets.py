"""Planned changes of a stack and of all stacks that it nests."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from botocore.exceptions import WaiterError

from aion_tools.deploy.aws import call, client_of, listed
from aion_tools.deploy.cloudformation import find
from aion_tools.deploy.errors import AwsRefused

_RENEWED = ("AWS::Lambda::Version", "AWS::ApiGateway::Deployment")
"""Types of resources that each deployment makes anew. They hold no data."""


@dataclass(frozen=True)
class ResourceChange:
    """Planned change of one resource."""

    path: str
    """Logical ids of the nested stacks and the resource, such as `Aion/State/Table`."""
    type: str
    action: str
    """CloudFormation's word: Add, Modify, Remove, Import or Dynamic; Replace if it replaces the resource."""

    @property
    def loses_data(self) -> bool:
        """True if the resource, and what it stores, is deleted or replaced."""
        return self.action in ("Remove", "Replace") and self.type not in _RENEWED

    def __str__(self) -> str:
        return f"{self.action:8}{self.path} ({self.type})"


@dataclass(frozen=True)
class StackPlan:
    """Planned changes of a stack."""

    changes: Sequence[ResourceChange]
    unread: str = ""
    """Reason why the changes inside of nested stacks are unknown, or ""."""


def take_plan(name: str) -> StackPlan:
    """Read what the newest change set of the stack would change, also in nested stacks, and delete the change set.

    A change set of SAM CLI names only the nested stack that would change. So another change set of the same template,
    with nested change sets, is created, read and deleted. A stack that exists only for the change set is deleted too.
    """
    cloudformation, stack = client_of("cloudformation"), find(name)
    found = list(listed(cloudformation, "list_change_sets", "Summaries", StackName=name)) if stack else []
    newest = max(found, key=lambda each: each["CreationTime"], default={"Status": ""})
    if stack is None or newest["Status"] != "CREATE_COMPLETE":
        return StackPlan(())  # SAM CLI has said that there are no changes
    is_new = stack.status == "REVIEW_IN_PROGRESS"
    try:
        return _nested(newest["ChangeSetId"], is_new=is_new)
    finally:
        call(cloudformation.delete_change_set, ChangeSetName=newest["ChangeSetId"])
        if is_new:
            call(cloudformation.delete_stack, StackName=name)


def _nested(arn: str, *, is_new: bool) -> StackPlan:
    """Return the changes of a change set by another one with nested change sets, which is deleted afterwards."""
    cloudformation = client_of("cloudformation")
    try:
        preview = _create_preview(arn, is_new=is_new)
        try:
            cloudformation.get_waiter("change_set_create_complete").wait(
                ChangeSetName=preview, WaiterConfig={"Delay": 2, "MaxAttempts": 150}
            )
            return StackPlan(list(_changes(preview)))
        finally:
            call(cloudformation.delete_change_set, ChangeSetName=preview)
    except AwsRefused as error:
        return StackPlan(list(_changes(arn)), error.reason)
    except WaiterError as error:
        return StackPlan(list(_changes(arn)), str(error.last_response.get("StatusReason", error)))


def _create_preview(arn: str, *, is_new: bool) -> str:
    """Create a change set of the same template and parameters with nested change sets. Return its ARN."""
    cloudformation = client_of("cloudformation")
    given = call(cloudformation.describe_change_set, ChangeSetName=arn)
    body = call(cloudformation.get_template, ChangeSetName=arn, TemplateStage="Original")["TemplateBody"]
    preview = call(
        cloudformation.create_change_set,
        StackName=given["StackName"],
        ChangeSetName=f"{given['ChangeSetName']}-nested",
        ChangeSetType="CREATE" if is_new else "UPDATE",
        IncludeNestedStacks=True,
        TemplateBody=body if isinstance(body, str) else json.dumps(body),
        Parameters=[
            {name: each[name] for name in ("ParameterKey", "ParameterValue")} for each in given.get("Parameters", ())
        ],
        Capabilities=given.get("Capabilities", []),
        Tags=given.get("Tags", []),
    )
    return str(preview["Id"])


def _changes(arn: str, above: str = "") -> Iterator[ResourceChange]:
    """Yield the change of each resource. The changes of a nested change set follow the change of its stack."""
    for each in listed(client_of("cloudformation"), "describe_change_set", "Changes", ChangeSetName=arn):
        change = each["ResourceChange"]
        path = f"{above}{change['LogicalResourceId']}"
        action = "Replace" if change.get("Replacement") == "True" else change["Action"]
        yield ResourceChange(path, change["ResourceType"], action)
        if nested := change.get("ChangeSetId"):
            yield from _changes(nested, f"{path}/")
