"""Checks of a deployment's AWS resources by `aion doctor`, on an emulated stack."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.backends import get_backend

from aion_tools.deploy.functions import DOMAIN, OUTPUTS, PARAMETERS, URLS
from aion_tools.stack import REGION
from aion_tools.stack.stack import SETTINGS, LocalStack
from aion_tools.template.reader import Place, Template
from tests.support import operating
from tests.tools.unit.cli.checks.doctor_command import doctor, written


@pytest.fixture(scope="module")
def own() -> Iterator[LocalStack]:
    # Start a stack for this module only, because its tests break the stack's resources.
    with LocalStack.start("template.yaml") as stack:
        yield stack


def test_doctor_reports_each_broken_resource(own: LocalStack) -> None:
    name = operating.registered(
        own, BasicUsersSecret="arn:aws:secretsmanager:us-east-1:123456789012:secret:none-AbCdEf"
    )
    table, dynamodb = own.physical_id("Table"), own.client("dynamodb")
    recovery = {"PointInTimeRecoveryEnabled": True}
    dynamodb.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=recovery)

    def checked() -> tuple[int, dict[str, dict[str, str]]]:
        code, found = doctor(operating.environ_of(own), "--stack", name)
        # Leave out the triggers, because this stack has no functions. test_triggers.py checks them.
        return code, {each: found[each] for each in found if "'s function" not in each and "schedule" not in each}

    code, results = checked()
    assert {each: results[each]["status"] for each in results} == {
        "stack": "ok",
        "table": "ok",
        "table's TTL": "ok",
        "table's backup": "ok",
        "bucket": "ok",
        "task queue": "ok",
        "push queue": "ok",
        "key": "ok",
        "users": "FAILED",
    }
    assert code == 1
    dynamodb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by_agent"}}])
    dynamodb.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"AttributeName": "expires", "Enabled": False}
    )
    dynamodb.update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False}
    )
    own.client("s3").put_bucket_versioning(
        Bucket=own.physical_id("Blobs"), VersioningConfiguration={"Status": "Suspended"}
    )
    kms = own.client("kms")
    key = own.environment("ApiFunction")["AION_KMS_KEY"]
    kms.schedule_key_deletion(KeyId=kms.describe_key(KeyId=key)["KeyMetadata"]["KeyId"])
    own.client("sqs").send_message(QueueUrl=own.physical_id("TaskDeadLetters"), MessageBody="x")
    own.client("sqs").delete_queue(QueueUrl=own.physical_id("PushQueue"))
    code, results = checked()
    assert code == 1
    assert {each: results[each]["status"] for each in results if each not in ("stack", "users")} == {
        "table": "FAILED",
        "table's TTL": "FAILED",
        "table's backup": "warning",
        "bucket": "warning",
        "task queue": "warning",
        "push queue": "FAILED",
        "key": "FAILED",
    }
    assert "no index 'by_agent'" in results["table"]["message"]
    assert f"`aws dynamodb update-time-to-live --table-name {table} " in results["table's TTL"]["next"]
    assert f"`aws dynamodb update-continuous-backups --table-name {table} " in results["table's backup"]["next"]
    assert "`aws s3api put-bucket-versioning --bucket " in results["bucket"]["next"]
    for command in ("cancel-key-deletion", "enable-key"):
        assert f"`aws kms {command} --key-id {key}`" in results["key"]["next"]
    assert "1 in the dead letter queue" in results["task queue"]["message"]
    assert "aion dlq list" in results["task queue"]["next"]


def test_doctor_reports_deleted_table_once_and_how_to_restore_it() -> None:
    with LocalStack.start("template.yaml") as stack:
        table = stack.physical_id("Table")
        stack.client("dynamodb").delete_table(TableName=table)
        _, results = doctor(operating.environ_of(stack), "--table", table)
    assert [name for name in results if "table" in name] == ["table"]
    assert results["table"]["message"] == f"The table {table} does not exist: all requests and turns fail."
    assert f"`aws dynamodb restore-table-from-backup --target-table-name {table} " in results["table"]["next"]


KEY = "arn:aws:kms:us-east-1:123456789012:key/k"
BACKUP = "arn:aws:dynamodb:us-east-1:123456789012:table/t/backup/b"


@pytest.fixture
def describe_table(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that changes the descriptions of tables, because the emulator's tables are always ACTIVE."""

    def describe_table(**changes: object) -> None:
        def change(parsed: dict[str, Any], **_: object) -> None:
            parsed.get("Table", {}).update(changes)

        operating.hook(monkeypatch, "after-call.dynamodb.DescribeTable", change)

    return describe_table


def checked_table(stack: LocalStack) -> dict[str, dict[str, str]]:
    """Return the results of the checks of the stack's table."""
    options = ("--table", stack.physical_id("Table"))
    results = doctor(operating.environ_of(stack), *options)[1]
    return {name: each for name, each in results.items() if "table" in name}


