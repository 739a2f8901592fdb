"""Layout of a deployed table, checked before a deployment to its stack."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import Stubber

from aion_core.table.schema import VERSION
from aion_tools.deploy.aws import client_of
from aion_tools.deploy.cloudformation import CloudFormationStack
from aion_tools.deploy.errors import DeployError
from aion_tools.deploy.table_layout import check_layout

STACK = CloudFormationStack("mine", "mine-id", "UPDATE_COMPLETE", {}, {"TableName": "mine-table"})


@pytest.fixture
def dynamodb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    with Stubber(client_of("cloudformation")) as cloudformation:
        # The stack has no nested stack.
        cloudformation.add_client_error("describe_stack_resource", "ValidationError")
        yield Stubber(client_of("dynamodb"))


def scan(dynamodb: Stubber, *items: dict[str, Any]) -> None:
    request = {
        "TableName": "mine-table",
        "ProjectionExpression": "#v",
        "ExpressionAttributeNames": {"#v": "v"},
        "Limit": 1,
    }
    dynamodb.add_response("scan", {"Items": list(items)}, request)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_deployment_to_table_of_other_layout_is_refused(dynamodb: Stubber, version: int) -> None:
    scan(dynamodb, {"v": {"N": str(version)}})
    with dynamodb, pytest.raises(DeployError) as refused:
        check_layout(STACK)
    assert refused.value.what == (
        f"The table of the stack mine has items of layout {version}, and this version of aion reads only layout {VERSION}."
    )
    assert "`aion destroy --stack mine --data`" in refused.value.next_step


@pytest.mark.parametrize("items", [[], [{}], [{"v": {"N": str(VERSION)}}]])
def test_deployment_to_table_of_own_layout_is_accepted(dynamodb: Stubber, items: list[dict[str, Any]]) -> None:
    scan(dynamodb, *items)
    with dynamodb:
        check_layout(STACK)
    dynamodb.assert_no_pending_responses()


@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException"])
def test_deployment_without_readable_table_is_accepted(dynamodb: Stubber, code: str) -> None:
    dynamodb.add_client_error("scan", code)
    with dynamodb:
        check_layout(STACK)


def test_new_stack_has_no_layout_to_check(dynamodb: Stubber) -> None:
    with dynamodb:
        check_layout(None)
        check_layout(CloudFormationStack("mine", "mine-id", "CREATE_COMPLETE", {}, {}))
