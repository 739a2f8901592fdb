"""Template after SAM's transform, and the allowed values of its parameters."""

import json
import re
import tomllib
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.settings import Settings
from aion_tools.template.file import parsed
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import FUNCTION, Template
from scripts.policies.check import EVERY_OPTION, VARIANTS, problems, transformed
from scripts.policies.deployment import ROOT
from tests.support.rows import each_row

TEMPLATE = ROOT / "template.yaml"
PARAMETERS = parsed(TEMPLATE.read_text())["Parameters"]
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:"
READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
REFUSED = [
    ("AgentSecrets", f"{SECRET}*"),
    ("AgentSecrets", f"{SECRET}openai-*"),
    ("AgentSecrets", f"{SECRET}??????"),
    ("AgentSecrets", "arn:aws:ssm:eu-west-1:123456789012:parameter/*"),
    ("AgentSecrets", "arn:aws:ssm:eu-west-1:123456789012:parameter/a,*"),
    ("AgentSecrets", "arn:aws:s3:::bucket/key"),
    ("AgentSecrets", f"{SECRET}users-AbCdEf,"),
    ("AgentSecrets", f"{SECRET}users-AbCdEf{SECRET}users-AbCdEf"),
    ("AgentSecrets", "openai-key"),
    ("AgentSecretsKey", "arn:aws:kms:eu-west-1:123456789012:key/*"),
    ("AgentSecretsKey", "*"),
    ("AgentPolicyArns", "arn:aws:iam::aws:policy/AdministratorAccess"),
    ("AgentPolicyArns", f"{READ_ONLY},arn:aws:iam::aws:policy/PowerUserAccess"),
    ("AgentPolicyArns", "arn:aws:iam::aws:policy/IAMFullAccess"),
    ("BedrockModels", "*"),
    ("BedrockModels", "arn:aws:bedrock:*::foundation-model/amazon.nova-lite-v1:0"),
    ("BedrockModels", "arn:aws:bedrock:eu-west-1::foundation-model/*"),
    ("BedrockModels", "amazon.nova-lite-v1:0"),
    ("SubnetIds", "vpc-0a"),
    ("SecurityGroupIds", "sg-0a;sg-0b"),
]


def is_allowed(parameter: str, value: str) -> bool:
    """Return True if CloudFormation accepts the value of the parameter."""
    declared = PARAMETERS[parameter]
    is_in_values = value in map(str, declared.get("AllowedValues", [value]))
    return is_in_values and re.fullmatch(declared.get("AllowedPattern", ".*"), value) is not None


@each_row(("parameter", "value"), REFUSED)
def test_template_parameter_refuses_too_broad_value(parameter: str, value: str) -> None:
    assert not is_allowed(parameter, value)


@each_row("parameter", EVERY_OPTION)
def test_template_parameter_allows_valid_option(parameter: str) -> None:
    assert all(is_allowed(parameter, given[parameter]) for given in VARIANTS if parameter in given)


@each_row(
    ("rule", "given", "is_valid"),
    [
        ("Network", {}, True),
        ("Network", {"SubnetIds": "subnet-0a", "SecurityGroupIds": "sg-0a"}, True),
        ("Network", {"SubnetIds": "subnet-0a"}, False),
        ("Network", {"SecurityGroupIds": "sg-0a"}, False),
        ("Domain", {}, True),
        ("Domain", {"DomainName": "agents.example.com"}, False),
        ("Domain", {"DomainName": "agents.example.com", "CertificateArn": EVERY_OPTION["CertificateArn"]}, True),
    ],
)
def test_rule_refuses_parameters_that_need_each_other(rule: str, given: dict[str, str], *, is_valid: bool) -> None:
    (assertion,) = transformed(TEMPLATE)["Rules"][rule]["Assertions"]
    assert Template(TEMPLATE, BUILD_PLACE, given).resolve(assertion["Assert"], "Rules") is is_valid


@each_row("function", Template(TEMPLATE, BUILD_PLACE).resources(FUNCTION))
def test_environment_variables_in_template_give_each_function_valid_settings(function: str) -> None:
    settings = Settings.from_environ(Template(TEMPLATE, BUILD_PLACE).environment(function))
    times = (settings.lease_seconds, settings.max_tries, settings.blocking_wait, settings.retention_days)
    assert times == (30, 3, 240, 30)
    assert settings.task_queue_url.endswith("-TaskQueue")


@pytest.mark.parametrize(("given", "is_on"), [({}, False), ({"Console": "on"}, True)])
def test_console_is_off_by_default(given: dict[str, str], is_on: bool) -> None:
    environment = Template(TEMPLATE, BUILD_PLACE, given).environment("ApiFunction")
    assert Settings.from_environ(environment).console == is_on
    assert not is_allowed("Console", "dev"), "a deployed console has no requests beyond A2A"


