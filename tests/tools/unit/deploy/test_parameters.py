"""Overrides of a deployment, checked against a project's template.yaml and its nested stack."""

from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_tools.deploy.parameters import KNOWN_LATER, TemplateParameters
from aion_tools.template import stacks
from aion_tools.template.reader import Place
from tests.support.rows import each_row

PROJECT = """
Parameters:
  Stage: {Type: String, Default: dev}
  Architecture: {Type: String, Default: arm64}
  ApiAuthorizer: {Type: String, Default: AWS_IAM}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
Resources:
  NotesPolicy: {Type: AWS::IAM::ManagedPolicy}
  Aion:
    Type: AWS::Serverless::Application
    Properties:
      Location: .aion/stacks/template.yaml
      Parameters:
        Stage: !Ref Stage
        ApiAuthorizer: !Ref ApiAuthorizer
        FunctionUrlAuth: !If [IsProd, NONE, AWS_IAM]
        AgentPolicyArns: !Ref NotesPolicy
"""
PLACE = Place("123456789012", "eu-west-1", "", "mine")


@pytest.fixture
def parameters(tmp_path: Path) -> TemplateParameters:
    (tmp_path / "template.yaml").write_text(PROJECT)
    stacks.write(tmp_path)
    return TemplateParameters.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("AlarmEmail", "me@example.com", "AlarmEmail: me@example.com"),
        ("Console", "on", "Console: 'on'"),
        (
            "AgentSecrets",
            "arn:aws:secretsmanager:a:secret:b-??????",
            "AgentSecrets: arn:aws:secretsmanager:a:secret:b-??????",
        ),
    ],
)
def test_override_of_undeclared_parameter_names_line_of_template(
    parameters: TemplateParameters, name: str, value: str, line: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parameters.check({"Stage": "prod", name: value})
    assert str(refused.value) == (
        f"template.yaml does not declare the parameter {name}. Set in template.yaml, under Aion, Properties, Parameters:\n"
        f"    {line}\nOr declare a parameter, and pass it there by !Ref."
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Stages", "template.yaml has no parameter Stages. Did you mean 'Stage'?"),
        ("AlarmMail", "template.yaml has no parameter AlarmMail. Did you mean 'AlarmEmail'?"),
        ("Architecture", "Architecture has one source, its Default in template.yaml"),
        (
            "FunctionUrlAuth",
            "template.yaml sets FunctionUrlAuth under Aion, Properties, Parameters, and declares no parameter of this name. Change",
        ),
    ],
)
def test_unusable_override_is_refused(parameters: TemplateParameters, name: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parameters.check({name: "x"})
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("given", "authorizer", "url"),
    [({}, "AWS_IAM", "AWS_IAM"), ({"Stage": "prod", "ApiAuthorizer": "NONE", "Unknown": "x"}, "NONE", "NONE")],
)
def test_effective_parameters_follow_expressions_of_template(
    parameters: TemplateParameters, given: dict[str, str], authorizer: str, url: str
) -> None:
    found = parameters.effective(given, PLACE)
    assert (found["ApiAuthorizer"], found["FunctionUrlAuth"]) == (authorizer, url)
    assert found["AgentPolicyArns"] == KNOWN_LATER


@each_row(
    ("line", "told"),
    [
        ("PushPorts: 443", []),
        ("SubnetIds: subnet-0a", ["SubnetIds and SecurityGroupIds need each other; leave both empty for no VPC."]),
        (
            "DomainName: a.example.com",
            ["DomainName needs CertificateArn, a certificate of ACM for the domain in this region."],
        ),
        (
            "PushPorts: 443 8443",
            ["PushPorts: '443 8443' does not match ([0-9]+(,[0-9]+)*)?. Allowed ports of webhooks"],
        ),
    ],
)
def test_refusals_are_known_before_nested_stack_is_created(tmp_path: Path, line: str, told: list[str]) -> None:
    (tmp_path / "template.yaml").write_text(f"{PROJECT}        {line}\n")
    stacks.write(tmp_path)
    found = TemplateParameters.read(tmp_path).refusals({}, PLACE)
    assert [each[: len(start)] for start, each in zip(told, found, strict=True)] == told


def test_template_with_functions_has_only_its_own_parameters(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text("Parameters: {Stage: {Type: String, Default: dev}}\nResources: {}\n")
    parameters = TemplateParameters.read(tmp_path)
    assert parameters.effective({"Stage": "prod"}, PLACE) == {"Stage": "prod"}
    with pytest.raises(ConfigurationError, match=r"^template.yaml has no parameter AlarmEmail\.$"):
        parameters.check({"AlarmEmail": "me@example.com"})
