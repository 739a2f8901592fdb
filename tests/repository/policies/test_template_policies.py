"""Policy rules for template.yaml: they accept the template, and refuse it with any one injected mistake."""

import re
from pathlib import Path
from typing import Any

import pytest

from scripts.policies.check import (
    EVERY_OPTION,
    VALUES,
    VARIANTS,
    document,
    linted,
    problems,
    schema_errors,
    transformed,
    values_at,
)
from scripts.policies.deployment import ROOT, ResolvedDeployment

TEMPLATE = ROOT / "template.yaml"
R = re.compile
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:users-AbCdEf"
PARAMETER = "arn:aws:ssm:eu-west-1:123456789012:parameter/aion/secret"
KEY = "arn:aws:kms:us-east-1:123456789012:key/a-key"

# Text in the template, its replacement, and the reported problem.
BREAKAGES = [
    ("MemorySize: !Ref MemorySize", "MemorySice: !Ref MemorySize", "'MemorySice' is not a supported property"),
    ("    AutoPublishAlias: live\n", "", "requires AutoPublishAlias property"),
    ("${MaxTries}", "", "MaxTries in Configuration of State"),
    ("        AION_TABLE: !GetAtt State.Outputs.Table\n", "", "start of ApiFunction"),
    ("AION_MAX_TRIES:", "AION_MAXTRIES:", "variables of ApiFunction that no code reads"),
    ("AION_CARD_KEY_ID: !Ref", "AION_CARD_KEY_NAME: !Ref", "variables of ApiFunction that no code reads"),
    ("          AION_CARD_KEY_ID: !Ref CardKeyId\n", "", "NOT_DEPLOYED): unexpected ['AION_CARD_KEY_ID']"),
    ("          AION_CONSOLE: !Ref Console\n", "", "NOT_DEPLOYED): unexpected ['AION_CONSOLE']"),
    ("AION_MAX_TRIES: !Ref MaxTries", "AION_STORE: memory", "missing ['AION_STORE']"),
    ("        OTEL_EXPORTER_OTLP_ENDPOINT: !Ref OtlpEndpoint\n", "", "unexpected ['OTEL_EXPORTER_OTLP_ENDPOINT']"),
    ("          ${SubnetIds} ${SecurityGroupIds} ${Console} ", "          ${SubnetIds} ${Console} ", "SecurityGroupIds in Configuration of State"),
    (R(r"      VpcConfig:\n        .*\n"), r"", "ApiFunction.VpcConfig"),
    (R(r"(    Timeout: 900\n)"), r"\1    VpcConfig: { SubnetIds: [!Ref SubnetIds], SecurityGroupIds: [!Ref SecurityGroupIds] }\n", "ApiFunction.VpcConfig"),
    ("Resource: !Ref TableArn", 'Resource: "*"', "wide resources of Table of ApiRole"),
    ("Resource: !Ref TableArn", 'Resource: !Sub "arn:aws:dynamodb:${AWS::Region}:*"', "wide resources of Table of ApiRole"),
    ("Resource: !Ref BasicUsersSecret", 'Resource: "*"', "BasicUsersSecret of ApiRole"),
    ("Resource: !Ref CardKeySecret", 'Resource: "*"', "CardKeySecret of ApiRole"),
    ("Resource: !Ref AgentSecrets\n", 'Resource: "*"\n', "AgentSecrets of ApiRole"),
    ("Resource: !Ref AgentSecrets\n", 'Resource: !Sub "arn:aws:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:??????"\n', "AgentSecrets of ApiRole"),
    ("Resource: !Ref AgentSecrets\n", 'Resource: "arn:aws:secretsmanager:*:123456789012:secret:openai-??????"\n', "AgentSecrets of ApiRole"),
    ("                  Resource: !Ref BedrockModels\n", '                  Resource: "*"\n', "BedrockModels of ApiRole"),
    (R(r"\n +Condition:\n +StringEquals:\n +bedrock:InferenceProfileArn: !Ref BedrockModels"), r"", "BedrockProfiles of ApiRole, condition"),
    ("bedrock:InferenceProfileArn: !Ref BedrockModels", 'bedrock:InferenceProfileArn: "*"', "BedrockProfiles of ApiRole, condition"),
    ("                    StringEquals:\n                      bedrock:Inf", "                    StringLike:\n                      bedrock:Inf", "BedrockProfiles of ApiRole, condition"),
    ("                  Resource: !Ref AgentSecretsKey\n", '                  Resource: "*"\n', "AgentSecretsKey of ApiRole"),
    ("ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]", "ManagedPolicyArns: [arn:aws:iam::aws:policy/AmazonS3FullAccess]", "managed policies of ApiRole"),
    ("      ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]\n", "", "managed policies of ApiRole"),
    ("                  Resource: !Ref AgentSecrets\n", "                  Resource: !Ref CardKeySecret\n", "AgentSecrets of ApiRole"),
    ("  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n", "  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n      ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]\n", "managed policies of PushRole"),
    ("dynamodb:LeadingKeys: TASK#*", "dynamodb:LeadingKeys: [TASK#*, API-KEY#*]", "Tasks of PushRole, kind of items API-KEY#*"),
    ("dynamodb:LeadingKeys: TASK#*", 'dynamodb:LeadingKeys: "*"', "Deliveries of PushRole, kind of items *"),
    ("                      - CONTEXT#*\n", "                      - CONTEXTS#*\n", "Table of TaskRole, kind of items CONTEXTS#*"),
    (R(r"(- Sid: Tasks\n(.*\n){3}) +Condition:\n.*\n.*\n"), r"\1", "Tasks of PushRole, kind of items *"),
    (R(r"(- Sid: ApiKeys\n.*\n +Action: )dynamodb:GetItem"), r"\1dynamodb:PutItem", "ApiKeys of ApiRole, kind of items API-KEY#*"),
    (R(r"(- Sid: Due\n.*\n.*\n +Resource: ).*"), r"\1!Select [0, !Ref AgentSecrets]", "wide resources of Due of SweepRole"),
    ("AgentSecrets: !Ref AgentSecrets\n", "AgentSecrets: !Ref AgentPolicyArns\n", "AgentSecrets of ApiRole"),
    ("  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n", "  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n      ManagedPolicyArns: [arn:aws:iam::aws:policy/A]\n", "managed policies of PushRole"),
    ("  SweepRole:\n    Type", "  More:\n    Type: AWS::IAM::Policy\n    Properties: { PolicyName: More, Roles: [!Ref PushRole] }\n\n  SweepRole:\n    Type", "More"),
    ("        AttributeName: expires\n        Enabled: true", "        AttributeName: expires\n        Enabled: false", "TTL of Table"),
    ("      DeletionProtectionEnabled: !If [ProtectsTable, true, false]\n", "", "Table.DeletionProtectionEnabled"),
    ("DeletionProtection: !Ref DeletionProtection\n", 'DeletionProtection: "false"\n', "Table.DeletionProtectionEnabled"),
    ('"30": { Kept: 45,', '"30": { Kept: 44,', "expiry in Blobs at RetentionDays=30"),
    ("AllowedValues: [7, 14,", "AllowedValues: [3, 7, 14,", "Blobs.LifecycleConfiguration.Rules[1].ExpirationInDays"),
    ('"${ApiAuthorizer},${FunctionUrlAuth}"', '"AWS_IAM,${FunctionUrlAuth}"', "AION_HTTP_ENTRYPOINTS"),
    ("        DefaultAuthorizer: !Ref ApiAuthorizer\n", "", "Api.DefaultAuthorizer"),
    ("        DEFAULT_5XX:\n", "        UNAUTHORIZED:\n", "Api/GatewayResponses"),
    ("      InvokeMode: RESPONSE_STREAM\n", "      InvokeMode: RESPONSE_STREAM\n      Cors: { AllowOrigins: ['*'] }\n", "FunctionUrl/Cors"),
    ("AttributeName: expires\n", "AttributeName: expires_at\n", "TTL of Table"),
    ("AION_TABLE: !GetAtt State.Outputs.Table\n", 'AION_TABLE: ""\n', "start of ApiFunction"),
    (R(r"  SweepFoundWorkAlarm:\n(    .*\n)+"), r"", "alarms in docs/runbook.md"),
    ("      RetentionInDays: !Ref LogRetentionDays\n", "", "TaskLogGroup.RetentionInDays"),
    ("      AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]\n", "", "TaskDeadLettersAlarm.AlarmActions"),
    ("docs/runbook.md#taskdeadlettersalarm", "the runbook", "end of TaskDeadLettersAlarm.AlarmDescription"),
    ("      AlarmName: !Sub ${Service}-SweepErrorsAlarm\n", "", "SweepErrorsAlarm.AlarmName"),
    ("MetricName: ApproximateAgeOfOldestMessage", "MetricName: AgeOfOldestMessage", "TaskQueueAgeAlarm"),
    ("MetricName: PushGivenUp", "MetricName: PushGivenUps", "PushGivenUpAlarm"),
    ("Dimensions: [{ Name: service, Value: !Ref Service }]", "Dimensions: []", "TaskErrorsAlarm"),
    ("              MetricName: Errors\n", "              MetricName: Duration\n", "ApiErrorsAlarm"),
    ("MetricName: ApiLoggedErrors, MetricValue", "MetricName: ApiErrors, MetricValue", "ApiErrorsAlarm"),
    ('["aion", "Turns",', '["aion", "Turn",', "Turns"),
    ('[".", "5XXError"', '[".", "6XXError"', "Requests"),
    ('["...", "${PushDeadLetters}"]', '["...", "push-dead-letters"]', "of {'QueueName': 'push-dead-letters'}"),
    ("Name: !If [HasName, !Ref Name, !Ref AWS::StackName]\n      StageName", "Name: aion\n      StageName", "ApiErrorsAlarm"),
    ("        ApiFunction: !Ref ApiFunction\n", "        ApiFunction: !Ref ApiFunction.Alias\n", "ApiErrorsAlarm"),
    ("Outputs:\n  ApiUrl:", "# a line\n" * 200 + "Outputs:\n  ApiUrl:", "more than 600 lines in template.yaml"),
    ("Resources:\n  # --- A2A", "Metadata:\n  cfn-lint: { config: { ignore_checks: [W3002] } }\nResources:\n  # --- A2A", "a line without a reason in template.yaml"),
    ("AlarmName: !Sub ${Service}-", "AlarmName: !Sub ${AWS::StackName}-", "the random name of the nested stack in operations.yaml"),
    ("        TableArn: !GetAtt State.Outputs.TableArn\n", "", "roles.yaml.Policies[0].PolicyDocument.Statement[1].Resource"),
    ("        TableArn: !GetAtt", "        TabelArn: !GetAtt", "infra/roles.yaml has no parameter TabelArn"),
    ("  KeyArn:\n    Value: !If", "  CipherArn:\n    Value: !If", "template.yaml.Parameters.KeyArn"),
    ("Value: !GetAtt State.Outputs.Bucket }", "Value: !GetAtt State.Outputs.Buckets }", "template.yaml"),
    ("Threshold: !Ref SlowSeconds", "Threshold: 60", "unused parameters in operations.yaml"),
    ("            ScalingConfig:\n              MaximumConcurrency: !Ref PushConcurrency\n", "", "ScalingConfig/MaximumConcurrency"),
    ("MaximumConcurrency: !Ref TaskConcurrency", "MaximumConcurrency: !Ref PushConcurrency", "unused parameters in template.yaml"),
    ("        CredentialsKey: !Ref CredentialsKey\n", '        CredentialsKey: ""\n', "AION_KMS_KEY"),
    (R(r"(RetentionDays: !Ref )(RetentionDays\n +Cred)"), r"\1Log\2", "expiry in Blobs at RetentionDays=7"),
    ("LogRetentionDays: !Ref LogRetentionDays", "LogRetentionDays: !Ref RetentionDays", "TaskLogGroup.RetentionInDays"),
    ("[MakesKey, !GetAtt Key.Arn, !Ref", "[MakesKey, !Ref CredentialsKey, !Ref", "AION_KMS_KEY"),
    ("TaskQueueUrl: { Value: !GetAtt State.Outputs.TaskQueue }", "TaskQueueUrl: { Value: !GetAtt State.Outputs.PushQueue }", "TaskQueueUrl"),
    ("AION_RETENTION_DAYS: !Ref RetentionDays", "AION_RETENTION_DAYS: !Ref LogRetentionDays", "AION_RETENTION_DAYS of TaskFunction"),
    ("TargetFunctionArn: !Ref Function", "TargetFunctionArn: !Ref Certificate", "entrypoints.yaml.TargetFunctionArn"),
    ("IndexName: due", "IndexName: overdue", "keys of Table"),
    ("{ AttributeName: due_shard, KeyType: HASH }", "{ AttributeName: pk, KeyType: HASH }", "keys of Table"),
    ("- { AttributeName: sk, KeyType: RANGE }", "- { AttributeName: due_at, KeyType: RANGE }", "keys of Table"),
    ("due_at, AttributeType: N", "due_at, AttributeType: S", "attributes of Table"),
    (R(r"(IndexName: by_agent\n(.*\n){3}.*Projection: ).*"), r"\1{ ProjectionType: KEYS_ONLY }", "projections of Table"),
    ("NonKeyAttributes: [state, expires]", "NonKeyAttributes: [state]", "projections of Table"),
    ("Prefix: threads/", "Prefix: thread/", "expiry in Blobs at RetentionDays=7"),
    (R(r"(Id: payloads-of-tasks\n\s+Status: )Enabled"), r"\1Disabled", "expiry in Blobs at RetentionDays=7"),
    ("            Prefix: tasks/\n", "", "expiry in Blobs at RetentionDays=7"),
    ("Prefix: artifacts/", "Prefix: permanent/artifacts/", "expiry in Blobs at RetentionDays=7"),
    ("!Ref RetentionDays, Session]", "!Ref RetentionDays, Kept]", "expiry in Blobs at RetentionDays=7"),
    ('"90": { Kept: 105,', '"90": { Kept: 90,', "expiry in Blobs at RetentionDays=90"),
    ("            Prefix: tasks/\n            ExpirationInDays: !FindInMap [BlobDays, !Ref RetentionDays, Kept]\n", "            Prefix: tasks/\n            ExpirationDate: 2030-01-01T00:00:00Z\n", "expiry in Blobs at RetentionDays=7"),
    ("AION_KMS_KEY: !GetAtt State.Outputs.KeyArn", "AION_KMS_KEY: alias/aws/s3", "AION_KMS_KEY"),
    ("Runtime: python3.13", "Runtime: python3.11", "ApiFunction.Runtime"),
    ("ReservesConcurrency: !Not [!Equals [!Ref ApiConcurrency, 0]]", "ReservesConcurrency: !Equals [!Ref ApiConcurrency, 0]", "ApiFunction.ReservedConcurrentExecutions"),
    (R(r"(Handler: handlers.deliver_push.handler\n)"), r"\1      VpcConfig: { SubnetIds: [subnet-1], SecurityGroupIds: [sg-1] }\n", "PushFunction.VpcConfig"),
    (R(r"(Handler: handlers.deliver_push.handler\n(.*\n)*?.*Timeout: )300"), r"\g<1>20", "posts for one message within PushFunction.Timeout"),
    ("AuthType: !Ref FunctionUrlAuth", "AuthType: NONE", "FunctionUrl.AuthType"),
    ("AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]", "AlarmActions: [!Ref GivenTopic]", "TaskDeadLettersAlarm.AlarmActions"),
    ("AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]", "AlarmActions: [!Ref Topic]", "operations.yaml.AlarmActions[0]"),
    ("      OKActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]\n", "", "TaskDeadLettersAlarm.OKActions"),
    ("      InsufficientDataActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]\n", "", "SweepErrorsAlarm.InsufficientDataActions"),
    ("      TreatMissingData: missing", "      TreatMissingData: breaching", "SweepErrorsAlarm/TreatMissingData: 'breaching' is not one of"),
    ("Expression: broken + FILL(logged, 0)", "Expression: MAX([FILL(broken, 1), FILL(logged, 0)])", "SweepErrorsAlarm, substitutes for missing data"),
    ("      DatapointsToAlarm: 2\n", "", "ApiErrorsAlarm fires during each traffic shift"),
    (R(r"(  ApiLatencyAlarm:\n(.*\n)*?            Period: )60"), r"\g<1>300", "ApiLatencyAlarm fires during each traffic shift"),
    ("Canary10Percent15Minutes, ", "Canary10Percent3Minutes, ", "TaskErrorsAlarm fires during each traffic shift"),
    ("    DeletionPolicy: RetainExceptOnCreate\n", "    DeletionPolicy: Retain\n", "Table/DeletionPolicy: 'RetainExceptOnCreate' was expected"),
    ("    UpdateReplacePolicy: Retain\n    Metadata:", "    Metadata:", "ApiFunction/UpdateReplacePolicy"),
    ("        maxReceiveCount: 20\n", "        maxReceiveCount: 5\n", "maxReceiveCount"),
    ("      VisibilityTimeout: 960\n", "      VisibilityTimeout: 5400\n", "TaskQueue/VisibilityTimeout"),
    (", !Ref PushQueue, !Ref PushDeadLetters]", ", !Ref PushQueue]", "queues with a policy: unexpected [], missing ['https://sqs/123456789012/stack-State-PushDeadLetters']"),
    (R(r'(Action: "sqs:\*"\n(.*\n){3} +aws:SecureTransport: )"false"'), r'\1"true"', "QueuesPolicy/PolicyDocument/Statement"),
    (R(r"  QueuesPolicy:\n(    .*\n)+"), "", "queues with a policy: unexpected [], missing"),
    ("function:${ApiFunction}*\n", "function:${Service}-*\n", "DeploymentRole/Policies/0/PolicyDocument/Statement/Aliases/Resource"),
    ("  PushGivenUpAlarm:\n", "  PushLostAlarm:\n", "alarms in docs/runbook.md"),
    ("is given up*", "is abandoned*", "log message that PushLoggedErrors excludes"),
    ("LogGroupName: !Ref TaskLogGroup", "LogGroupName: !Ref PushLogGroup", "TaskLoggedErrors/LogGroupName"),
]  # fmt: skip