@pytest.mark.parametrize(
    ("status", "next_step"),
    [
        ("CREATING", "Run `aion doctor` again"),
        ("DELETING", "run `aion doctor` again, which prints the commands that restore the table"),
        ("INACCESSIBLE_ENCRYPTION_CREDENTIALS", f"`aws kms enable-key --key-id {KEY}`"),
        ("ARCHIVED", f"`aws dynamodb restore-table-from-backup --target-table-name aion-test --backup-arn {BACKUP}`"),
        ("REPLICATION_NOT_AUTHORIZED", "`aws dynamodb describe-table --table-name aion-test`"),
    ],
)
def test_doctor_names_repair_for_each_table_status(
    moto: LocalStack, describe_table: Callable[..., None], status: str, next_step: str
) -> None:
    describe_table(
        TableStatus=status, SSEDescription={"KMSMasterKeyArn": KEY}, ArchivalSummary={"ArchivalBackupArn": BACKUP}
    )
    table, results = moto.physical_id("Table"), checked_table(moto)
    assert [*results] == ["table"], "the other checks of the table are left out"
    assert results["table"]["status"] == "FAILED"
    assert results["table"]["message"] == f"The table {table} is {status}: all requests and turns fail."
    assert next_step.replace("aion-test", table) in results["table"]["next"]


def test_doctor_accepts_updating_table(moto: LocalStack, describe_table: Callable[..., None]) -> None:
    """DynamoDB serves a table, and queries an index, in the status UPDATING."""
    described = moto.client("dynamodb").describe_table(TableName=moto.physical_id("Table"))["Table"]
    indexes = [{**each, "IndexStatus": "UPDATING"} for each in described["GlobalSecondaryIndexes"]]
    describe_table(TableStatus="UPDATING", GlobalSecondaryIndexes=indexes)
    assert checked_table(moto)["table"]["status"] == "ok"
    indexes[0]["IndexStatus"] = "CREATING"
    result = checked_table(moto)["table"]
    assert (result["status"], result["message"].partition(": ")[2]) == ("FAILED", "its index 'due' is CREATING.")
    assert result["next"].startswith("DynamoDB refuses queries of an index until it is ACTIVE")


def test_doctor_explains_refused_aws_credentials() -> None:
    with operating.refusing_aws("RequestExpired") as url:
        _, results = doctor({**SETTINGS, "AWS_ENDPOINT_URL": url}, "--table", "t")
    table = results["table"]
    assert (table["status"], table["next"]) == ("FAILED", "Fix this, then run `aion doctor` again.")
    assert "Set this machine's clock." in table["message"]


def test_template_has_outputs_read_by_doctor() -> None:
    template = Template(Path("template.yaml").resolve(), Place("123456789012", "us-east-1", "https://sqs", "gate"))
    assert {*OUTPUTS, *URLS} <= template.document["Outputs"].keys()
    assert {*PARAMETERS, DOMAIN} <= template.document["Parameters"].keys()


def test_doctor_checks_custom_domain_instead_of_default_api_url(own: LocalStack) -> None:
    """Clients never use the API's own URL if the card names a custom domain."""
    name = operating.registered(own, "aion-domain", BaseUrl="", DomainName="agents.example.invalid")
    _, results = doctor(operating.environ_of(own), "--stack", name)
    assert results["reachability"]["message"].startswith("https://agents.example.invalid does not respond")


def test_doctor_reports_unknown_stack(own: LocalStack) -> None:
    code, results = doctor(operating.environ_of(own), "--stack", "nobodys")
    assert (code, [*results]) == (1, ["stack"])
    assert results["stack"]["status"] == "FAILED"
    assert "no stack 'nobodys'" in results["stack"]["message"]


