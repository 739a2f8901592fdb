"""Change sets: nested changes, and execution. tests/tools/e2e/test_deploy.py deploys to an emulated CloudFormation."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from botocore.stub import Stubber

from aion_tools.deploy.aws import client_of
from aion_tools.deploy.change_sets import check_deployable, execute, read
from aion_tools.deploy.cloudformation import find
from aion_tools.deploy.errors import DeployError
from aion_tools.deploy.samconfig import SamConfig

ARN = "arn:aws:cloudformation:us-east-1:000000000000:changeSet/mine/1"


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Stubber:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    return Stubber(client_of("cloudformation"))


def add_stack(cloudformation: Stubber, status: str) -> None:
    stack = {"StackName": "mine", "StackId": "mine-id", "StackStatus": status, "CreationTime": datetime.now(UTC)}
    cloudformation.add_response("describe_stacks", {"Stacks": [stack]})


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("disable_rollback = true", {"DisableRollback": True}),
        ("on_failure = 'DO_NOTHING'", {"DisableRollback": True}),
        ("disable_rollback = false", {}),
    ],
)
def test_samconfig_can_disable_rollback(
    tmp_path: Path, cloudformation: Stubber, option: str, more: dict[str, bool]
) -> None:
    (tmp_path / "samconfig.toml").write_text(f"[default.deploy.parameters]\n{option}\n")
    saved = SamConfig.read(tmp_path / "samconfig.toml")
    add_stack(cloudformation, "REVIEW_IN_PROGRESS")
    cloudformation.add_response("describe_stack_events", {"StackEvents": []})
    cloudformation.add_response("execute_change_set", {}, {"ChangeSetName": ARN, "RetainExceptOnCreate": True, **more})
    add_stack(cloudformation, "UPDATE_FAILED")
    for _ in range(2):
        cloudformation.add_response("describe_stack_events", {"StackEvents": []})
    with cloudformation, pytest.raises(DeployError, match="is UPDATE_FAILED now"):
        execute(ARN, "mine", lambda event: None, disables_rollback=saved.disables_rollback)
    cloudformation.assert_no_pending_responses()


@pytest.mark.parametrize("status", ["CREATE_FAILED", "UPDATE_FAILED"])
def test_failed_stack_is_deployable_only_without_rollback(cloudformation: Stubber, status: str) -> None:
    add_stack(cloudformation, status)
    cloudformation.add_response("describe_stack_events", {"StackEvents": []})
    with cloudformation:
        stack = find("mine")
        check_deployable(stack, disables_rollback=True)
        with pytest.raises(DeployError, match=f"is {status}"):
            check_deployable(stack)


def change(name: str, kind: str, action: str = "Modify", **more: str) -> dict[str, object]:
    return {"ResourceChange": {"LogicalResourceId": name, "ResourceType": kind, "Action": action, **more}}


NESTED, NESTED_ARN = "AWS::CloudFormation::Stack", f"{ARN}-nested"
OWN = change("Orders", "AWS::DynamoDB::Table", "Add")


def add_preview(cloudformation: Stubber, status: str, reason: str = "") -> None:
    """Add the responses from the change set of SAM CLI to the end of the wait for the one with nested change sets."""
    given = {
        "ChangeSetName": "samcli-1",
        "StackId": "mine-id",
        "Parameters": [{"ParameterKey": "Stage", "ParameterValue": "dev"}],
        "Capabilities": ["CAPABILITY_IAM"],
        "Tags": [{"Key": "app", "Value": "aion"}],
        "Changes": [change("Aion", NESTED), OWN],
    }
    for _ in range(2):
        cloudformation.add_response("describe_change_set", given, {"ChangeSetName": ARN})
    asked = {"ChangeSetName": ARN, "TemplateStage": "Original"}
    cloudformation.add_response("get_template", {"TemplateBody": "Resources: {}"}, asked)
    request = {
        "StackName": "mine-id",
        "ChangeSetName": "samcli-1-nested",
        "ChangeSetType": "UPDATE",
        "IncludeNestedStacks": True,
        "TemplateBody": "Resources: {}",
        **{name: given[name] for name in ("Parameters", "Capabilities", "Tags")},
    }
    cloudformation.add_response("create_change_set", {"Id": NESTED_ARN}, request)
    cloudformation.add_response("describe_change_set", {"Status": status, "StatusReason": reason})


def test_change_set_includes_losses_two_nested_stacks_below(cloudformation: Stubber) -> None:
    add_preview(cloudformation, "CREATE_COMPLETE")
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
                change("Key", "AWS::KMS::Key", "Remove"),
                change("TaskQueue", "AWS::SQS::Queue", Replacement="False"),
            ],
        ),
    ]
    for arn, changes in below:
        cloudformation.add_response("describe_change_set", {"Changes": changes}, {"ChangeSetName": arn})
    cloudformation.add_response("delete_change_set", {}, {"ChangeSetName": NESTED_ARN})
    with cloudformation:
        found = read(ARN)
    cloudformation.assert_no_pending_responses()
    assert found.lost == [
        "Aion/State/Table (AWS::DynamoDB::Table) is replaced",
        "Aion/State/Key (AWS::KMS::Key) is deleted",
    ]
    assert (str(found), found.unread) == ("1 to create, 2 to change, 2 to delete", "")


def test_change_set_names_reason_if_nested_changes_are_unknown(cloudformation: Stubber) -> None:
    add_preview(cloudformation, "FAILED", "Currently in FAILED.")
    cloudformation.add_response("delete_change_set", {}, {"ChangeSetName": NESTED_ARN})
    with cloudformation:
        found = read(ARN)
    cloudformation.assert_no_pending_responses()
    assert (str(found), found.unread) == ("1 to create, 1 to change", "Currently in FAILED.")
