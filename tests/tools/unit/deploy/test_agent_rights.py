"""Template parameters with the rights of agents: their secrets."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_tools.deploy.agent_rights import template_parameters
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import Template
from tests.support.rows import each_row
from tests.support.server import ROOT


def written(folder: Path, **aion: Any) -> Path:
    file = folder / "aion.yaml"
    file.write_text(json.dumps({"aion": {**aion, "agents": {"a": {"path": "a.py"}}}}))
    return file


def test_template_parameters_contain_arns_of_secrets(tmp_path: Path) -> None:
    secrets = {
        "A": "openai-key",
        "B": "prod/db#user",
        "C": "prod/db#password",
        "D": "ssm:/my-agent/tavily:3",
        "E": "ssm:plain",
        "F": "arn:aws:secretsmanager:eu-west-1:210987654321:secret:theirs-AbCdEf",
        "G": "arn:aws:secretsmanager:eu-west-1:210987654321:secret:without",
        "H": "arn:aws:ssm:eu-west-1:123456789012:parameter/a/b:label#key",
    }
    found = template_parameters(read_deployment_config(written(tmp_path, secrets=secrets)), "eu-west-1", "123456789012")
    assert found["AgentSecrets"].split(",") == [
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:openai-key-??????",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-??????",
        "arn:aws:ssm:eu-west-1:123456789012:parameter/my-agent/tavily",
        "arn:aws:ssm:eu-west-1:123456789012:parameter/plain",
        "arn:aws:secretsmanager:eu-west-1:210987654321:secret:theirs-AbCdEf",
        "arn:aws:secretsmanager:eu-west-1:210987654321:secret:without-??????",
        "arn:aws:ssm:eu-west-1:123456789012:parameter/a/b",
    ]
    assert re.fullmatch(pattern_of("AgentSecrets"), found["AgentSecrets"])


@each_row(
    ("region", "partition"),
    [
        ("eu-west-1", "aws"),
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("eusc-de-east-1", "aws-eusc"),
        ("xx-new-1", "aws"),
    ],
)
def test_secret_arn_contains_aws_partition_of_region(region: str, partition: str, tmp_path: Path) -> None:
    found = template_parameters(read_deployment_config(written(tmp_path, secrets={"A": "k"})), region, "123456789012")
    assert found["AgentSecrets"] == f"arn:{partition}:secretsmanager:{region}:123456789012:secret:k-??????"
    assert re.fullmatch(pattern_of("AgentSecrets"), found["AgentSecrets"])


def test_template_parameters_without_secrets_are_empty() -> None:
    assert template_parameters(DeploymentConfig({}, None, Path.cwd()), "eu-west-1", "123456789012") == {
        "AgentSecrets": ""
    }
    assert re.fullmatch(pattern_of("AgentSecrets"), "")


def test_too_many_secrets_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, secrets={f"K{n}": f"{n:0100}" for n in range(30)})
    with pytest.raises(ConfigurationError, match="the template parameter AgentSecrets takes 4096"):
        template_parameters(read_deployment_config(file), "eu-west-1", "123456789012")


def pattern_of(parameter: str) -> str:
    pattern: str = Template(ROOT / "template.yaml", BUILD_PLACE).document["Parameters"][parameter]["AllowedPattern"]
    return pattern
