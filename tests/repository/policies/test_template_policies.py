"""Policy rules for template.yaml: they accept the template, and refuse it with any one injected mistake."""

import re
from pathlib import Path

import pytest

from scripts.policies.check import EVERY_OPTION, linted, problems, transformed
from scripts.policies.deployment import ROOT
from scripts.policies.sizes import policy_sizes
from tests.support.rows import each_row

TEMPLATE = ROOT / "template.yaml"
R = re.compile
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:users-AbCdEf"
PARAMETER = "arn:aws:ssm:eu-west-1:123456789012:parameter/aion/secret"
KEY = "arn:aws:kms:us-east-1:123456789012:key/a-key"

# Text in the template, its replacement, and the reported problem.
BREAKAGES = [
    ("MemorySize: !Ref MemorySize", "MemorySice: !Ref MemorySize", "'MemorySice' is not a supported property"),
    ("${MaxTries}", "", "MaxTries in Configuration of State"),
    ("        AION_TABLE: !GetAtt State.Outputs.Table\n", "", "start of ApiFunction"),
    ("AION_MAX_TRIES:", "AION_MAXTRIES:", "variables of ApiFunction that no code reads"),
    ("          AION_CARD_KEY_ID: !Ref CardKeyId\n", "", "NOT_DEPLOYED): unexpected ['AION_CARD_KEY_ID']"),
    ("        AION_STORE: \"\"\n", "", "unexpected ['AION_STORE']"),
    ('AION_REVEAL_ERRORS: ""', 'AION_REVEAL_ERRORS: "true"', "development variables of SweepFunction"),
    ("          ${SubnetIds} ${SecurityGroupIds} ${Console} ", "          ${SubnetIds} ${Console} ", "SecurityGroupIds in Configuration of State"),
    (R(r"      VpcConfig:\n        .*\n"), r"", "ApiFunction.VpcConfig"),
    ("Resource: !Ref TableArn", 'Resource: "*"', "wide resources of Table of ApiRole"),
    ("Resource: !Ref AgentSecrets\n", 'Resource: "*"\n', "wide resources of AgentSecrets of ApiRole"),
    ("Resource: !Ref AgentSecrets\n", 'Resource: "arn:aws:secretsmanager:*:123456789012:secret:openai-??????"\n', "AgentSecrets of ApiRole"),
    ("bedrock:InferenceProfileArn: !Ref BedrockModels", 'bedrock:InferenceProfileArn: "*"', "BedrockProfiles of BedrockProfilesPolicy, condition"),
    ("ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]", "ManagedPolicyArns: [arn:aws:iam::aws:policy/AmazonS3FullAccess]", "managed policies of ApiRole"),
    ("  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n", "  PushRole:\n    Type: AWS::IAM::Role\n    Properties:\n      ManagedPolicyArns: !If [HasAgentPolicies, !Ref AgentPolicyArns, !Ref AWS::NoValue]\n", "managed policies of PushRole"),
    ("Roles: [!Ref ApiRole, !Ref TaskRole]", "Roles: [!Ref ApiRole, !Ref TaskRole, !Ref PushRole]", "roles of BedrockModelsPolicy"),
    ("            Resource: !Ref BedrockModels\n", '            Resource: "*"\n', "wide resources of BedrockModels of BedrockModelsPolicy"),
    ("            Resource: !Ref BedrockModels\n", "            Resource: !Ref BedrockModels\n            Condition: { StringEquals: { bedrock:InferenceProfileArn: !Ref BedrockModels } }\n", "BedrockModelsPolicy: at most 8"),
    ("dynamodb:LeadingKeys: TASK#*", "dynamodb:LeadingKeys: [TASK#*, API-KEY#*]", "Tasks of PushRole, kind of items API-KEY#*"),
    ("dynamodb:LeadingKeys: TASK#*", 'dynamodb:LeadingKeys: "*"', "Deliveries of PushRole, kind of items *"),
    ("                      - CONTEXT#*\n", "                      - CONTEXTS#*\n", "Table of TaskRole, kind of items CONTEXTS#*"),
    (R(r"(- Sid: ApiKeys\n.*\n +Action: )dynamodb:GetItem"), r"\1dynamodb:PutItem", "ApiKeys of ApiRole, kind of items API-KEY#*"),
    (R(r"(- Sid: Due\n.*\n.*\n +Resource: ).*"), r"\1!Select [0, !Ref AgentSecrets]", "wide resources of Due of SweepRole"),
    ("        AttributeName: expires\n        Enabled: true", "        AttributeName: expires\n        Enabled: false", "TTL of Table"),
    ("DeletionProtection: !Ref DeletionProtection\n", 'DeletionProtection: "false"\n', "Table.DeletionProtectionEnabled"),
    ('"30": { Kept: 45,', '"30": { Kept: 44,', "expiry in Blobs at RetentionDays=30"),
    ('"${ApiAuthorizer},${FunctionUrlAuth}"', '"AWS_IAM,${FunctionUrlAuth}"', "AION_HTTP_ENTRYPOINTS"),
    ("        DefaultAuthorizer: !Ref ApiAuthorizer\n", "", "Api.DefaultAuthorizer"),
    ("      InvokeMode: RESPONSE_STREAM\n", "      InvokeMode: RESPONSE_STREAM\n      Cors: { AllowOrigins: ['*'] }\n", "FunctionUrl.Cors"),
    (R(r"  SweepFoundWorkAlarm:\n(    .*\n)+"), r"", "alarms in docs/runbook.md"),
    ("      AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]\n", "", "TaskDeadLettersAlarm.AlarmActions"),
    ("docs/runbook.md#taskdeadlettersalarm", "the runbook", "end of TaskDeadLettersAlarm.AlarmDescription"),
    ("      AlarmName: !Sub ${Service}-SweepErrorsAlarm\n", "", "SweepErrorsAlarm.AlarmName"),
    ("MetricName: ApproximateAgeOfOldestMessage", "MetricName: AgeOfOldestMessage", "TaskQueueAgeAlarm"),
    ("Dimensions: [{ Name: service, Value: !Ref Service }]", "Dimensions: []", "TaskErrorsAlarm"),
    ("MetricName: ApiLoggedErrors, MetricValue", "MetricName: ApiErrors, MetricValue", "ApiErrorsAlarm"),
    ("        ApiFunction: !Ref ApiFunction\n", "        ApiFunction: !Ref ApiFunction.Alias\n", "ApiErrorsAlarm"),
    ("AlarmName: !Sub ${Service}-", "AlarmName: !Sub ${AWS::StackName}-", "TaskDeadLettersAlarm.AlarmName"),
    ("  KeyArn:\n    Value: !If", "  CipherArn:\n    Value: !If", "template.yaml.Parameters.KeyArn"),
    ("        CredentialsKey: !Ref CredentialsKey\n", '        CredentialsKey: ""\n', "AION_KMS_KEY"),
    ("AION_RETENTION_DAYS: !Ref RetentionDays", "AION_RETENTION_DAYS: !Ref LogRetentionDays", "AION_RETENTION_DAYS of TaskFunction"),
    ("IndexName: due", "IndexName: overdue", "keys of Table"),
    ("due_at, AttributeType: N", "due_at, AttributeType: S", "attributes of Table"),
    (R(r"(IndexName: by_agent\n(.*\n){3}.*Projection: ).*"), r"\1{ ProjectionType: KEYS_ONLY }", "projections of Table"),
    ("Prefix: threads/", "Prefix: thread/", "expiry in Blobs at RetentionDays=7"),
    (R(r"(Id: payloads-of-tasks\n\s+Status: )Enabled"), r"\1Disabled", "expiry in Blobs at RetentionDays=7"),
    ("AION_KMS_KEY: !GetAtt State.Outputs.KeyArn", "AION_KMS_KEY: alias/aws/s3", "AION_KMS_KEY"),
    (R(r"(Handler: handlers.deliver_push.handler\n)"), r"\1      VpcConfig: { SubnetIds: [subnet-1], SecurityGroupIds: [sg-1] }\n", "PushFunction.VpcConfig"),
    (R(r"(Handler: handlers.deliver_push.handler\n(.*\n)*?.*Timeout: )300"), r"\g<1>20", "posts for one message within PushFunction.Timeout"),
    ("AuthType: !Ref FunctionUrlAuth", "AuthType: NONE", "FunctionUrl.AuthType"),
    ("    DeletionPolicy: RetainExceptOnCreate\n", "    DeletionPolicy: Retain\n", "Table.DeletionPolicy"),
    ("    UpdateReplacePolicy: Retain\n    Metadata:", "    Metadata:", "ApiFunction.UpdateReplacePolicy"),
    ("        maxReceiveCount: 20\n", "        maxReceiveCount: 5\n", "maxReceiveCount"),
    ("      VisibilityTimeout: 960\n", "      VisibilityTimeout: 5400\n", "TaskQueue.VisibilityTimeout"),
    (", !Ref PushQueue, !Ref PushDeadLetters]", ", !Ref PushQueue]", "queues with a policy: unexpected [], missing ['https://sqs/123456789012/stack-State-PushDeadLetters']"),
    (R(r'(Action: "sqs:\*"\n(.*\n){3} +aws:SecureTransport: )"false"'), r'\1"true"', "policy that refuses requests without TLS"),
    ("is given up*", "is abandoned*", "log message that PushLoggedErrors excludes"),
    ("      PointInTimeRecoverySpecification:\n        PointInTimeRecoveryEnabled: true\n", "", "Table.PointInTimeRecoverySpecification"),
    ("/aws/lambda/${Service}-task", "/aws/lambda/${Service}-tasks", "TaskFunction.LoggingConfig.LogGroup"),
    ("ResponseTransferMode: RESPONSE_STREAM", "ResponseTransferMode: BUFFERED", "of ApiFunction"),
]  # fmt: skip


