"""The template as SAM transforms it, and the values of its parameters."""

import json
import re
import tomllib
from typing import Any

import pytest

from aion_core.packaging.plan import NOWHERE
from aion_core.settings import Settings
from aion_core.template.reader import FUNCTION, Template
from infra.policies.check import EVERY_OPTION, VARIANTS, problems, transformed
from infra.policies.deployment import ROOT

TEMPLATE = ROOT / "template.yaml"
PARAMETERS = transformed(TEMPLATE)["Parameters"]
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
    """Tell whether CloudFormation takes the value."""
    declared = PARAMETERS[parameter]
    is_in_values = value in map(str, declared.get("AllowedValues", [value]))
    return is_in_values and re.fullmatch(declared.get("AllowedPattern", ".*"), value) is not None


@pytest.mark.parametrize(("parameter", "value"), REFUSED)
def test_parameter_refuses_broad_value(parameter: str, value: str) -> None:
    assert not is_allowed(parameter, value)


@pytest.mark.parametrize("parameter", EVERY_OPTION)
def test_parameter_allows_option(parameter: str) -> None:
    assert all(is_allowed(parameter, given[parameter]) for given in VARIANTS if parameter in given)


@pytest.mark.parametrize(
    ("subnets", "groups", "is_valid"),
    [("", "", True), ("subnet-0a", "sg-0a", True), ("subnet-0a", "", False), ("", "sg-0a", False)],
)
def test_subnets_and_security_groups_need_each_other(subnets: str, groups: str, *, is_valid: bool) -> None:
    template = Template(TEMPLATE, NOWHERE, {"SubnetIds": subnets, "SecurityGroupIds": groups})
    roles = template.owner("ApiRole")
    (assertion,) = roles.document["Rules"]["Network"]["Assertions"]
    assert roles.resolve(assertion["Assert"], "Rules") is is_valid


@pytest.mark.parametrize("function", Template(TEMPLATE, NOWHERE).resources(FUNCTION))
def test_function_starts_with_template_environment(function: str) -> None:
    settings = Settings.from_environ(Template(TEMPLATE, NOWHERE).environment(function))
    times = (settings.lease_seconds, settings.max_tries, settings.blocking_wait, settings.retention_days)
    assert times == (30, 3, 240, 30)
    assert settings.task_queue_url.endswith("-TaskQueue")


<<<<<<< HEAD
def test_handlers_and_wrapper_exist() -> None:
    for module in ("api", "run_task", "deliver_push", "sweep"):
        assert re.search(r"^(def |async def )?handler\b", (ROOT / f"handlers/{module}.py").read_text(), re.M)
    assert re.search(r"^app\b", (ROOT / "handlers/api.py").read_text(), re.M)
    assert (ROOT / "aion_core/lambda_runtime/exec-wrapper.sh").stat().st_mode & 0o111
=======
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
>>>>>>> main


def test_changed_parameter_publishes_function_version() -> None:
    """An alias would serve the old version with the old environment otherwise."""
    changed = {**EVERY_OPTION, "BaseUrl": "https://other.example.com", "MemorySize": "2048", "LeaseSeconds": "60"}
    changed |= {"MaxTries": "5", "BlockingWait": "100", "RetentionDays": "7", "CardKeyId": "k-1", "Stage": "prod"}
    changed |= {"CardKeyUrl": "https://keys.example.com/", "PushHosts": "a.example", "PushPorts": "444"}
    before = Template(TEMPLATE, NOWHERE)
    reached = set()
    for parameter, value in changed.items():
        after = Template(TEMPLATE, NOWHERE, {parameter: value})
        for name in before.resources(FUNCTION):
            parts = ("Environment", "MemorySize", "Architectures", "Timeout", "LoggingConfig", "VpcConfig")
            if after.resolved(name, *parts) != before.resolved(name, *parts):
                reached.add(parameter)
                assert configuration_of(after) != configuration_of(before), f"{parameter} changes {name}"
    assert len(reached) > 15


def configuration_of(template: Template) -> str:
    content: str = template.resolved("ConfigurationVersion", "Content")["Content"]
    return content


def test_versions_are_described_by_configuration() -> None:
    """SAM's hash of a function has no parameter values; CloudFormation publishes a version for a new description."""
    resources = transformed(TEMPLATE)["Resources"].values()
    for kind in ("AWS::Lambda::Version", "AWS::Lambda::Function"):
        described = [each["Properties"]["Description"]["Fn::Sub"] for each in resources if each["Type"] == kind]
        assert len(described) == 4
        assert all("${State.Outputs.ConfigurationVersion}" in each for each in described)


