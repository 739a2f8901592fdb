"""AWS clients of the commands that deploy, delete and read stacks."""

import pytest

from aion_core.deploy.aws import client_of


def test_aws_client_is_created_once_per_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    first = client_of("sqs")
    assert client_of("sqs") is first
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert client_of("sqs").meta.region_name == "us-east-1"
