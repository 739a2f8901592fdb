"""Plan of a deployment: the changes inside of nested stacks, which the emulated CloudFormation does not compute."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from aion_tools.deploy.aws import client_of
from aion_tools.deploy.change_sets import take_plan

ARN = "arn:aws:cloudformation:us-east-1:000000000000:changeSet/mine/1"
NESTED, NESTED_ARN = "AWS::CloudFormation::Stack", f"{ARN}-nested"


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    with Stubber(client_of("cloudformation")) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def change(name: str, kind: str, action: str = "Modify", **more: str) -> dict[str, object]:
    return {"ResourceChange": {"LogicalResourceId": name, "ResourceType": kind, "Action": action, **more}}


OWN = change("Orders", "AWS::DynamoDB::Table", "Add")


def add_preview(cloudformation: Stubber, stack: str, status: str, reason: str = "") -> None:
    """Add the responses from the stack to the end of the wait for the change set with nested change sets."""
    now = datetime.now(UTC)
    found = {"StackName": "mine", "StackId": "mine-id", "StackStatus": stack, "CreationTime": now}
    cloudformation.add_response("describe_stacks", {"Stacks": [found]})
    made = {"ChangeSetId": ARN, "Status": "CREATE_COMPLETE", "CreationTime": now}
    cloudformation.add_response("list_change_sets", {"Summaries": [made]})
    given = {
        "ChangeSetName": "samcli-1",
        "StackName": "mine",
        "Parameters": [{"ParameterKey": "Stage", "ParameterValue": "dev"}],
        "Capabilities": ["CAPABILITY_IAM"],
        "Tags": [{"Key": "app", "Value": "aion"}],
        "Changes": [change("Aion", NESTED), OWN],
    }
    cloudformation.add_response("describe_change_set", given, {"ChangeSetName": ARN})
    asked = {"ChangeSetName": ARN, "TemplateStage": "Original"}
    cloudformation.add_response("get_template", {"TemplateBody": "Resources: {}"}, asked)
    request = {
        "ChangeSetName": "samcli-1-nested",
        "ChangeSetType": "CREATE" if stack == "REVIEW_IN_PROGRESS" else "UPDATE",
        "IncludeNestedStacks": True,
        "TemplateBody": "Resources: {}",
        **{name: given[name] for name in ("StackName", "Parameters", "Capabilities", "Tags")},
    }
    cloudformation.add_response("create_change_set", {"Id": NESTED_ARN}, request)
    cloudformation.add_response("describe_change_set", {"Status": status, "StatusReason": reason})


def test_plan_lists_losses_two_nested_stacks_below(cloudformation: Stubber) -> None:
    add_preview(cloudformation, "REVIEW_IN_PROGRESS", "CREATE_COMPLETE")
    below = [
        (NESTED_ARN, [change("Aion", NESTED, ChangeSetId=f"{ARN}-aion"), OWN]),
        (
            f"{ARN}-aion",
            [
                change("State", NESTED, ChangeSetId=f"{ARN}-state"),
                change("ApiVersion1", "AWS::Lambda::Version", "Remove"),
            ],
        ),
        (
            f"{ARN}-state",
            [
                change("Table", "AWS::DynamoDB::Table", Replacement="True"),
                change("TaskQueue", "AWS::SQS::Queue", Replacement="False"),
            ],
        ),
    ]
    for arn, changes in below:
        cloudformation.add_response("describe_change_set", {"Changes": changes}, {"ChangeSetName": arn})
    for arn in (NESTED_ARN, ARN):
        cloudformation.add_response("delete_change_set", {}, {"ChangeSetName": arn})
    cloudformation.add_response("delete_stack", {}, {"StackName": "mine"})
    plan = take_plan("mine")
    assert [str(each) for each in plan.changes] == [
        "Modify  Aion (AWS::CloudFormation::Stack)",
        "Modify  Aion/State (AWS::CloudFormation::Stack)",
        "Replace Aion/State/Table (AWS::DynamoDB::Table)",
        "Modify  Aion/State/TaskQueue (AWS::SQS::Queue)",
        "Remove  Aion/ApiVersion1 (AWS::Lambda::Version)",
        "Add     Orders (AWS::DynamoDB::Table)",
    ]
    assert [each.path for each in plan.changes if each.loses_data] == ["Aion/State/Table"]


def test_plan_names_reason_if_nested_changes_are_unknown(cloudformation: Stubber) -> None:
    add_preview(cloudformation, "UPDATE_COMPLETE", "FAILED", "Currently in FAILED.")
    cloudformation.add_response("delete_change_set", {}, {"ChangeSetName": NESTED_ARN})
    known = {"Changes": [change("Aion", NESTED), OWN]}
    cloudformation.add_response("describe_change_set", known, {"ChangeSetName": ARN})
    cloudformation.add_response("delete_change_set", {}, {"ChangeSetName": ARN})
    plan = take_plan("mine")
    assert ([each.path for each in plan.changes], plan.unread) == (["Aion", "Orders"], "Currently in FAILED.")