def test_handlers_and_exec_wrapper_of_template_exist() -> None:
    for module in ("api", "run_task", "deliver_push", "sweep"):
        assert re.search(r"^(def |async def )?handler\b", (ROOT / f"handlers/{module}.py").read_text(), re.M)
    assert re.search(r"^app\b", (ROOT / "handlers/api.py").read_text(), re.M)
    assert (ROOT / "aion_core/lambda_runtime/exec-wrapper.sh").stat().st_mode & 0o111


def test_changed_parameter_publishes_function_version() -> None:
    """Change a parameter: without a new version, the function's alias would keep the old environment variables."""
    changed = {**EVERY_OPTION, "BaseUrl": "https://other.example.com", "MemorySize": "2048", "LeaseSeconds": "60"}
    changed |= {"MaxTries": "5", "BlockingWait": "100", "RetentionDays": "7", "CardKeyId": "k-1", "Stage": "prod"}
    changed |= {"CardKeyUrl": "https://keys.example.com/", "PushHosts": "a.example", "PushPorts": "444"}
    before = Template(TEMPLATE, BUILD_PLACE)
    reached = set()
    for parameter, value in changed.items():
        after = Template(TEMPLATE, BUILD_PLACE, {parameter: value})
        for name in before.resources(FUNCTION):
            parts = ("Environment", "MemorySize", "Architectures", "Timeout", "LoggingConfig", "VpcConfig")
            if after.resolved(name, *parts) != before.resolved(name, *parts):
                reached.add(parameter)
                assert configuration_of(after) != configuration_of(before), f"{parameter} changes {name}"
    assert len(reached) > 15


@pytest.mark.parametrize(("given", "name"), [({}, BUILD_PLACE.stack_name), ({"Name": "orders"}, "orders")])
def test_names_hang_on_parameter_or_else_on_stack(given: dict[str, str], name: str) -> None:
    template = Template(TEMPLATE, BUILD_PLACE, given)
    for function, ending in (("ApiFunction", "api"), ("TaskFunction", "task"), ("SweepFunction", "sweep")):
        assert template.environment(function)["POWERTOOLS_SERVICE_NAME"] == name
        group = template.resolved(function, "LoggingConfig")["LoggingConfig"]["LogGroup"]
        assert group == f"/aws/lambda/{name}-{ending}"
    assert template.resolved("Api", "Name") == {"Name": name}
    assert template.resolved("Dashboard", "DashboardName") == {"DashboardName": name}
    assert template.resolved("ApiErrorsAlarm", "AlarmName") == {"AlarmName": f"{name}-ApiErrorsAlarm"}
    assert template.output("DashboardUrl", "").endswith(f"#dashboards/dashboard/{name}")


@each_row(
    ("value", "allowed"),
    [
        ("", True),
        ('{"TABLE": "notes"}', True),
        ('{\n "TABLE": "notes"\n}\n', True),
        ("TABLE=notes", False),
        ("[]", False),
    ],
)
def test_agent_environment_is_a_json_object(value: str, allowed: bool) -> None:
    assert is_allowed("AgentEnvironment", value) is allowed


def configuration_of(template: Template) -> str:
    content: str = template.resolved("ConfigurationVersion", "Content")["Content"]
    return content


def test_lambda_version_description_contains_version_of_configuration() -> None:
    """Put the configuration into the description: a new description makes CloudFormation publish a version."""
    resources = transformed(TEMPLATE)["Resources"].values()
    for kind in ("AWS::Lambda::Version", "AWS::Lambda::Function"):
        described = [each["Properties"]["Description"]["Fn::Sub"] for each in resources if each["Type"] == kind]
        assert len(described) == 4
        assert all("${State.Outputs.ConfigurationVersion}" in each for each in described)


def test_replaced_function_versions_are_retained() -> None:
    """Keep a replaced version, because streams and turns may still be running on it."""
    resources = transformed(TEMPLATE)["Resources"].values()
    policies = [
        (each["DeletionPolicy"], each["UpdateReplacePolicy"])
        for each in resources
        if each["Type"] == "AWS::Lambda::Version"
    ]
    assert policies == [("Retain", "Retain")] * 4
    assert not any("DeletionPolicy" in each for each in resources if each["Type"] == "AWS::Lambda::Function")


@each_row("function", Template(TEMPLATE, BUILD_PLACE).resources(FUNCTION))
def test_environment_with_all_options_fits_lambda_limit(function: str) -> None:
    """Use at most 3 of the 4 KB that Lambda allows, so that longer values fit too."""
    place = replace(BUILD_PLACE, stack_name="s" * 128)
    environ = Template(TEMPLATE, place, EVERY_OPTION).environment(function)
    assert sum(len(name) + len(value) for name, value in environ.items()) < 3 * 1024


