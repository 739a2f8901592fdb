"""Execution of change sets. tests/tools/e2e/test_deploy.py deploys to an emulated CloudFormation."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from botocore.stub import Stubber

from aion_tools.deploy.aws import client_of
from aion_tools.deploy.change_sets import check_deployable, execute
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