CONFIGS = tomllib.loads((ROOT / "samconfig.toml").read_text())


@pytest.mark.parametrize("config", ["default", "dev", "prod"])
def test_samconfig_parameters_pass_policies(config: str) -> None:
    deploy = CONFIGS[config]["deploy"]["parameters"]
    parameters = dict(each.split("=", 1) for each in deploy["parameter_overrides"])
    assert all(is_allowed(name, value) for name, value in parameters.items())
    assert list(problems(TEMPLATE, [parameters], lint=False)) == []
    assert deploy["stack_name"] in ("aion-dev", "aion-prod")
    # CloudFormation needs both for a template with a transform and nested stacks.
    assert deploy["capabilities"].split() == ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]


def test_samconfig_default_is_dev() -> None:
    assert CONFIGS["default"] == CONFIGS["dev"]
    dev, prod = (CONFIGS[config]["deploy"]["parameters"] for config in ("dev", "prod"))
    assert dev["stack_name"] != prod["stack_name"]
    assert "Deployment=AllAtOnce" in dev["parameter_overrides"]
    assert any(each.startswith("Deployment=Canary") for each in prod["parameter_overrides"])
    assert prod["confirm_changeset"]


def test_deployment_all_at_once_ignores_alarms() -> None:
    """A fix can be deployed while an alarm is active."""
    resources = transformed(TEMPLATE, {"Deployment": "AllAtOnce"})["Resources"].values()
    groups = [each["Properties"] for each in resources if each["Type"] == "AWS::CodeDeploy::DeploymentGroup"]
    assert len(groups) == 4
    for group in groups:
        condition, _, otherwise = group["AlarmConfiguration"]["Fn::If"]
        assert (condition, otherwise) == ("AsksAlarms", {})
    assert Template(TEMPLATE, NOWHERE).resolve({"Fn::If": ["AsksAlarms", 1, 0]}, "") == 1
    assert Template(TEMPLATE, NOWHERE, {"Deployment": "AllAtOnce"}).resolve({"Fn::If": ["AsksAlarms", 1, 0]}, "") == 0


def test_each_parameter_has_group_and_description() -> None:
    groups = transformed(TEMPLATE)["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert sorted(name for group in groups for name in group["Parameters"]) == sorted(PARAMETERS)
    assert all(parameter["Description"] for parameter in PARAMETERS.values())


def test_base_url_overrides_domain_name() -> None:
    """Without either, the function takes its address from the events of AWS."""
    domain = {"DomainName": "agents.example.com"}
    assert base_url(domain) == "https://agents.example.com"
    assert base_url({**domain, "BaseUrl": "https://other.example.com"}) == "https://other.example.com"
    assert base_url({}) == ""


def base_url(parameters: dict[str, str]) -> str:
    return Template(TEMPLATE, NOWHERE, parameters).environment("ApiFunction")["AION_BASE_URL"]


def test_default_deployment_needs_signed_requests() -> None:
    plain = transformed(TEMPLATE)
    methods = api_methods(plain)
    assert len(methods) == 2
    assert all(method["security"] == [{"AWS_IAM": []}] for method in methods)
    entrypoints = Template(TEMPLATE, NOWHERE).owner("FunctionUrl").document["Resources"]
    for resource in [*plain["Resources"].values(), *entrypoints.values()]:
        if resource["Type"] == "AWS::Lambda::Url" or '"Principal": "*"' in json.dumps(resource):
            # A bucket policy denies; a Function URL is an option.
            is_denial = '"Effect": "Deny"' in json.dumps(resource)
            assert is_denial or resource["Condition"] in ("HasFunctionUrl", "HasOpenFunctionUrl")
    assert PARAMETERS["FunctionUrlAuth"]["Default"] == "OFF"


def test_authorizer_none_opens_api() -> None:
    assert not any("security" in method for method in api_methods(transformed(TEMPLATE, {"ApiAuthorizer": "NONE"})))


def api_methods(plain: dict[str, Any]) -> list[dict[str, Any]]:
    paths = plain["Resources"]["Api"]["Properties"]["Body"]["paths"]
    return [method for path in paths.values() for method in path.values()]
