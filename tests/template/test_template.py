"""The gate on template.yaml, and that it would notice."""

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from aion_core.packaging.plan import NOWHERE
from aion_core.settings import Settings
from aion_core.template.reader import FUNCTION, Template
from infra.template_gate import problems, transformed
from tests.template.breaking import ROOT, TEMPLATE, Mend, broken

OPEN = {"ApiAuthorizer": "NONE", "FunctionUrlAuth": "NONE"}


USERS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:users-AbCdEf"
PARAMETER = "arn:aws:ssm:eu-west-1:123456789012:parameter/aion/secret"
CARD_KEY = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:card-key-AbCdEf"
AGENTS = {
    "AgentSecrets": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:openai-??????,arn:aws:ssm:eu-west-1:123456789012:parameter/a",
    "AgentSecretsKey": "arn:aws:kms:eu-west-1:123456789012:key/a-key",
    "AgentPolicyArns": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess,arn:aws:iam::123456789012:policy/agents/orders",
    "BedrockModels": "arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0,"
    "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0",
    "SubnetIds": "subnet-0a1b,subnet-0c2d",
    "SecurityGroupIds": "sg-0e3f",
}
EVERYTHING = {
    **OPEN,
    **AGENTS,
    "Architecture": "x86_64",
    "AlarmEmail": "operator@example.com",
    "AlarmTopic": "arn:aws:sns:eu-west-1:123456789012:alarms",
    "ApiConcurrency": "100",
    "AwsEndpointUrl": "http://127.0.0.1:4566",
    "BasicUsersSecret": USERS,
    "CardKeySecret": CARD_KEY,
    "CertificateArn": "arn:aws:acm:eu-west-1:123456789012:certificate/c",
    "CredentialsKey": "arn:aws:kms:us-east-1:123456789012:key/a-key",
    "Deployment": "AllAtOnce",
    "DomainName": "agents.example.com",
    "OtlpEndpoint": "http://127.0.0.1:4318",
}


@pytest.mark.parametrize("parameters", [{}, EVERYTHING], ids=["as it is", "with everything"])
def test_the_template_is_right_for_every_linter(parameters: dict[str, str]) -> None:
    assert list(problems(TEMPLATE, parameters)) == []