@pytest.mark.parametrize(
    ("state", "next_step"),
    [
        ("Creating", "Run `aion doctor` again in a minute."),
        ("Disabled", "Run `aws kms enable-key --key-id {0}` now."),
        ("PendingReplicaDeletion", "Run `aws kms cancel-key-deletion --key-id {0}`, then `aws kms enable-key --key-id {0}` now."),
        ("PendingImport", "Import its key material again, with `aws kms import-key-material`."),
        ("Other", "Run `aws kms describe-key --key-id {0}`."),
    ],
)  # fmt: skip
def test_doctor_names_repair_for_each_key_state(moto: LocalStack, state: str, next_step: str) -> None:
    key = moto.environment("ApiFunction")["AION_KMS_KEY"]
    backend = get_backend("kms")[moto.emulator.account][REGION]
    stored = backend.describe_key(moto.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyId"])
    stored.key_state, before = state, stored.key_state
    options = ("--table", moto.physical_id("Table"))
    try:
        result = doctor({**operating.environ_of(moto), "AION_KMS_KEY": key}, *options)[1]["key"]
    finally:
        stored.key_state = before
    assert (result["status"] == "ok", result["next"]) == (not next_step, next_step.format(key))


@pytest.mark.parametrize(
    ("status", "result", "next_step"),
    [
        ("UPDATE_COMPLETE", "ok", ""),
        pytest.param(
            "UPDATE_IN_PROGRESS",
            "warning",
            "Wait until it ends, then run `aion doctor` again.",
            marks=pytest.mark.deep,
        ),
        ("UPDATE_ROLLBACK_COMPLETE", "warning", "Correct the cause and run `aion deploy` again."),
        ("UPDATE_ROLLBACK_FAILED", "FAILED", "`aws cloudformation continue-update-rollback --stack-name aion-status`"),
        pytest.param("DELETE_FAILED", "FAILED", "`aion destroy --stack aion-status`", marks=pytest.mark.deep),
    ],
)
def test_doctor_reports_status_of_stack(own: LocalStack, status: str, result: str, next_step: str) -> None:
    cloudformation = get_backend("cloudformation")[own.emulator.account][REGION]
    if "aion-status" not in [each.name for each in cloudformation.list_stacks()]:
        operating.registered(own, "aion-status")
    cloudformation.get_stack("aion-status").status = status
    _, results = doctor(operating.environ_of(own), "--stack", "aion-status")
    assert results["stack"]["status"] == result
    assert next_step in results["stack"]["next"]


def test_doctor_reports_failed_stack_without_permission_to_read_its_events(
    own: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, cloudformation = "aion-events", get_backend("cloudformation")[own.emulator.account][REGION]
    operating.registered(own, name)
    cloudformation.get_stack(name).status = "UPDATE_ROLLBACK_FAILED"
    refuse = operating.refuse("AccessDenied", "DescribeStackEvents")
    operating.hook(monkeypatch, "before-call.cloudformation.DescribeStackEvents", refuse)
    # The deployment's clients are cached by their environment, so use one that no other test has.
    result = doctor({**operating.environ_of(own), "AWS_MAX_ATTEMPTS": "2"}, "--stack", name)[1]["stack"]
    assert (result["status"], result["next"]) == ("FAILED", "Use credentials with permission to read its events.")
    reason = "Your AWS credentials lack a permission (DescribeStackEvents)."
    assert result["message"] == f"{name} is UPDATE_ROLLBACK_FAILED. Its events were not read: {reason}"


def test_doctor_reports_unreadable_stack_as_failed_check(own: LocalStack) -> None:
    with operating.refusing_aws("AccessDenied") as url:
        options = ("--stack", "any", "https://agents.example.invalid")
        exit_code, results = doctor({**operating.environ_of(own), "AWS_ENDPOINT_URL_CLOUDFORMATION": url}, *options)
    assert (exit_code, [*results]) == (1, ["stack", "reachability"])
    assert results["stack"]["status"] == "FAILED"
    assert "Your AWS credentials lack a permission (DescribeStacks)." in results["stack"]["message"]


def test_doctor_checks_that_stack_can_read_agent_secrets(own: LocalStack, tmp_path: Path) -> None:
    secrets, ssm = own.client("secretsmanager"), own.client("ssm")
    arn = secrets.create_secret(Name="given-by-pattern", SecretString="hunter2")["ARN"]
    whole = secrets.create_secret(Name="given-whole", SecretString='{"a": "hunter2"}')["ARN"]
    not_given = secrets.create_secret(Name="given-by", SecretString="hunter2")["ARN"]
    ssm.put_parameter(Name="/given", Value="hunter2", Type="SecureString")
    given = [f"{arn[:-6]}??????", whole, ssm.get_parameter(Name="/given")["Parameter"]["ARN"]]
    name = operating.registered(own, "aion-secrets", AgentSecrets=",".join(given))
    results = {
        "A": "given-by-pattern",
        "B": "given-whole#a",
        "C": "ssm:/given",
        "D": "given-by",
        "E": "gone",
        "F": "ssm:/gone",
    }
    config = written(tmp_path, json.dumps({"aion": {"secrets": results, "agents": {"a": {"path": "a.py"}}}}))
    code, found = doctor(operating.environ_of(own), "--stack", name, "--config", config)
    assert code == 1
    told = {each: found[f"secret of {each}"] for each in results}
    assert {each: told[each]["status"] for each in told} == {
        "A": "ok", "B": "ok", "C": "ok", "D": "FAILED", "E": "FAILED", "F": "FAILED",
    }  # fmt: skip
    assert (
        told["D"]["message"]
        == f"{not_given} is not in the stack's AgentSecrets parameter: the functions with agents do not start."
    )
    assert "secret:given-by-??????" in told["D"]["next"]
    assert told["D"]["next"].startswith("Deploy with 'AgentSecrets=arn:aws:secretsmanager:us-east-1:")
    assert "ssm:/gone" in told["F"]["message"]
    assert "hunter2" not in json.dumps(found)
