"""AWS clients of the commands that deploy, delete and read stacks."""

import pytest

from aion_tools.deploy.aws import client_of


def test_aws_client_is_reused_until_environment_variables_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    first = client_of("sqs")
    assert client_of("sqs") is first
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert client_of("sqs").meta.region_name == "us-east-1"