@pytest.mark.deep
def test_template_passes_cfn_lint_and_policies() -> None:
    assert list(problems(TEMPLATE)) == []


@each_row(
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


@pytest.mark.parametrize(
    ("role", "more", "fits"), [("ApiRole", 0, True), ("ApiRole", 1, False), ("TaskRole", 1, False)]
)
def test_longest_policies_of_role_must_fit_iams_limit(role: str, more: int, *, fits: bool, tmp_path: Path) -> None:
    size, limit = policy_sizes(TEMPLATE)[role]
    logs = f"{role.removesuffix('Role')}LogGroup.Arn"
    sid = re.compile(rf"Sid: Logs(\n.*\n.*\n.*!GetAtt {logs})")
    path = broken(tmp_path, sid, rf"Sid: Logs{'s' * (limit - size + more)}\1")
    found = list(problems(path, [{}], lint=False))
    too_long = f"{role}: at most {limit + more} characters of policies, and IAM permits {limit}: False; expected True"
    assert found == ([] if fits else [too_long])


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [pytest.param(*row, marks=[pytest.mark.deep] * (n % 4 > 0)) for n, row in enumerate(BREAKAGES)],
    ids=lambda each: str(each)[:40],
)
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
    (line,) = re.findall(r"`(\w+: true)` on\s`Api`", page)
    closed = broken(tmp_path, "      StageName: !Ref Stage\n", f"      StageName: !Ref Stage\n      {line}\n")
    domain = {name: EVERY_OPTION[name] for name in ("DomainName", "CertificateArn")}
    assert list(problems(closed, [domain], lint=False)) == []
    configuration = {"x-amazon-apigateway-endpoint-configuration": {"disableExecuteApiEndpoint": True}}
    assert transformed(closed)["Resources"]["Api"]["Properties"]["Body"]["servers"] == [configuration]


@pytest.mark.deep
def test_cfn_lint_finds_planted_mistakes(tmp_path: Path) -> None:
    path = broken(tmp_path, "MemorySize: 512\n", "MemorySize: 64\n")
    path.write_text(path.read_text().replace("        TableArn: !GetAtt", "        TabelArn: !GetAtt"))
    operations = tmp_path / "infra/operations.yaml"
    operations.write_text(operations.read_text().replace("Threshold: !Ref SlowSeconds", "Threshold: 60"))
    state = tmp_path / "infra/state.yaml"
    state.write_text(state.read_text().replace("BillingMode: PAY_PER_REQUEST", "BilingMode: PAY_PER_REQUEST"))
    found = "\n".join(linted(path))
    assert "template.yaml, transformed: E3034 64 is less than the minimum" in found
    assert 'E3043 Specified parameter "TabelArn" doesn\'t exist' in found
    assert "E3002 Additional properties are not allowed ('BilingMode'" in found
    assert "W2001 Parameter SlowSeconds not used" in found