@pytest.mark.deep
def test_template_passes_cfn_lint_and_policies() -> None:
    assert list(problems(TEMPLATE)) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"ApiAuthorizer": "NONE", "FunctionUrlAuth": "NONE"},
        {"CredentialsKey": KEY, "RetentionDays": "3650", "LeaseSeconds": "5", "TaskConcurrency": "2"},
        {"RetentionDays": "7", "Stage": "prod"},
        {"BaseUrl": "https://agents.example.com", "AlarmTopic": EVERY_OPTION["AlarmTopic"]},
        {"BasicUsersSecret": PARAMETER, "CardKeySecret": SECRET, "CardKeyId": "k-1"},
        {"AgentSecrets": SECRET},
        {"AgentSecrets": PARAMETER, "AgentSecretsKey": KEY},
        {"AgentPolicyArns": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"},
        {"BedrockModels": "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123"},
        {"SubnetIds": "subnet-0a1b", "SecurityGroupIds": "sg-0a,sg-0b"},
    ],
)
def test_template_passes_security_policies_with_each_parameter_set(parameters: dict[str, str]) -> None:
    assert list(problems(TEMPLATE, [parameters], lint=False)) == []


def broken(folder: Path, before: str | re.Pattern[str], after: str) -> Path:
    """Copy the template's files, with one replacement in the first file that contains the text."""
    is_done = False
    (folder / "infra").mkdir()
    for file in (TEMPLATE, *sorted((ROOT / "infra").glob("*.yaml"))):
        text = file.read_text()
        changed = (
            text
            if is_done
            else before.sub(after, text)
            if isinstance(before, re.Pattern)
            else text.replace(before, after)
        )
        is_done |= changed != text
        (folder / file.relative_to(ROOT)).write_text(changed)
    assert is_done, before
    return folder / "template.yaml"


