"""The gate on template.yaml, and that it would notice."""

import json
import math
import shutil
from pathlib import Path

import pytest

from aion_core.settings import Settings
from infra.package_plan import NOWHERE
from infra.template import FUNCTION, Template
from infra.template_gate import problems, transformed

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "template.yaml"
OPEN = {"ApiAuthorizer": "NONE", "FunctionUrlAuth": "NONE"}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        OPEN,
        {"FunctionUrlAuth": "AWS_IAM", "Architecture": "x86_64"},
        {"CredentialsKey": "arn:aws:kms:us-east-1:123456789012:key/a-key"},
        {"RetentionDays": "3650", "LeaseSeconds": "5", "TaskConcurrency": "2"},
        {"BaseUrl": "https://agents.example.com", "AwsEndpointUrl": "http://127.0.0.1:4566"},
        {"BasicUsersSecret": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:users-AbCdEf", **OPEN},
        {"CardKeySecret": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:card-key-AbCdEf", "CardKeyId": "k-1"},
    ],
)
def test_the_template_is_right_however_it_is_deployed(parameters: dict[str, str]) -> None:
    assert list(problems(TEMPLATE, parameters)) == []


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


@pytest.mark.parametrize(
    ("mend", "told"),
    [
        (("ResponseTransferMode: RESPONSE_STREAM", "ResponseTransferMode: STREAM"), "is buffered"),
        (("            ResponseTransferMode: RESPONSE_STREAM\n", ""), "is buffered"),
        (("TimeoutInMillis: 900000", "TimeoutInMillis: 900001"), "TimeoutInMillis has to be at most 900000"),
        (("Type: REGIONAL", "Type: EDGE"), "has to be REGIONAL"),
        (("Timeout: 900\n", "Timeout: 1200\n"), "1200"),
        (("MemorySize: !Ref MemorySize", "MemorySice: !Ref MemorySize"), "MemorySice"),
        (("BillingMode: PAY_PER_REQUEST", "BilingMode: PAY_PER_REQUEST"), "BilingMode"),
        (("VisibilityTimeout: 960", "VisibilityTimeout: 600"), "shows a message again before the 900 s are over"),
        (("deadLetterTargetArn: !GetAtt TaskDeadLetters.Arn", "deadLetterTargetArn: a"), "has no dead letter queue"),
        (("MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 345600"), "forgets dead letters"),
        (("SqsManagedSseEnabled: true", "SqsManagedSseEnabled: false"), "is not encrypted"),
        (("- dynamodb:GetItem", '- "dynamodb:*"'), "may do more than it needs"),
        (("Resource: !GetAtt Table.Arn", 'Resource: "*"'), "may do more than it needs"),
        (("Resource: !Ref BasicUsersSecret", 'Resource: "*"'), "may do more than it needs"),
        (("Resource: !Ref CardKeySecret", 'Resource: "*"'), "may do more than it needs"),
        (("AION_CARD_KEY_ID: !Ref", "AION_CARD_KEY_NAME: !Ref"), "nothing reads AION_CARD_KEY_NAME"),
        (("DeletionPolicy: Retain", "DeletionPolicy: Delete"), "goes with the stack"),
        (("      RetentionInDays: !Ref LogRetentionDays\n", ""), "keeps logs for ever"),
        (("      LoggingConfig:\n        LogGroup: !Ref ApiLogGroup\n", ""), "logs to a group without retention"),
        (("Handler: handlers.api.handler", "Handler: handlers.app.handler"), "there is no handler in handlers/app.py"),
        (("handlers.api:app", "handlers.api:application"), "there is no application in handlers/api.py"),
        (("lambda_runtime/exec-wrapper.sh", "lambda_runtime/wrapper.sh"), "is not a program of the project"),
        (("Handler: handlers.sweep.handler", "Handler: handlers.sweep.run"), "there is no run in handlers/sweep.py"),
        (("!Ref TaskQueue", "!Ref TurnQueue"), "TurnQueue"),
        (("            FunctionResponseTypes: [ReportBatchItemFailures]\n", ""), "takes its batch along"),
        (("RecursiveLoop: Allow", "RecursiveLoop: Terminate"), "which Lambda ends after 16 times"),
        (('"30": { Kept: 45,', '"30": { Kept: 44,'), "what-no-task-needs-any-more takes payloads away"),
        (("        AION_TABLE: !Ref Table\n", ""), "SweepFunction: AION_TABLE is missing"),
        (("AION_MAX_TRIES:", "AION_MAXTRIES:"), "TaskFunction: nothing reads AION_MAXTRIES"),
    ],
)
def test_the_gate_notices(mend: tuple[str, str], told: str, tmp_path: Path) -> None:
    for code in ("handlers", "aion_core/lambda_runtime"):
        shutil.copytree(ROOT / code, tmp_path / code)
    shutil.copy(ROOT / "aion_core" / "settings.py", tmp_path / "aion_core")
    right = TEMPLATE.read_text()
    assert mend[0] in right
    wrong = tmp_path / "template.yaml"
    wrong.write_text(right.replace(*mend))
    assert any(told in problem for problem in problems(wrong))


def test_a_stack_deployed_without_a_word_answers_signed_requests_only() -> None:
    plain = transformed(TEMPLATE, {})
    paths = plain["Resources"]["Api"]["Properties"]["Body"]["paths"]
    methods = [method for path in paths.values() for method in path.values()]
    assert len(methods) == 2
    assert all(method["security"] == [{"AWS_IAM": []}] for method in methods)
    for resource in plain["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Url" or '"Principal": "*"' in json.dumps(resource):
            # A bucket policy says nobody, a Function URL is made only when it is asked for.
            is_refusal = '"Effect": "Deny"' in json.dumps(resource)
            assert is_refusal or resource["Condition"] in ("HasFunctionUrl", "HasOpenFunctionUrl")
    assert plain["Parameters"]["FunctionUrlAuth"]["Default"] == "OFF"


def test_it_is_open_to_everybody_only_when_that_is_asked_for() -> None:
    paths = transformed(TEMPLATE, OPEN)["Resources"]["Api"]["Properties"]["Body"]["paths"]
    assert not any("security" in method for path in paths.values() for method in path.values())
