"""Commands printed by `aion doctor` for a deleted index, bucket or queue. The tests run them on an emulated stack."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aion_tools.stack.stack import LocalStack
from tests.support import operating
from tests.tools.unit.cli.checks.doctor_command import doctor

RUNBOOK = Path("docs/runbook.md")


@pytest.fixture(scope="module")
def own() -> Iterator[LocalStack]:
    # Start a stack for this module only, because its tests delete the stack's resources.
    with LocalStack.start("template.yaml") as stack:
        yield stack


def checked(stack: LocalStack) -> dict[str, dict[str, str]]:
    environ = stack.environment("ApiFunction")
    return doctor(environ, "--table", environ["AION_TABLE"])[1]


def run_aws(stack: LocalStack, text: str) -> None:
    """Run the first command of the AWS CLI in a text."""
    found = re.search(r"`aws ([^`]+)`", text)
    assert found is not None, text
    service, operation, *words = shlex.split(found[1])
    if (service, operation) == ("s3", "mb"):
        stack.client("s3").create_bucket(Bucket=words[0].removeprefix("s3://"))
        return
    parameters: dict[str, Any] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option.removeprefix("--").title().replace("-", "")
        parameters[name] = json.loads(value) if value[0] in "[{" else value
    getattr(stack.client(service), operation.replace("-", "_"))(**parameters)


def test_doctor_commands_create_deleted_indexes(own: LocalStack) -> None:
    table, dynamodb = own.physical_id("Table"), own.client("dynamodb")

    def indexes() -> dict[str, Any]:
        described = dynamodb.describe_table(TableName=table)["Table"]["GlobalSecondaryIndexes"]
        return {each["IndexName"]: (each["KeySchema"], each["Projection"]) for each in described}

    before = indexes()
    for name in ("due", "by_agent"):
        dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": name}}])
    for name in ("due", "by_agent"):
        result = checked(own)["table"]
        assert f"it has no index {name!r}" in result["message"]
        run_aws(own, result["next"])
    assert checked(own)["table"]["status"] == "ok"
    assert indexes() == before


def test_doctor_commands_replace_index_with_wrong_keys(own: LocalStack) -> None:
    table, dynamodb = own.physical_id("Table"), own.client("dynamodb")
    wrong = {
        "IndexName": "by_agent",
        "KeySchema": [{"AttributeName": "listing_agent", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    for change in ({"Delete": {"IndexName": "by_agent"}}, {"Create": wrong}):
        dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[change])
    for message in ("its index 'by_agent' does not have the keys listing_agent and listing_at", "it has no index"):
        result = checked(own)["table"]
        assert message in result["message"]
        run_aws(own, result["next"])
    assert checked(own)["table"]["status"] == "ok"


@pytest.mark.parametrize("queue", ["task", pytest.param("push", marks=pytest.mark.deep)])
def test_doctor_commands_create_deleted_queue(own: LocalStack, queue: str) -> None:
    url, dead_letters = (own.physical_id(f"{queue.title()}{each}") for each in ("Queue", "DeadLetters"))
    sqs = own.client("sqs")

    def attributes(url: str, *names: str) -> dict[str, str]:
        found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[*names])["Attributes"]
        return found

    arn = attributes(dead_letters, "QueueArn")["QueueArn"]
    expected = attributes(url, "VisibilityTimeout"), attributes(dead_letters, "MessageRetentionPeriod")
    before = json.loads(attributes(url, "RedrivePolicy")["RedrivePolicy"])
    sqs.delete_queue(QueueUrl=url)
    result = checked(own)[f"{queue} queue"]
    assert (result["status"], result["message"]) == ("FAILED", f"{url} does not exist.")
    run_aws(own, result["next"])
    result = checked(own)[f"{queue} queue"]
    assert result["message"] == f"The queue {url} has no dead letter queue."
    run_aws(own, result["next"].replace("ARN", arn))
    assert checked(own)[f"{queue} queue"]["status"] == "ok"
    after = json.loads(attributes(url, "RedrivePolicy")["RedrivePolicy"])
    assert {name: str(value) for name, value in after.items()} == {name: str(before[name]) for name in before}
    sqs.delete_queue(QueueUrl=dead_letters)
    result = checked(own)[f"{queue} queue"]
    assert result["message"] == f"The dead letter queue {dead_letters.rpartition('/')[2]} of {url} does not exist."
    run_aws(own, result["next"])
    assert checked(own)[f"{queue} queue"]["status"] == "ok"
    assert (attributes(url, "VisibilityTimeout"), attributes(dead_letters, "MessageRetentionPeriod")) == expected


def test_doctor_commands_create_deleted_bucket(own: LocalStack) -> None:
    bucket = own.physical_id("Blobs")
    own.client("s3").delete_bucket(Bucket=bucket)
    result = checked(own)["bucket"]
    assert (result["status"], result["message"]) == ("FAILED", f"{bucket} does not exist.")
    run_aws(own, result["next"])
    result = checked(own)["bucket"]
    assert "it has no versioning" in result["message"]


def test_runbook_commands_restore_bucket_as_in_template(own: LocalStack) -> None:
    section = (
        RUNBOOK.read_text(encoding="utf-8").partition("## A deleted index, bucket or queue")[2].partition("\n## ")[0]
    )
    given = re.findall(r"^aws s3api [^']+'(?:[^']|'\"\$BUCKET\"')+'$", section, re.MULTILINE)
    commands = [shlex.split(command.replace("$BUCKET", own.physical_id("Blobs"))) for command in given]
    written = {command[2]: json.loads(command[-1]) for command in commands}
    assert written["put-bucket-policy"] == own.template.resolved("BlobsPolicy")["PolicyDocument"]
    rules = own.template.resolved("Blobs")["LifecycleConfiguration"]["Rules"]
    assert written["put-bucket-lifecycle-configuration"] == {"Rules": [_rule(each) for each in rules]}


def test_runbook_commands_recreate_function_with_previous_parameters(own: LocalStack) -> None:
    section = RUNBOOK.read_text(encoding="utf-8").partition("## A deleted function")[2].partition("\n## ")[0]
    given = re.search(r"^aws cloudformation create-change-set (.*?)\n(?=aws )", section, re.MULTILINE | re.DOTALL)
    query = re.search(r"--query '(Stacks[^']+)'", section)
    assert given is not None
    assert query is not None
    stack, cloudformation = operating.registered(own, "aion-drift"), own.client("cloudformation")
    # The emulator has no change sets with the previous template, so check the options against the model of the service.
    model = cloudformation.meta.service_model
    (mode,) = model.shape_for("DeploymentMode").enum
    assert f"--use-previous-template --deployment-mode {mode}" in given[1].replace("\\\n  ", "")
    # CloudFormation sets each parameter that is not named to its default.
    found = cloudformation.get_paginator("describe_stacks").paginate(StackName=stack).search(query[1])
    names = ("RetentionDays", "LeaseSeconds")
    assert [*found] == [{"ParameterKey": each, "UsePreviousValue": True} for each in names]


def _rule(made: dict[str, Any]) -> dict[str, Any]:
    """Return a lifecycle rule of CloudFormation in the form of S3's API."""
    rule = {"ID": made["Id"], "Status": made["Status"], "Filter": {}}
    for name, value in made.items():
        match name:
            case "Prefix":
                rule["Filter"] = {"Prefix": value}
            case "ExpirationInDays":
                rule["Expiration"] = {"Days": value}
            case "ExpiredObjectDeleteMarker":
                rule["Expiration"] = {name: value}
            case "NoncurrentVersionExpiration" | "AbortIncompleteMultipartUpload":
                rule[name] = value
    return rule
