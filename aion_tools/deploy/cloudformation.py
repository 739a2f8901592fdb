"""CloudFormation stacks with their status and resources."""

from collections.abc import Iterator
from dataclasses import dataclass

from aion_tools.deploy.aws import call, client_of, listed
from aion_tools.deploy.errors import AwsRefused

NESTED = "AWS::CloudFormation::Stack"
APPLICATION = "Aion"
"""Logical id of the nested stack with the functions, in the template.yaml of a project."""


@dataclass(frozen=True)
class CloudFormationStack:
    """A CloudFormation stack with its status, parameters and outputs."""

    name: str
    id: str
    status: str
    parameters: dict[str, str]
    outputs: dict[str, str]

    @property
    def is_changing(self) -> bool:
        """True while CloudFormation creates, updates or deletes the stack."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"


@dataclass(frozen=True)
class Resource:
    """A resource of a CloudFormation stack or of its nested stacks."""

    path: str
    """Logical ids of the nested stacks and the resource, such as `State/Table`."""
    type: str
    physical_id: str
    status: str


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


def last_deleted(name: str) -> str:
    """Return the id of the last deleted stack with this name, or "". CloudFormation lists deleted stacks for 90 days."""
    found = listed(client_of("cloudformation"), "list_stacks", "StackSummaries", StackStatusFilter=["DELETE_COMPLETE"])
    named = [each for each in found if each["StackName"] == name]
    return str(max(named, key=lambda each: each["CreationTime"])["StackId"]) if named else ""


def resources(stack_id: str, above: str = "") -> Iterator[Resource]:
    """Yield the resources of a stack, existing or deleted, and of its nested stacks."""
    client = client_of("cloudformation")
    for each in listed(client, "list_stack_resources", "StackResourceSummaries", StackName=stack_id):
        path, physical_id = f"{above}{each['LogicalResourceId']}", each.get("PhysicalResourceId", "")
        yield Resource(path, each["ResourceType"], physical_id, each["ResourceStatus"])
        if each["ResourceType"] == NESTED and physical_id:
            yield from resources(physical_id, f"{path}/")
