"""Reasons of a failed deployment, which are in the events of nested stacks."""

from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from aion_tools.deploy.aws import client_of
from aion_tools.deploy.cloudformation import CloudFormationStack
from aion_tools.deploy.failures import failure_of

NESTED = "AWS::CloudFormation::Stack"


def event(
    number: int, name: str, status: str, physical_id: str, reason: str = "", kind: str = NESTED
) -> dict[str, object]:
    return {
        "StackId": "any",
        "StackName": "any",
        "EventId": str(number),
        "Timestamp": datetime.fromtimestamp(number, UTC),
        "LogicalResourceId": name,
        "PhysicalResourceId": physical_id,
        "ResourceType": kind,
        "ResourceStatus": status,
        "ResourceStatusReason": reason,
    }


def test_failure_of_nested_stack_names_reason_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the events of a new stack, which a rollback has deleted, without those of an earlier operation."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    told = "Specified ReservedConcurrentExecutions decreases account's UnreservedConcurrentExecution below its minimum"
    below = [
        event(9, "Aion", "DELETE_IN_PROGRESS", "aion-id"),
        event(6, "TaskFunction", "CREATE_FAILED", "", "Resource creation cancelled", "AWS::Lambda::Function"),
        event(5, "ApiFunction", "CREATE_FAILED", "", told, "AWS::Lambda::Function"),
        event(4, "Aion", "CREATE_IN_PROGRESS", "aion-id"),
    ]
    above = [
        event(10, "mine", "UPDATE_ROLLBACK_COMPLETE", "mine-id"),
        event(8, "mine", "UPDATE_ROLLBACK_IN_PROGRESS", "mine-id"),
        event(7, "Aion", "CREATE_FAILED", "aion-id", "Embedded stack was not successfully created"),
        event(3, "mine", "UPDATE_IN_PROGRESS", "mine-id"),
        event(2, "Orders", "UPDATE_FAILED", "orders", "An earlier failure", "AWS::DynamoDB::Table"),
    ]
    with Stubber(client_of("cloudformation")) as cloudformation:
        for events in (above, below):
            cloudformation.add_response("describe_stack_events", {"StackEvents": events})
        failure = failure_of(CloudFormationStack("mine", "mine-id", "UPDATE_ROLLBACK_COMPLETE", {}, {}))
        cloudformation.assert_no_pending_responses()
    assert failure is not None
    assert failure.lines == (f"Aion/ApiFunction: CREATE_FAILED: {told}",)
    assert failure.next_step.startswith("--parameter ApiConcurrency=0 avoids this limit")
    assert failure.next_step.endswith("Correct the cause and run `aion deploy` again.")


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "UPDATE_IN_PROGRESS"])
def test_stack_without_failure_has_none(status: str) -> None:
    assert failure_of(CloudFormationStack("mine", "mine-id", status, {}, {})) is None