@pytest.mark.parametrize(
    "parameters",
    [
        OPEN,
        {"FunctionUrlAuth": "AWS_IAM"},
        {"CredentialsKey": EVERYTHING["CredentialsKey"]},
        {"RetentionDays": "3650", "LeaseSeconds": "5", "TaskConcurrency": "2"},
        {"RetentionDays": "7", "Stage": "prod"},
        {"BaseUrl": "https://agents.example.com", "AlarmTopic": EVERYTHING["AlarmTopic"]},
        {"BasicUsersSecret": USERS, **OPEN},
        {"BasicUsersSecret": PARAMETER, "CardKeySecret": CARD_KEY, **OPEN},
        {"CardKeySecret": PARAMETER},
        {"CardKeySecret": CARD_KEY, "CardKeyId": "k-1"},
        AGENTS,
        {"AgentSecrets": USERS},
        {"AgentSecrets": PARAMETER, "AgentSecretsKey": AGENTS["AgentSecretsKey"]},
        {"AgentPolicyArns": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"},
        {"BedrockModels": "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123"},
        {"SubnetIds": "subnet-0a1b", "SecurityGroupIds": "sg-0a,sg-0b"},
        {"ApiConcurrency": "0"},
        {"ApiConcurrency": "100"},
    ],
)
def test_the_template_is_right_however_it_is_deployed(parameters: dict[str, str]) -> None:
    assert list(problems(TEMPLATE, parameters, lint=False)) == []


WRONG = [
    ("AgentSecrets", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:*"),
    ("AgentSecrets", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:openai-*"),
    ("AgentSecrets", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:??????"),
    ("AgentSecrets", "arn:aws:ssm:eu-west-1:123456789012:parameter/*"),
    ("AgentSecrets", "arn:aws:ssm:eu-west-1:123456789012:parameter/a,*"),
    ("AgentSecrets", "arn:aws:s3:::bucket/key"),
    ("AgentSecrets", f"{USERS},"),
    ("AgentSecrets", f"{USERS}{USERS}"),
    ("AgentSecrets", "openai-key"),
    ("AgentSecretsKey", "arn:aws:kms:eu-west-1:123456789012:key/*"),
    ("AgentSecretsKey", "*"),
    ("AgentPolicyArns", "arn:aws:iam::aws:policy/AdministratorAccess"),
    ("AgentPolicyArns", "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess,arn:aws:iam::aws:policy/PowerUserAccess"),
    ("AgentPolicyArns", "arn:aws:iam::aws:policy/IAMFullAccess"),
    ("BedrockModels", "*"),
    ("BedrockModels", "arn:aws:bedrock:*::foundation-model/amazon.nova-lite-v1:0"),
    ("BedrockModels", "arn:aws:bedrock:eu-west-1::foundation-model/*"),
    ("BedrockModels", "amazon.nova-lite-v1:0"),
    ("SubnetIds", "vpc-0a"),
    ("SecurityGroupIds", "sg-0a;sg-0b"),
]


@pytest.mark.parametrize(("parameter", "value"), WRONG)
def test_parameter_that_gives_too_much_is_refused(parameter: str, value: str) -> None:
    assert f"{parameter} is {value!r}, which its AllowedPattern refuses" in problems(
        TEMPLATE, {parameter: value}, lint=False
    )


RIGHTS = {
    "AgentSecrets": {"AgentSecrets"},
    "AgentSecretsKey": {"AgentSecretsKey"},
    "AgentPolicyArns": set(),
    "BedrockModels": {"BedrockModels", "BedrockProfiles"},
    "SubnetIds": {"Network", "NetworkLists", "NetworkIsLambdas"},
}


@pytest.mark.parametrize("parameter", RIGHTS)
def test_agents_rights_go_to_functions_with_agents(parameter: str) -> None:
    more_given = {"SecurityGroupIds": AGENTS["SecurityGroupIds"]} if parameter == "SubnetIds" else {}
    given = {parameter: AGENTS[parameter], **more_given}
    before, after = Template(TEMPLATE, NOWHERE), Template(TEMPLATE, NOWHERE, given)
    for role in before.resources("AWS::IAM::Role"):
        own, now = ({each["Sid"]: each for each in rights(template, role)} for template in (before, after))
        more = RIGHTS[parameter] if role in ("ApiRole", "TaskRole") else set()
        assert now.keys() - own.keys() == more
        assert {sid: now[sid] for sid in own} == own
        policies = after.resolved(role, "ManagedPolicyArns").get("ManagedPolicyArns", [])
        has_policies = parameter == "AgentPolicyArns" and role in ("ApiRole", "TaskRole")
        assert policies == (AGENTS[parameter].split(",") if has_policies else [])


def rights(template: Template, role: str) -> list[dict[str, Any]]:
    (policy,) = template.resolved(role, "Policies")["Policies"]
    statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return statements


def test_bedrock_is_called_by_what_is_named_alone() -> None:
    template = Template(TEMPLATE, NOWHERE, {"BedrockModels": AGENTS["BedrockModels"]})
    by_sid = {each["Sid"]: each for each in rights(template, "TaskRole")}
    named = AGENTS["BedrockModels"].split(",")
    calls = ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"]
    assert by_sid["BedrockModels"] == {"Sid": "BedrockModels", "Effect": "Allow", "Action": calls, "Resource": named}
    # The models of a profile's regions: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-prereq.html
    assert by_sid["BedrockProfiles"] == {
        "Sid": "BedrockProfiles",
        "Effect": "Allow",
        "Action": calls,
        "Resource": "arn:aws:bedrock:*::foundation-model/*",
        "Condition": {"StringEquals": {"bedrock:InferenceProfileArn": named}},
    }


def test_vpc_is_of_functions_with_agents() -> None:
    given = {name: AGENTS[name] for name in ("SubnetIds", "SecurityGroupIds")}
    for function in Template(TEMPLATE, NOWHERE).resources(FUNCTION):
        assert "VpcConfig" not in Template(TEMPLATE, NOWHERE).resolved(function, "VpcConfig")
        found = Template(TEMPLATE, NOWHERE, given).resolved(function, "VpcConfig")
        wanted = {"SubnetIds": ["subnet-0a1b", "subnet-0c2d"], "SecurityGroupIds": ["sg-0e3f"]}
        assert found == ({"VpcConfig": wanted} if function in ("ApiFunction", "TaskFunction") else {})


@pytest.mark.parametrize(
    ("subnets", "groups", "is_taken"),
    [("", "", True), ("subnet-0a", "sg-0a", True), ("subnet-0a", "", False), ("", "sg-0a", False)],
)
def test_subnets_and_security_groups_need_each_other(subnets: str, groups: str, *, is_taken: bool) -> None:
    template = Template(TEMPLATE, NOWHERE, {"SubnetIds": subnets, "SecurityGroupIds": groups})
    roles = template.owner("ApiRole")
    (asserted,) = roles.document["Rules"]["Network"]["Assertions"]
    assert roles.resolve(asserted["Assert"], "Rules") is is_taken


def test_payloads_outlive_their_rows_however_long_tasks_are_kept() -> None:
    choices = transformed(TEMPLATE, {})["Parameters"]["RetentionDays"]["AllowedValues"]
    for days in choices:
        kept = Template(TEMPLATE, NOWHERE, {"RetentionDays": str(days)}).resolved("Blobs", "LifecycleConfiguration")
        rules = kept["LifecycleConfiguration"]["Rules"]
        expiry = {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule}
        assert expiry == {
            "tasks/": days + 15,
            "threads/": days + 15,
            "artifacts/": days + 15,
            "sessions/": math.ceil(days * 1.5) + 15,
        }


@pytest.mark.parametrize("function", Template(TEMPLATE, NOWHERE).resources(FUNCTION))
def test_a_functions_environment_is_one_that_aion_starts_with(function: str) -> None:
    settings = Settings.from_environ(Template(TEMPLATE, NOWHERE).environment(function))
    assert (settings.lease_seconds, settings.max_tries, settings.blocking_wait, settings.retention_days) == (
        30,
        3,
        240,
        30,
    )
    assert settings.task_queue_url.endswith("-TaskQueue")


OF_A_LINTER = [
    (("Timeout: 900\n", "Timeout: 1200\n"), "1200"),
    (("MemorySize: !Ref MemorySize", "MemorySice: !Ref MemorySize"), "MemorySice"),
    (("BillingMode: PAY_PER_REQUEST", "BilingMode: PAY_PER_REQUEST"), "BilingMode"),
]
OF_FUNCTIONS = [
    (("ResponseTransferMode: RESPONSE_STREAM", "ResponseTransferMode: STREAM"), "is buffered"),
    (("            ResponseTransferMode: RESPONSE_STREAM\n", ""), "is buffered"),
    (("InvokeMode: RESPONSE_STREAM", "InvokeMode: BUFFERED"), "FunctionUrl is buffered"),
    (("TimeoutInMillis: 900000", "TimeoutInMillis: 900001"), "TimeoutInMillis has to be at most 900000"),
    (("Type: REGIONAL", "Type: EDGE"), "has to be REGIONAL"),
    (("Types: [REGIONAL]", "Types: [EDGE]"), "edge-optimised domain"),
    (("          ThrottlingRateLimit: !Ref RequestRate\n", ""), "lets every flood through"),
    (('ResourcePath: "/*"', 'ResourcePath: "/card"'), "lets every flood through"),
    (("    AutoPublishAlias: live\n", ""), "requires AutoPublishAlias"),
    (("      AutoPublishAliasAllProperties: true\n", ""), "goes on with its old environment"),
    ((re.compile(r" Configuration [$].*[.]\n"), "\n"), "its Description has to change"),
    (
        (re.compile(r"      VersionDescription: .*\n"), ""),
        "ApiFunction goes on with its old",
    ),
    (("${MaxTries}", ""), "MaxTries is not in State's Configuration"),
    (("        Function: !Ref ApiFunction.Alias", "        Function: !GetAtt ApiFunction.Arn"), "goes round the alias"),
    ((re.compile(r"      Alarms: !If\n(        .*\n)+"), ""), "shifts traffic and asks no alarm"),
    (
        ("AsksAlarms: !Not [!Equals [!Ref Deployment, AllAtOnce]]", "AsksAlarms: !Equals [!Ref Deployment, AllAtOnce]"),
        "shifts traffic and asks no alarm",
    ),
    (("Handler: handlers.api.handler", "Handler: handlers.app.handler"), "there is no handler in handlers/app.py"),
    (("handlers.api:app", "handlers.api:application"), "there is no application in handlers/api.py"),
    (("lambda_runtime/exec-wrapper.sh", "lambda_runtime/wrapper.sh"), "is not a program of the project"),
    (("Handler: handlers.sweep.handler", "Handler: handlers.sweep.run"), "there is no run in handlers/sweep.py"),
    (("        AION_TABLE: !GetAtt State.Outputs.Table\n", ""), "SweepFunction: AION_TABLE is missing"),
    (("AION_MAX_TRIES:", "AION_MAXTRIES:"), "TaskFunction: nothing reads AION_MAXTRIES"),
    (("AION_CARD_KEY_ID: !Ref", "AION_CARD_KEY_NAME: !Ref"), "nothing reads AION_CARD_KEY_NAME"),
    (("          AION_CARD_KEY_ID: !Ref CardKeyId\n", ""), "settings.py reads AION_CARD_KEY_ID, which no function has"),
    (("AION_MAX_TRIES: !Ref MaxTries", "AION_STORE: memory"), "NOT_DEPLOYED has AION_STORE, and a function has it too"),
    (("        OTEL_EXPORTER_OTLP_ENDPOINT: !Ref OtlpEndpoint\n", ""), "reads OTEL_EXPORTER_OTLP_ENDPOINT, which no"),
    (("POWERTOOLS_SERVICE_NAME: !Ref AWS::StackName", "POWERTOOLS_SERVICE_NAME: aion"), "is not the stack's name"),
    (
        ("          ${SubnetIds} ${SecurityGroupIds}\n", "          ${SubnetIds}\n"),
        "SecurityGroupIds is not in State's Configuration",
    ),
    (
        (re.compile(r"      VpcConfig: !If\n(        .*\n){3}"), ""),
        "ApiFunction runs agents, and its VpcConfig does not say",
    ),
    (
        (
            re.compile(r"(    Timeout: 900\n)"),
            r"\1    VpcConfig: { SubnetIds: [!Ref SubnetIds], SecurityGroupIds: [!Ref SecurityGroupIds] }\n",
        ),
        "SweepFunction runs no agents, and what is in the VPC is for them",
    ),
]
OF_ACCESS = [
    (("- dynamodb:GetItem", '- "dynamodb:*"'), "may do more than it needs"),
    (("Resource: !Ref TableArn", 'Resource: "*"'), "may do more than it needs"),
    (("Resource: !Ref TableArn", 'Resource: !Sub "arn:aws:dynamodb:${AWS::Region}:*"'), "may do more than it needs"),
    (("Resource: !Ref BasicUsersSecret", 'Resource: "*"'), "may do more than it needs"),
    (("Resource: !Ref CardKeySecret", 'Resource: "*"'), "may do more than it needs"),
    (("Action: cloudwatch:DescribeAlarms", 'Action: [cloudwatch:DescribeAlarms, "sns:Publish"]'), "may do more than"),
    (("Resource: !Ref AgentSecrets\n", 'Resource: "*"\n'), "may do more than it needs"),
    (
        ("Resource: !Ref AgentSecrets\n", 'Resource: !Sub "arn:aws:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:??????"\n'),
        "may do more than it needs",
    ),
    (
        ("Resource: !Ref AgentSecrets\n", 'Resource: "arn:aws:secretsmanager:*:123456789012:secret:openai-??????"\n'),
        "may do more than it needs",
    ),
    (("Action: [secretsmanager:GetSecretValue, ssm:GetParameter]\n                  Resource: !Ref AgentSecrets",
      'Action: ["secretsmanager:*"]\n                  Resource: !Ref AgentSecrets'), "may do more than it needs"),
    (("                  Resource: !Ref BedrockModels\n", '                  Resource: "*"\n'), "may do more than it needs: ['bedrock"),
    (("Action: [bedrock:InvokeModel, bedrock:InvokeModelWithResponseStream]", 'Action: "bedrock:*"'), "may do more than"),
    (
        (re.compile(r"\n +Condition:\n +StringEquals:\n +bedrock:InferenceProfileArn: !Ref BedrockModels"), ""),
        "ApiRole may do more than it needs: ['bedrock:InvokeModel'",
    ),
    (("bedrock:InferenceProfileArn: !Ref BedrockModels", 'bedrock:InferenceProfileArn: "*"'), "may do more than it needs: ['bed"),
    (
        ("                    StringEquals:\n                      bedrock:Inf", "                    StringLike:\n                      bedrock:Inf"),
        "may do more than it needs: ['bedrock",
    ),
    ((":foundation-model/*\n", ":*\n"), "may do more than it needs: ['bedrock:InvokeModel'"),
    (("                  Resource: !Ref AgentSecretsKey\n", '                  Resource: "*"\n'), "may do more than it needs: ['kms"),
    (("ssm.${AWS::Region}", "s3.${AWS::Region}"), "ApiFunction may open nothing: its code says"),
    (("                  Action: kms:Decrypt\n                  Resource: !Ref AgentS", "                  Action: [kms:Decrypt, kms:Encrypt]\n                  Resource: !Ref AgentS"),
     "ApiFunction may open what is sealed by"),
    (("                  Effect: Deny\n", "                  Effect: Allow\n"), "ApiRole may do more than it needs: ['ec2:Create"),
    (("                    - ec2:CreateNetworkInterface\n                    - ec2:DeleteNetworkInterface\n                    - ec2:AssignPrivateIpAddresses\n"
      "                    - ec2:UnassignPrivateIpAddresses\n                    - ec2:Des", "                    - ec2:Des"),
     "ApiRole may do more than it needs: ['ec2:Create"),
    (("${AWS::AccountId}:function:*", "${AWS::AccountId}:function:another"), "ApiRole may do more than it needs: ['ec2:Create"),
    (("Action: [ec2:DescribeNetworkInterfaces, ec2:DescribeSubnets]", "Action: [ec2:DescribeNetworkInterfaces, ec2:RunInstances]"),
     "ApiRole may do more than it needs: ['ec2:DescribeNetworkInterfaces', 'ec2:RunInstances']"),
    (("Action: [ec2:DescribeNetworkInterfaces, ec2:DescribeSubnets]", "Action: ec2:DescribeNetworkInterfaces"),
     "ApiRole cannot be used in a VPC: Lambda needs ec2:DescribeSubnets"),
    (("ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]",
      "ManagedPolicyArns: [arn:aws:iam::aws:policy/AmazonS3FullAccess]"), "ApiRole has policies of AWS's own"),
    (("      ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]\n", ""),
     "ApiRole is of a function that runs agents, and AgentPolicyArns gives it nothing"),
    (("                  Resource: !Ref AgentSecrets\n", "                  Resource: !Ref CardKeySecret\n"),
     "ApiRole is of a function that runs agents, and AgentSecrets gives it nothing"),
    (
        ("  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n",
         "  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n"
         "      ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]\n"),
        "PushRole is of no function that runs agents, and AgentPolicyArns gives it their rights",
    ),
    (
        (re.compile(r"(- Sid: Due\n.*\n.*\n +Resource: ).*"), r"\1!Select [0, !Ref AgentSecrets]"),
        "SweepRole is of no function that runs agents, and AgentSecrets gives it their rights",
    ),
    ((re.compile(r"(- Sid: Due\n.*\n +Action: )dynamodb:Query"), r"\1[dynamodb:Query, ec2:CreateNetworkInterface]"),
     "SweepRole is of no function in a VPC, and may ec2:CreateNetworkInterface"),
    (("AgentSecrets: !Ref AgentSecrets\n", "AgentSecrets: !Ref AgentPolicyArns\n"), "Roles is given AgentPolicyArns for its"),
    (("      Role: !GetAtt Roles.Outputs.SweepRole\n", ""), "has policies of AWS's own"),
    (("      Role: !GetAtt Roles.Outputs.DeploymentRole\n", ""), "has policies of AWS's own"),
    (
        ("  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n",
         "  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n      ManagedPolicyArns: [arn:aws:iam::aws:policy/A]\n"),
        "PushRole has policies of AWS's own",
    ),
    (("Role: !GetAtt Roles.Outputs.PushRole", "Role: !GetAtt Roles.Outputs.TaskRole"), "two functions share a role"),
    (("Action: [dynamodb:GetItem, dynamodb:Query, dynamodb:UpdateItem]", "NotAction: dynamodb:PutItem"), "may all else"),
    ((re.compile(r"(- Sid: Due\n.*\n.*\n +)Resource: .*"), r"\1NotResource: arn:aws:s3:::x"), "may all else"),
    (
        ("  DeploymentRole:\n",
         "  More:\n    Type: AWS::IAM::Policy\n    Properties: { PolicyName: More, Roles: [!Ref PushRole] }\n\n  DeploymentRole:\n"),
        "More gives rights besides the functions' roles",
    ),
    (("Resource: !GetAtt PushLogGroup.Arn", "Resource: !GetAtt TaskLogGroup.Arn"), "elsewhere than to its own log group"),
    (("[logs:CreateLogStream, logs:PutLogEvents]", "[logs:CreateLogGroup, logs:PutLogEvents]"), "may log elsewhere"),
    (("[logs:CreateLogStream, logs:PutLogEvents]", "logs:PutLogEvents"), "ApiFunction may not log"),
    (
        (re.compile(r"(- Sid: Hears\n.*\n.*\n +Resource: !Ref )TaskQueueArn"), r"\1PushQueueArn"),
        "TaskFunction may take messages of ['arn:aws:sqs:us-east-1:123456789012:gated-stack-State-PushQueue']",
    ),
]  # fmt: skip
OF_STATE = [
    (("VisibilityTimeout: 960", "VisibilityTimeout: 600"), "shows a message again before the 900 s are over"),
    (("deadLetterTargetArn: !GetAtt TaskDeadLetters.Arn", "deadLetterTargetArn: a"), "has no dead letter queue"),
    (("MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 345600"), "forgets dead letters"),
    (("SqsManagedSseEnabled: true", "SqsManagedSseEnabled: false"), "is not encrypted"),
    (("            FunctionResponseTypes: [ReportBatchItemFailures]\n", ""), "takes its batch along"),
    (("RecursiveLoop: Allow", "RecursiveLoop: Terminate"), "which Lambda ends after 16 times"),
    (("  Table:\n    Type: AWS::DynamoDB::Table\n    DeletionPolicy: Retain", "  Table:\n    Type: AWS::DynamoDB::Table"),
     "Table goes with the stack"),
    ((re.compile(r"(  Key:\n.*\n.*\n    DeletionPolicy: )Retain"), r"\1Delete"), "Key goes with the stack"),
    (("PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false"), "cannot be brought back"),
    (("SSEEnabled: true", "SSEEnabled: false"), "is not encrypted under a key of KMS"),
    (("        AttributeName: expires\n        Enabled: true", "        AttributeName: expires\n        Enabled: false"),
     "keeps everything for ever"),
    ((re.compile(r"      BucketEncryption:\n(        .*\n)+"), ""), "Blobs is not encrypted"),
    (('"30": { Kept: 45,', '"30": { Kept: 44,'), "what-no-task-needs-any-more takes payloads away"),
    (("AllowedValues: [7, 14,", "AllowedValues: [3, 7, 14,"), "RetentionDays may be 3"),
]  # fmt: skip
OF_STREAMS = [
    (
        ("      Handler: handlers.api.handler\n", "      Handler: handlers.api.handler\n      Timeout: 60\n"),
        "may take 60 s",
    ),
    (("TimeoutInMillis: 900000", "TimeoutInMillis: 29000"), "is cut after 29 s by TimeoutInMillis"),
    ((re.compile(r"          AWS_LAMBDA_EXEC_WRAPPER: .*\n"), ""), "ApiFunction.Root is buffered"),
    (("          AION_ASGI_APP: handlers.api:app\n", ""), "ApiFunction.Root is buffered"),
    (("AION_ASGI_APP: handlers.api:app", "AION_ASGI_APP: handlers.api:handler"), "ApiFunction.Root is buffered"),
]
OF_EXPOSURE = [
    (("Principal: { Service: lambda.amazonaws.com }", 'Principal: "*"'), "ApiRole lets everybody in"),
    (
        ("Principal: { Service: lambda.amazonaws.com }", "Principal: { Service: ec2.amazonaws.com }"),
        "may be taken on by",
    ),
    ((re.compile(r"AWS: !Sub arn:.*:root"), 'AWS: "*"'), "Key lets everybody in"),
    ((re.compile(r"Effect: Deny(\n +Principal)"), r"Effect: Allow\1"), "BlobsPolicy lets everybody in"),
    (('aws:SecureTransport: "false"', 'aws:SecureTransport: "true"'), "may be spoken to without TLS"),
    (("BlockPublicPolicy: true", "BlockPublicPolicy: false"), "Blobs may be opened to the public"),
    (('AION_AUTH: "on"', 'AION_AUTH: "off"'), "ApiFunction asks nobody who they are"),
    (('"${ApiAuthorizer},${FunctionUrlAuth}"', '"AWS_IAM,${FunctionUrlAuth}"'), "is not told by AION_HTTP_ENTRYPOINTS"),
    (("        DefaultAuthorizer: !Ref ApiAuthorizer\n", ""), "/{proxy+} is open"),
    (("900000\n        Everything", "900000\n            Auth: { Authorizer: NONE }\n        Everything"), "/ is open"),
]
OF_CALLS = [
    (("BatchSize: 1\n", "BatchSize: 1\n            Enabled: false\n"), "leaves messages in the queue"),
    (
        ("BatchSize: 1\n", "BatchSize: 1\n            FilterCriteria: { Filters: [{ Pattern: '{}' }] }\n"),
        "TaskFunctionBell leaves messages in the queue, or drops them",
    ),
    (("rate(1 minute)", "rate(1 day)"), "what is overdue waits for it"),
    (("rate(1 minute)\n", "rate(1 minute)\n            Enabled: false\n"), "what is overdue waits for it"),
    ((re.compile(r"      Events:\n        EveryMinute:\n(          .*\n)+"), ""), "nothing calls SweepFunction"),
    (("VisibilityTimeout: 960\n", "VisibilityTimeout: 960\n      MessageRetentionPeriod: 60\n"), "forgets messages"),
    (("maxReceiveCount: 5", "maxReceiveCount: 1"), "maxReceiveCount has to be at least 5"),
    (("AttributeName: expires\n", "AttributeName: expires_at\n"), "keeps everything for ever"),
    (("      Type: !Ref Deployment\n", "      Enabled: false\n      Type: !Ref Deployment\n"), "all requests at once"),
    (("AION_TABLE: !GetAtt State.Outputs.Table\n", 'AION_TABLE: ""\n'), "AION_TABLE is missing, or empty"),
]
OF_OPERATIONS = [
    (
        ("TreatMissingData: ignore\n", "TreatMissingData: ignore\n      ActionsEnabled: false\n"),
        "rings and tells nobody",
    ),
    (("ComparisonOperator: GreaterThanThreshold", "ComparisonOperator: LessThanThreshold"), "rings while all is well"),
    ((re.compile(r"  SweepFoundWorkAlarm:\n(    .*\n)+"), ""), "has a section SweepFoundWorkAlarm, and there is no"),
    (("      RetentionInDays: !Ref LogRetentionDays\n", ""), "keeps logs for ever"),
    (
        ("      LoggingConfig:\n        LogGroup: !Sub /aws/lambda/${AWS::StackName}-api\n", ""),
        "a group without retention",
    ),
    (("      LogFormat: JSON\n", ""), "ApiFunction: what Lambda itself logs would be no JSON"),
    (
        ("      LogFormat: JSON\n", "      LogFormat: JSON\n      ApplicationLogLevel: WARN\n"),
        "PushFunction counts nothing",
    ),
    (("      AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]\n", ""), "rings and tells nobody"),
    (("docs/runbook.md#taskdeadlettersalarm", "the runbook"), "TaskDeadLettersAlarm does not say where the operator"),
    (
        ("      TreatMissingData: ignore\n", ""),
        "TaskDeadLettersAlarm does not say what it means when nothing is counted",
    ),
    (("      AlarmName: !Sub ${Service}-SweepErrorsAlarm\n", ""), "SweepErrorsAlarm is called by something random"),
    (("Value: !Ref TaskDeadLetters }", "Value: !Ref TaskQueue }"), "no alarm rings for Approximate"),
    (
        ("MetricName: ApproximateAgeOfOldestMessage", "MetricName: AgeOfOldestMessage"),
        "nothing counts AgeOfOldestMessage",
    ),
    (("MetricName: PushGivenUp", "MetricName: PushGivenUps"), "PushGivenUpAlarm: nothing counts PushGivenUps in aion"),
    (
        ("Dimensions: [{ Name: service, Value: !Ref Service }]", "Dimensions: []"),
        "nothing counts SweepFound in aion by []",
    ),
    (
        ("              MetricName: Errors\n", "              MetricName: Duration\n"),
        "no alarm rings for Errors of ApiFunc",
    ),
    (
        ("MetricName: ApiLoggedErrors, MetricValue", "MetricName: ApiErrors, MetricValue"),
        "nothing counts ApiLoggedErrors",
    ),
    (('["aion", "Turns",', '["aion", "Turn",'), "Dashboard, 'Turns': nothing counts Turn in aion"),
    (('[".", "5XXError"', '[".", "6XXError"'), "Dashboard, 'Requests': nothing counts 6XXError"),
    (('["...", "${PushDeadLetters}"]', '["...", "push-dead-letters"]'), "QueueName push-dead-letters: there is none"),
    (("Name: !Ref AWS::StackName", "Name: aion"), "of ApiName gated-stack: there is none"),
]
OF_FILES = [
    # The alias waits for the alarms: what they are of may not wait for the alias.
    (("        ApiFunction: !Ref ApiFunction\n", "        ApiFunction: !Ref ApiFunction.Alias\n"), "template.yaml waits for itself"),
    (("Outputs:\n  ApiUrl:", "# on and on\n" * 200 + "Outputs:\n  ApiUrl:"), "template.yaml has more than 600 lines"),
    (("Resources:\n  # --- A2A", "Metadata:\n  cfn-lint: { config: { ignore_checks: [W3002] } }\nResources:\n  # --- A2A"),
     "keeps the linter quiet without a reason"),
    (("AlarmName: !Sub ${Service}-", "AlarmName: !Sub ${AWS::StackName}-"), "AWS::StackName is the nested stack's own"),
    (("        TableArn: !GetAtt State.Outputs.TableArn\n", ""), "Roles is not given its parameter TableArn"),
    (("        TableArn: !GetAtt", "        TabelArn: !GetAtt"), "has no parameter TabelArn"),
    (("  KeyArn:\n    Value: !If", "  CipherArn:\n    Value: !If"), "has no output KeyArn"),
    (("Value: !GetAtt State.Outputs.Bucket\n", "Value: !GetAtt State.Outputs.Buckets\n"), "State has no output Buckets"),
    (("Threshold: !Ref SlowSeconds", "Threshold: 60"), "Operations: nothing uses the parameter SlowSeconds"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mend", "told"),
    [*OF_FUNCTIONS, *OF_STREAMS, *OF_ACCESS, *OF_EXPOSURE, *OF_STATE, *OF_CALLS, *OF_OPERATIONS, *OF_FILES],
    ids=lambda value: str(value)[:40],
)
def test_the_gate_notices(mend: Mend, told: str, tmp_path: Path) -> None:
    found = list(problems(broken(mend, tmp_path), lint=False))
    assert any(told in problem for problem in found), found


def test_the_gate_notices_a_function_url_that_is_open_though_a_signature_was_asked_for(tmp_path: Path) -> None:
    wrong = broken(("    Condition: HasOpenFunctionUrl\n", ""), tmp_path)
    found = list(problems(wrong, {"FunctionUrlAuth": "AWS_IAM"}, lint=False))
    assert any("OpenUrl lets everybody in" in problem for problem in found), found


@pytest.mark.parametrize(("mend", "told"), OF_A_LINTER)
def test_the_linter_notices(mend: Mend, told: str, tmp_path: Path) -> None:
    assert any(told in problem for problem in problems(broken(mend, tmp_path)))


def test_whatever_a_parameter_changes_of_a_function_makes_a_version_of_it() -> None:
    """The alias goes on with the old version otherwise, and what was deployed changes nothing."""
    changed = {**EVERYTHING, "BaseUrl": "https://other.example.com", "MemorySize": "2048", "LeaseSeconds": "60"}
    changed |= {"MaxTries": "5", "BlockingWait": "100", "RetentionDays": "7", "CardKeyId": "k-1", "Stage": "prod"}
    changed |= {"CardKeyUrl": "https://keys.example.com/", "PushHosts": "a.example", "PushPorts": "444"}
    before = Template(TEMPLATE, NOWHERE)
    configurations = {configuration_of(before)}
    reached = set()
    for parameter, value in changed.items():
        after = Template(TEMPLATE, NOWHERE, {parameter: value})
        for name in before.resources(FUNCTION):
            parts = ("Environment", "MemorySize", "Architectures", "Timeout", "LoggingConfig", "VpcConfig")
            if after.resolved(name, *parts) != before.resolved(name, *parts):
                reached.add(parameter)
                assert configuration_of(after) not in configurations, f"{parameter} changes {name}"
    assert len(reached) > 15


def configuration_of(template: Template) -> str:
    content: str = template.resolved("ConfigurationVersion", "Content")["Content"]
    return content


def test_a_version_is_described_by_the_number_of_its_configuration() -> None:
    """What CloudFormation makes a new version for is a new description: SAM's hash does not hold what parameters say."""
    resources = transformed(TEMPLATE, {})["Resources"].values()
    for kind in ("AWS::Lambda::Version", "AWS::Lambda::Function"):
        described = [each["Properties"]["Description"]["Fn::Sub"] for each in resources if each["Type"] == kind]
        assert len(described) == 4
        assert all("${State.Outputs.ConfigurationVersion}" in each for each in described)


CONFIGS = tomllib.loads((ROOT / "samconfig.toml").read_text())


@pytest.mark.parametrize("config", ["default", "dev", "prod"])
def test_what_samconfig_deploys_is_right(config: str) -> None:
    """A parameter that the template does not have, or a value that it does not take, fails only at AWS."""
    declared = transformed(TEMPLATE, {})["Parameters"]
    deploy = CONFIGS[config]["deploy"]["parameters"]
    parameters = dict(each.split("=", 1) for each in deploy["parameter_overrides"])
    for name, value in parameters.items():
        assert name in declared
        assert value in map(str, declared[name].get("AllowedValues", [value]))
    assert list(problems(TEMPLATE, parameters, lint=False)) == []
    assert deploy["stack_name"] in ("aion-dev", "aion-prod")
    # Of a template with a transform and nested stacks AWS asks for both.
    assert deploy["capabilities"].split() == ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]


def test_plain_sam_deploy_is_dev_and_prod_differs_where_it_matters() -> None:
    assert CONFIGS["default"] == CONFIGS["dev"]
    dev, prod = (CONFIGS[config]["deploy"]["parameters"] for config in ("dev", "prod"))
    assert dev["stack_name"] != prod["stack_name"]
    assert "Deployment=AllAtOnce" in dev["parameter_overrides"]
    assert any(each.startswith("Deployment=Canary") for each in prod["parameter_overrides"])
    assert prod["confirm_changeset"]


def test_a_deployment_all_at_once_asks_no_alarm_so_that_a_remedy_goes_out_while_one_rings() -> None:
    groups = [
        resource["Properties"]
        for resource in transformed(TEMPLATE, {"Deployment": "AllAtOnce"})["Resources"].values()
        if resource["Type"] == "AWS::CodeDeploy::DeploymentGroup"
    ]
    assert len(groups) == 4
    for group in groups:
        condition, _, otherwise = group["AlarmConfiguration"]["Fn::If"]
        assert (condition, otherwise) == ("AsksAlarms", {})
    assert Template(TEMPLATE, NOWHERE).resolve({"Fn::If": ["AsksAlarms", 1, 0]}, "") == 1
    assert Template(TEMPLATE, NOWHERE, {"Deployment": "AllAtOnce"}).resolve({"Fn::If": ["AsksAlarms", 1, 0]}, "") == 0


def test_every_parameter_is_in_a_group_and_described() -> None:
    plain = transformed(TEMPLATE, {})
    groups = plain["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(name for group in groups for name in group["Parameters"]) == sorted(plain["Parameters"])
    assert all(parameter["Description"] for parameter in plain["Parameters"].values())


def test_a_stack_passes_on_where_it_is_as_far_as_it_was_told() -> None:
    """R4: BaseUrl goes before the domain; without either the function goes by AWS's events, and nothing is left to do."""
    told = Template(TEMPLATE, NOWHERE, {"DomainName": "agents.example.com"})
    assert told.environment("ApiFunction")["AION_BASE_URL"] == "https://agents.example.com"
    given = Template(TEMPLATE, NOWHERE, {"DomainName": "agents.example.com", "BaseUrl": "https://other.example.com"})
    assert given.environment("ApiFunction")["AION_BASE_URL"] == "https://other.example.com"
    assert Template(TEMPLATE, NOWHERE).environment("ApiFunction")["AION_BASE_URL"] == ""
    outputs = transformed(TEMPLATE, {})["Outputs"]
    assert not any("BaseUrl=" in json.dumps(output) for output in outputs.values())


def test_a_stack_deployed_without_a_word_answers_signed_requests_only() -> None:
    plain = transformed(TEMPLATE, {})
    paths = plain["Resources"]["Api"]["Properties"]["Body"]["paths"]
    methods = [method for path in paths.values() for method in path.values()]
    assert len(methods) == 2
    assert all(method["security"] == [{"AWS_IAM": []}] for method in methods)
    entrypoints = Template(TEMPLATE, NOWHERE).owner("FunctionUrl").document["Resources"]
    for resource in [*plain["Resources"].values(), *entrypoints.values()]:
        if resource["Type"] == "AWS::Lambda::Url" or '"Principal": "*"' in json.dumps(resource):
            # A bucket policy says nobody, a Function URL is made only when it is asked for.
            is_refusal = '"Effect": "Deny"' in json.dumps(resource)
            assert is_refusal or resource["Condition"] in ("HasFunctionUrl", "HasOpenFunctionUrl")
    assert plain["Parameters"]["FunctionUrlAuth"]["Default"] == "OFF"


def test_it_is_open_to_everybody_only_when_that_is_asked_for() -> None:
    paths = transformed(TEMPLATE, OPEN)["Resources"]["Api"]["Properties"]["Body"]["paths"]
    assert not any("security" in method for path in paths.values() for method in path.values())