@pytest.mark.parametrize(("before", "after", "problem"), BREAKAGES, ids=lambda each: str(each)[:40])
def test_template_policies_find_planted_mistake(
    before: str | re.Pattern[str], after: str, problem: str, tmp_path: Path
) -> None:
    found = []
    for each in problems(broken(tmp_path, before, after), lint=False):
        found.append(each)
        if problem in each:
            return
    pytest.fail(f"not found: {found}")


def test_security_policies_accept_api_with_disabled_default_endpoint(tmp_path: Path) -> None:
    """Add the line of docs/security.md: the API's default endpoint is disabled, and the policies accept this."""
    page = (ROOT / "docs" / "security.md").read_text()
    (line,) = re.findall(r"Set `(\w+: true)` on\s`Api`", page)
    closed = broken(tmp_path, "      StageName: !Ref Stage\n", f"      StageName: !Ref Stage\n      {line}\n")
    domain = {name: EVERY_OPTION[name] for name in ("DomainName", "CertificateArn")}
    assert list(problems(closed, [domain], lint=False)) == []
    configuration = {"x-amazon-apigateway-endpoint-configuration": {"disableExecuteApiEndpoint": True}}
    assert transformed(closed)["Resources"]["Api"]["Properties"]["Body"]["servers"] == [configuration]


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return [document(ResolvedDeployment(TEMPLATE, parameters)) for parameters in VARIANTS]