@pytest.mark.deep
def test_resource_names_with_longest_stack_name_are_valid() -> None:
    """Resolve all names with a stack name of 128 characters, the maximum: CloudFormation does not shorten our names."""
    # Import late, because the import takes a second.
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

    template = Template(TEMPLATE, replace(BUILD_PLACE, stack_name="s" * 128))
    too_long, checked = [], 0
    for each in template.all:
        for name, resource in each.document["Resources"].items():
            if resource["Type"].startswith("AWS::Serverless::"):
                continue
            schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource["Type"]).schema
            for part, value in (resource.get("Properties") or {}).items():
                longest = schema["properties"].get(part, {}).get("maxLength")
                if longest is None or not any(word in str(value) for word in ("Service", "AWS::StackName")):
                    continue
                checked += 1
                too_long += [f"{name}.{part}"] * (len(str(each.resolve(value, name))) > longest)
    assert checked >= 4
    assert too_long == []


CONFIGS = tomllib.loads((ROOT / "samconfig.toml").read_text())


@pytest.mark.parametrize("config", ["default", "dev", "prod"])
def test_samconfig_parameters_pass_template_policies(config: str) -> None:
    deploy = CONFIGS[config]["deploy"]["parameters"]
    parameters = dict(each.split("=", 1) for each in deploy["parameter_overrides"])
    assert all(is_allowed(name, value) for name, value in parameters.items())
    assert list(problems(TEMPLATE, [parameters], lint=False)) == []
    assert deploy["stack_name"] in ("aion-dev", "aion-prod")
    # CloudFormation requires both capabilities for a template with a transform and nested stacks.
    assert deploy["capabilities"].split() == ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]


def test_samconfig_environment_named_default_equals_dev() -> None:
    assert CONFIGS["default"] == CONFIGS["dev"]
    dev, prod = (CONFIGS[config]["deploy"]["parameters"] for config in ("dev", "prod"))
    assert dev["stack_name"] != prod["stack_name"]
    assert "Deployment=AllAtOnce" in dev["parameter_overrides"]
    assert any(each.startswith("Deployment=Canary") for each in prod["parameter_overrides"])
    assert prod["confirm_changeset"]


def test_all_at_once_deployment_continues_despite_alarms() -> None:
    """Deploy without a canary: an active alarm must not stop the deployment of a fix."""
    resources = transformed(TEMPLATE, {"Deployment": "AllAtOnce"})["Resources"].values()
    groups = [each["Properties"] for each in resources if each["Type"] == "AWS::CodeDeploy::DeploymentGroup"]
    assert len(groups) == 4
    for group in groups:
        condition, _, otherwise = group["AlarmConfiguration"]["Fn::If"]
        assert (condition, otherwise) == ("UsesAlarms", {})
    assert Template(TEMPLATE, BUILD_PLACE).resolve({"Fn::If": ["UsesAlarms", 1, 0]}, "") == 1
    assert (
        Template(TEMPLATE, BUILD_PLACE, {"Deployment": "AllAtOnce"}).resolve({"Fn::If": ["UsesAlarms", 1, 0]}, "") == 0
    )


def test_each_parameter_has_group_and_description() -> None:
    groups = transformed(TEMPLATE)["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    grouped = sorted(name for group in groups for name in group["Parameters"])
    assert grouped == sorted(PARAMETERS), "Name the parameter in one group of ParameterGroups, in template.yaml."
    assert all(parameter["Description"] for parameter in PARAMETERS.values())


def test_base_url_overrides_domain_name() -> None:
    """Without both parameters the URL is empty, and the function takes it from each event."""
    domain = {"DomainName": "agents.example.com"}
    assert base_url(domain) == "https://agents.example.com"
    assert base_url({**domain, "BaseUrl": "https://other.example.com"}) == "https://other.example.com"
    assert base_url({}) == ""


def base_url(parameters: dict[str, str]) -> str:
    return Template(TEMPLATE, BUILD_PLACE, parameters).environment("ApiFunction")["AION_BASE_URL"]


def test_default_deployment_requires_aws_signed_requests() -> None:
    plain = transformed(TEMPLATE)
    methods = api_methods(plain)
    assert len(methods) == 2
    assert all(method["security"] == [{"AWS_IAM": []}] for method in methods)
    entrypoints = Template(TEMPLATE, BUILD_PLACE).owner("FunctionUrl").document["Resources"]
    for resource in [*plain["Resources"].values(), *entrypoints.values()]:
        if resource["Type"] == "AWS::Lambda::Url" or '"Principal": "*"' in json.dumps(resource):
            # Allow only two public resources: a bucket policy that denies access, and the optional Function URL.
            is_denial = '"Effect": "Deny"' in json.dumps(resource)
            assert is_denial or resource["Condition"] in ("HasFunctionUrl", "HasOpenFunctionUrl")
    assert PARAMETERS["FunctionUrlAuth"]["Default"] == "OFF"


def test_authorizer_none_makes_api_public() -> None:
    assert not any("security" in method for method in api_methods(transformed(TEMPLATE, {"ApiAuthorizer": "NONE"})))


def api_methods(plain: dict[str, Any]) -> list[dict[str, Any]]:
    paths = plain["Resources"]["Api"]["Properties"]["Body"]["paths"]
    return [method for path in paths.values() for method in path.values()]
