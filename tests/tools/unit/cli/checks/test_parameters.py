"""Warnings about template parameters, before a deployment and by `aion doctor --stack`."""

from pathlib import Path

import pytest

from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.remotes import RemoteConfig
from aion_core.loading.deployment import read_deployment_config
from aion_tools.cli.checks import Status
from aion_tools.cli.checks.parameters import OF_BEDROCK, POLICIES, check_parameters
from aion_tools.deploy.parameters import KNOWN_LATER
from aion_tools.stack.stack import LocalStack
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import MANAGED_POLICY, Template
from tests.support import operating
from tests.support.rows import each_row
from tests.support.server import ROOT
from tests.tools.unit.cli.checks.doctor_command import doctor

AION_YAML = """
aion:
  agents:
    helper: {path: agent.py, cors: {origins: [%s]}}
    archive: {path: archive.py}
"""
ORIGIN = "https://app.example.com"
SUBNET = {"SubnetIds": "subnet-0a", "SecurityGroupIds": "sg-0a"}
MODEL = "arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0"


def policies(count: int) -> str:
    return ",".join(f"arn:aws:iam::123456789012:policy/p{n}" for n in range(count))


def agents_of(folder: Path, origins: str = "") -> dict[str, AgentConfig]:
    (folder / "aion.yaml").write_text(AION_YAML % origins)
    return dict(read_deployment_config(folder / "aion.yaml").agents)


@each_row(
    ("parameters", "region", "warned"),
    [
        ({}, "eu-west-1", []),
        ({"FunctionUrlAuth": "NONE"}, "eu-west-1", []),
        ({"FunctionUrlAuth": "OFF", **SUBNET}, "eu-west-1", []),
        (SUBNET, "eu-west-1", []),
        ({"FunctionUrlAuth": "NONE", **SUBNET}, "eu-west-1", ["function url"]),
        ({"FunctionUrlAuth": "AWS_IAM", "SubnetIds": KNOWN_LATER}, "eu-west-1", ["function url"]),
        ({"FunctionUrlAuth": "AWS_IAM", "SubnetIds": ""}, "eu-west-1", []),
        ({}, "us-gov-west-1", ["region"]),
        ({}, "cn-north-1", ["region"]),
        ({}, "eusc-de-east-1", ["region"]),
        ({}, "xx-new-1", []),
        ({"AgentPolicyArns": policies(POLICIES)}, "eu-west-1", []),
        ({"AgentPolicyArns": policies(POLICIES + 1)}, "eu-west-1", ["policies"]),
        ({"AgentPolicyArns": policies(POLICIES - OF_BEDROCK), "BedrockModels": MODEL}, "eu-west-1", []),
        ({"AgentPolicyArns": policies(POLICIES - OF_BEDROCK + 1), "BedrockModels": MODEL}, "eu-west-1", ["policies"]),
        ({"AgentPolicyArns": KNOWN_LATER, "BedrockModels": ""}, "eu-west-1", []),
    ],
)
def test_parameters_with_hidden_effect_are_warned_of(
    parameters: dict[str, str], region: str, warned: list[str], tmp_path: Path
) -> None:
    found = list(check_parameters(parameters, region, agents_of(tmp_path), {}))
    assert [each.name for each in found] == warned
    assert all(each.status is Status.WARNING and each.next_step for each in found)


def test_warning_counts_the_templates_own_policies() -> None:
    template = Template(ROOT / "template.yaml", BUILD_PLACE, {"BedrockModels": MODEL})
    assert len(template.resources(MANAGED_POLICY)) == OF_BEDROCK


@each_row(
    ("origins", "parameters", "warns"),
    [
        (ORIGIN, {}, True),
        (ORIGIN, {"ApiAuthorizer": "AWS_IAM", "FunctionUrlAuth": "AWS_IAM"}, True),
        (ORIGIN, {"ApiAuthorizer": "NONE"}, False),
        (ORIGIN, {"ApiAuthorizer": "AWS_IAM", "FunctionUrlAuth": "NONE"}, False),
        ("", {}, False),
    ],
)
def test_deploy_warns_that_aws_would_refuse_cors_preflights(
    tmp_path: Path, origins: str, parameters: dict[str, str], *, warns: bool
) -> None:
    found = list(check_parameters(parameters, "eu-west-1", agents_of(tmp_path, origins), {}))
    assert ["Web pages cannot call helper, since" in each.message for each in found] == [True] * warns


@each_row(
    ("parameters", "warned"),
    [
        ({}, "the server's public URL is not known. Deploy with BaseUrl or DomainName."),
        ({"BaseUrl": "http://agents.example.com"}, "callbacks need https"),
        ({"BaseUrl": "https://abc.lambda-url.eu-west-1.on.aws", "FunctionUrlAuth": "AWS_IAM"}, "by the REST API only"),
        ({"BaseUrl": "https://abc.execute-api.eu-west-1.amazonaws.com/dev"}, ""),
        ({"DomainName": "agents.example.com"}, ""),
        ({"BaseUrl": KNOWN_LATER}, ""),
    ],
)
def test_address_that_remotes_cannot_call_back_is_warned_of(parameters: dict[str, str], warned: str) -> None:
    remotes = {
        "far": RemoteConfig(url="https://far.example", callback=True),
        "near": RemoteConfig(url="https://n.example"),
    }
    found = [each.message for each in check_parameters(parameters, "eu-west-1", {}, remotes)]
    assert len(found) == bool(warned)
    assert all("aion.remotes.far has `callback: on`, but " in each and warned in each for each in found)


@pytest.mark.deep
def test_doctor_warns_of_function_url_in_vpc(stack: LocalStack, tmp_path: Path) -> None:
    """Warn from the deployed stack's parameters, and of web pages from the folder's aion.yaml."""
    agents_of(tmp_path, ORIGIN)
    for name, parameters, warned in (
        ("plain", {"ApiAuthorizer": "NONE"}, set()),
        ("in-vpc", {"FunctionUrlAuth": "AWS_IAM", "ApiAuthorizer": "AWS_IAM", **SUBNET}, {"function url", "cors"}),
    ):
        operating.registered(stack, name, nests=True, **parameters)
        config = tmp_path / "aion.yaml"
        _, found = doctor(operating.environ_of(stack), "--stack", name, "--config", config)
        assert found["stack"]["status"] == "ok"
        assert {each for each in ("function url", "region", "policies", "cors") if each in found} == warned