@pytest.mark.parametrize("start", VALUES)
def test_each_policy_for_template_value_refuses_a_wrong_value(start: str, documents: list[dict[str, Any]]) -> None:
    for end, schema in VALUES[start].items():
        path = f"{start}/{end}"
        assert end == "." or any([*values_at(each, path)] for each in documents), path
        wrong_values: tuple[Any, ...] = (None, "ec2:*", {"Type": "Canary"}, [], 0, 10**9)
        assert any([*schema_errors(schema, wrong)] for wrong in wrong_values), path


@pytest.mark.deep
def test_cfn_lint_finds_planted_mistakes(tmp_path: Path) -> None:
    path = broken(tmp_path, "MemorySize: 512\n", "MemorySize: 64\n")
    path.write_text(path.read_text().replace("        TableArn: !GetAtt", "        TabelArn: !GetAtt"))
    state = tmp_path / "infra/state.yaml"
    state.write_text(state.read_text().replace("BillingMode: PAY_PER_REQUEST", "BilingMode: PAY_PER_REQUEST"))
    found = "\n".join(linted(path))
    assert "template.yaml, transformed: E3034 64 is less than the minimum" in found
    assert 'E3043 Specified parameter "TabelArn" doesn\'t exist' in found
    assert "E3002 Additional properties are not allowed ('BilingMode'" in found
