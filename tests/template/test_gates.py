"""What the gate on template.yaml notices of wiring, table, bucket, times and alarms: each way of breaking is seen."""

import re
from pathlib import Path

import pytest

from infra.template_gate import problems
from tests.template.breaking import Mend, broken

PUSH = r"Handler: handlers.deliver_push.handler\n"
OF_WIRING = [
    (
        (
            re.compile(r"(AION_TASK_QUEUE_URL: .*)TaskQueue\n(.*)PushQueue\n"),
            r"\1PushQueue\n\2TaskQueue\n",
        ),
        "PushQueue by AION_TASK_QUEUE_URL, where handlers.run_task.handler hears nothing",
    ),
    (("Queue: !GetAtt State.Outputs.TaskQueueArn", "Queue: !GetAtt State.Outputs.PushQueueArn"), "hears nothing"),
    (("Handler: handlers.run_task.handler", "Handler: handlers.deliver_push.handler"), "run_task.handler hears nothing"),
    (("BatchSize: 1\n", "BatchSize: 10\n"), "TaskFunction.Bell: the bells of a batch wait for one another"),
    (
        ("            ScalingConfig:\n              MaximumConcurrency: !Ref PushConcurrency\n", ""),
        "PushFunction.Bell: when many wait nothing is left of the account",
    ),
    (("MaximumConcurrency: !Ref TaskConcurrency", "MaximumConcurrency: !Ref PushConcurrency"),
     "template.yaml: nothing uses the parameter TaskConcurrency"),
    (("        CredentialsKey: !Ref CredentialsKey\n", '        CredentialsKey: ""\n'), "nothing uses the parameter Credent"),
    (("TaskFunction: !Ref TaskFunction", "TaskFunction: !Ref PushFunction"), "Operations is given PushFunction for its"),
    (("TaskLogGroup: !GetAtt Roles.Outputs.TaskLogGroup", "TaskLogGroup: !GetAtt Roles.Outputs.PushLogGroup"),
     "Operations is given PushLogGroup for its parameter TaskLogGroup"),
    ((re.compile(r"(RetentionDays: !Ref )(RetentionDays\n +Cred)"), r"\1Log\2"), "State is given LogRetentionDays"),
    (("LogRetentionDays: !Ref LogRetentionDays", "LogRetentionDays: !Ref RetentionDays"), "Roles is given RetentionDays"),
    (("TaskDeadLetters: !Ref TaskDeadLetters", "TaskDeadLetters: !Ref PushDeadLetters"), "DashboardStack is given PushD"),
    (("  TaskQueueArn:\n    Value: !GetAtt TaskQueue.Arn", "  TaskQueueArn:\n    Value: !GetAtt PushQueue.Arn"),
     "state.yaml: the output TaskQueueArn says nothing of TaskQueue"),
    (("[MakesKey, !GetAtt Key.Arn, !Ref", "[MakesKey, !Ref CredentialsKey, !Ref"), "the output KeyArn says nothing of Key"),
    (("TaskQueueUrl: { Value: !GetAtt State.Outputs.TaskQueue }", "TaskQueueUrl: { Value: !GetAtt State.Outputs.PushQueue }"),
     "template.yaml: the output TaskQueueUrl is PushQueue of a nested stack"),
    (("AION_TABLE: !GetAtt State.Outputs.Table\n", "AION_TABLE: !GetAtt State.Outputs.TableArn\n"),
     "and no AWS::DynamoDB::Table of the template is called so"),
    (("AION_BUCKET: !GetAtt State.Outputs.Bucket\n", "AION_BUCKET: !GetAtt State.Outputs.Table\n"), "no AWS::S3::Bucket of"),
    (("AION_RETENTION_DAYS: !Ref RetentionDays", "AION_RETENTION_DAYS: !Ref LogRetentionDays"),
     "AION_RETENTION_DAYS says what LogRetentionDays says"),
    (("Function: !Ref ApiFunction.Alias", "Function: !Ref TaskFunction.Alias"), "FunctionUrl leads to TaskFunction.Alias"),
    (("TargetFunctionArn: !Ref Function", "TargetFunctionArn: !Ref Certificate"), "FunctionUrl leads to nothing"),
]  # fmt: skip
OF_QUEUES = [
    (("!GetAtt PushDeadLetters.Arn", "!GetAtt TaskDeadLetters.Arn"), "share the dead letters TaskDeadLetters"),
    (("!GetAtt TaskDeadLetters.Arn", "!GetAtt PushQueue.Arn"), "TaskQueue has PushQueue for its dead letters, which a fun"),
    (
        ("MessageRetentionPeriod: 1209600\n",
         "MessageRetentionPeriod: 1209600\n      RedrivePolicy: { deadLetterTargetArn: !GetAtt PushQueue.Arn }\n"),
        "for its dead letters, which gives them up in turn",
    ),
    (("VisibilityTimeout: 960\n", "VisibilityTimeout: 960\n      DelaySeconds: 60\n"), "TaskQueue lets every bell wait"),
    (("VisibilityTimeout: 960\n", "VisibilityTimeout: 960\n      FifoQueue: true\n"), "TaskQueue takes no bell"),
    (("maxReceiveCount: 5", "maxReceiveCount: 1000"), "TaskQueue forgets a message that fails before it is a dead letter"),
]  # fmt: skip
OF_TABLE = [
    (("BillingMode: PAY_PER_REQUEST", "BillingMode: PROVISIONED"), "Table costs what it might be used"),
    (("IndexName: due", "IndexName: overdue"), "Table has no index due: every query that asks it would fail"),
    (("IndexName: due", "IndexName: overdue"), "nothing asks the index overdue"),
    (("{ AttributeName: due_shard, KeyType: HASH }", "{ AttributeName: pk, KeyType: HASH }"), "Table's index due has the keys"),
    (("- { AttributeName: sk, KeyType: RANGE }", "- { AttributeName: due_at, KeyType: RANGE }"), "Table has the keys"),
    (("due_at, AttributeType: N", "due_at, AttributeType: S"), "due_at is written as N, and would be refused as no S"),
    ((re.compile(r"(IndexName: by_agent\n(.*\n){3}.*Projection: ).*"), r"\1{ ProjectionType: KEYS_ONLY }"),
     "Table's index by_agent does not copy state, by which it is filtered"),
    (("NonKeyAttributes: [state, expires]", "NonKeyAttributes: [state]"), "Table's index by_context does not copy expires"),
]  # fmt: skip
OF_BUCKET = [
    (("Status: Enabled\n      LifecycleConfiguration", "Status: Suspended\n      LifecycleConfiguration"), "keeps no versions"),
    (("Prefix: threads/", "Prefix: thread/"), "what is under threads/ stays, and is paid for, for ever"),
    ((re.compile(r"(Id: what-no-task-needs-any-more\n\s+Status: )Enabled"), r"\1Disabled"), "what is under tasks/ stays"),
    (("            Prefix: tasks/\n", ""), "what-no-task-needs-any-more takes away what is a user's to keep"),
    (("Prefix: artifacts/", "Prefix: kept/artifacts/"), "artifacts-that-no-task-needs-any-more takes away what is a user's"),
    (("!Ref RetentionDays, Session]", "!Ref RetentionDays, Kept]"), "what-no-session-needs-any-more takes payloads away"),
    (('"90": { Kept: 105,', '"90": { Kept: 90,'), "before their rows, which are there for 90 days and 15"),
    (("            Prefix: tasks/\n            ExpirationInDays: !FindInMap [BlobDays, !Ref RetentionDays, Kept]\n",
      "            Prefix: tasks/\n            ExpirationDate: 2030-01-01T00:00:00Z\n"), "takes payloads away before"),
    (("            NoncurrentVersionExpiration:\n              NoncurrentDays: 7\n", ""), "keeps for ever what was replaced"),
    (("BucketOwnerEnforced", "ObjectWriter"), "Blobs lets who writes an object say who reads it"),
    (('Resource: [!GetAtt Blobs.Arn, !Sub "${Blobs.Arn}/*"]', "Resource: [!GetAtt Blobs.Arn]"), "spoken to without TLS"),
]  # fmt: skip
OF_KEYS = [
    ((re.compile(r"(What the agents(.*\n)+?.*EnableKeyRotation: )true"), r"\1false"), "Key stays the same for ever"),
    (("AION_KMS_KEY: !GetAtt State.Outputs.KeyArn", "AION_KMS_KEY: alias/aws/s3"), "and AION_KMS_KEY says alias/aws/s3"),
    (("kms:EncryptionContext:application: aion", "kms:EncryptionContext:application: it"), "ApiFunction may open nothing"),
    (("Principal: { Service: codedeploy.amazonaws.com }", "Principal: { Service: lambda.amazonaws.com }"),
     "ApiFunction: codedeploy.amazonaws.com cannot take on DeploymentRole"),
]  # fmt: skip
OF_FUNCTIONS = [
    (("Runtime: python3.13", "Runtime: python3.11"), "runs on python3.11, and `aion doctor` has its packages built by"),
    (("ReservesConcurrency: !Not [!Equals [!Ref ApiConcurrency, 0]]", "ReservesConcurrency: !Equals [!Ref ApiConcurrency, 0]"),
     "ApiFunction refuses every call"),
    ((re.compile(f"({PUSH})"), r"\1      VpcConfig: { SubnetIds: [subnet-1], SecurityGroupIds: [sg-1] }\n"),
     "PushFunction calls addresses that strangers have chosen"),
    ((re.compile(rf"({PUSH}(.*\n){{5}}) +AION_PUSH_HOSTS: .*\n"), r"\1"), "PushFunction: AION_PUSH_HOSTS is missing"),
    ((re.compile(rf"({PUSH}(.*\n)*?.*Timeout: )300"), r"\g<1>20"), "one bell's posts may take 95"),
    (("          - !GetAtt Operations.Outputs.TaskErrorsAlarm\n", ""),
     "TaskFunctionDeploymentGroup shifts traffic, and none of the alarms that it asks rings for errors of TaskFunction"),
    (("      Timeout: 60\n", "      Timeout: 3\n"), "SweepFunction is cut off after 3 s"),
    (("MaxValue: 285", "MaxValue: 600"), "BlockingWait may be 600 s, and the API cuts an answer that is silent"),
    (("      Handler: handlers.api.handler\n", "      Handler: handlers.api.handler\n      Timeout: 200\n"),
     "ApiFunction is cut off after 200 s, and BlockingWait may be 285"),
]  # fmt: skip
OF_ENTRYPOINTS = [
    (("InvokeRole: NONE", "InvokeRole: CALLER_CREDENTIALS"), "Api refuses who may execute-api:Invoke it and not lambda"),
    (("900000\n        Everything", "900000\n            Auth: { Authorizer: AWS_IAM, InvokeRole: CALLER_CREDENTIALS }\n        Everything"),
     "/ refuses who may execute-api:Invoke it and not lambda:InvokeFunction"),
    (("ThrottlingBurstLimit: !Ref RequestRate", "ThrottlingBurstLimit: 0"), "its ThrottlingBurstLimit has to be above 0"),
    (("SecurityPolicy: TLS_1_2", "SecurityPolicy: TLS_1_0"), "Domain may be spoken to under a TLS that is broken"),
    (("AuthType: !Ref FunctionUrlAuth", "AuthType: NONE"), "FunctionUrl asks something else than FunctionUrlAuth says"),
]  # fmt: skip
OF_ALARMS = [
    (("AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]", "AlarmActions: [!Ref GivenTopic]"),
     "TaskDeadLettersAlarm rings and tells nobody when AlarmTopic is empty"),
    (("AlarmActions: [!If [MakesTopic, !Ref Topic, !Ref GivenTopic]]", "AlarmActions: [!Ref Topic]"),
     "TaskDeadLettersAlarm rings and tells nobody when AlarmTopic is given"),
    (("TopicArn: !If [MakesTopic, !Ref Topic, !Ref GivenTopic]", "TopicArn: !Ref GivenTopic"),
     "AlarmEmail gets no mail when AlarmTopic is empty"),
    ((re.compile(r"cloudwatch(.amazonaws.com }\n +Action: sns:Publish)"), r"events\1"), "lets CloudWatch sns:Publish to it"),
    (("KmsMasterKeyId: !Ref TopicKey", "KmsMasterKeyId: alias/aws/sns"), "Topic takes no alarm: its key has to be one that"),
    (("Action: [kms:Decrypt, kms:GenerateDataKey]\n            Resource: \"*\"", "Action: kms:Decrypt\n            Resource: \"*\""),
     "Topic takes no alarm: its key has to be one that lets CloudWatch"),
    ((re.compile(r"(TaskDeadLettersAlarm:\n(.*\n)*?\s+Threshold: )0"), r"\g<1>1"), "it has to ring for the first"),
    (("Statistic: Maximum", "Statistic: Minimum"), "looks away while the worst of gated-stack-State-TaskDeadLetters happens"),
    (("EvaluationPeriods: 6\n", "EvaluationPeriods: 13\n"), "SweepFoundWorkAlarm rings after 65 minutes"),
    (("EvaluationPeriods: 3\n", "EvaluationPeriods: 30\n      DatapointsToAlarm: 20\n"), "SweepErrorsAlarm rings after 100 min"),
    (("  PushGivenUpAlarm:\n", "  PushLostAlarm:\n"), "docs/runbook.md has no section PushLostAlarm"),
    (("$.level = \"ERROR\" ||", "$.levle = \"ERROR\" ||"), "ApiLoggedErrors counts something else than each line"),
    (('MetricName: TaskLoggedErrors, MetricValue: "1"', 'MetricName: TaskLoggedErrors, MetricValue: "0"'), "TaskLoggedErrors coun"),
    (("LogGroupName: !Ref TaskLogGroup", "LogGroupName: !Ref PushLogGroup"), "the errors in TaskLogGroup are counted 0 times"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mend", "told"),
    [*OF_WIRING, *OF_QUEUES, *OF_TABLE, *OF_BUCKET, *OF_KEYS, *OF_FUNCTIONS, *OF_ENTRYPOINTS, *OF_ALARMS],
    ids=lambda value: str(value)[:40],
)
def test_the_gate_notices(mend: Mend, told: str, tmp_path: Path) -> None:
    found = list(problems(broken(mend, tmp_path), lint=False))
    assert any(told in problem for problem in found), found


def test_the_gate_notices_that_nothing_is_set_aside_though_it_was_asked_for(tmp_path: Path) -> None:
    wrong = broken((re.compile(r"      ReservedConcurrentExecutions: .*\n"), ""), tmp_path)
    found = list(problems(wrong, {"ApiConcurrency": "100"}, lint=False))
    assert "ApiFunction has nothing set aside, and ApiConcurrency says 100" in found


def test_the_gate_names_the_code_that_it_cannot_read(tmp_path: Path) -> None:
    right = broken(("Description: aion", "Description: it"), tmp_path)
    assert list(problems(right, lint=False)) == []
    (tmp_path / "aion_core/ports/schema.py").unlink()
    (problem,) = list(problems(right, lint=False))[-1:]
    assert problem.endswith("aion_core/ports/schema.py: No such file or directory")
