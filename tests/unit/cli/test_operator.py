"""What every command of an operator does alike: how a deployment is named, and how a failure is said."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aion_core.local.stack import SETTINGS, LocalStack
from tests.support import operating

COMMANDS = [["key", "list"], ["push", "list"], ["tasks", "list", "--scan"], ["dlq", "list"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_which_deployment_has_to_be_said(command: list[str]) -> None:
    failed = operating.runs({})(*command)
    assert failed.exit_code == 2
    assert "Which deployment? Say --stack NAME" in failed.stderr


def test_a_stack_names_everything_and_goes_before_the_environment(moto: LocalStack) -> None:
    stack = operating.registered(moto, "aion-names")
    run = operating.runs({**operating.environ_of(moto), "AION_TABLE": "another-table"})
    assert run("key", "list", "--stack", stack).exit_code == 0
    assert "nothing of this name" in operating.refusal(run("key", "list"))
    assert run("key", "list", "--table", moto.physical_id("Table")).exit_code == 0


def test_a_stack_that_is_not_aions_is_said(moto: LocalStack) -> None:
    body = '{"Resources": {"Any": {"Type": "AWS::SQS::Queue"}}}'
    moto.client("cloudformation").create_stack(StackName="foreign", TemplateBody=body)
    failed = operating.runs(operating.environ_of(moto))("key", "list", "--stack", "foreign")
    assert "is not an aion deployment" in operating.refusal(failed)


def test_where_aws_is_and_who_asks_may_be_said_by_options(moto: LocalStack, tmp_path: Path) -> None:
    before = dict(os.environ)
    run = operating.runs({**SETTINGS, "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"})
    table = ("--table", moto.physical_id("Table"))
    there = ("--endpoint-url", moto.endpoint, "--region", "us-east-1")
    assert run("key", "list", *table, *there).exit_code == 0
    # A profile that is named goes before credentials of the environment: one has none, the other is not there.
    (tmp_path / "config").write_text("[profile empty]\nregion = us-east-1\n")
    profiles = operating.runs(
        {**SETTINGS, "AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_EC2_METADATA_DISABLED": "true"}
    )
    failed = profiles("key", "list", *table, *there, "--profile", "empty")
    assert operating.refusal(failed).startswith("There are no AWS credentials")
    failed = run("key", "list", *table, *there, "--profile", "nobody")
    assert operating.refusal(failed).startswith("Your AWS configuration has no profile")
    assert dict(os.environ) == before


def test_without_credentials_a_command_fails_in_one_sentence() -> None:
    with operating.taken_port() as port:
        ran = operating.process(
            "key", "list", "--table", "t", "--region", "us-east-1", "--endpoint-url", f"http://127.0.0.1:{port}"
        )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("aion: There are no AWS credentials here.")
    assert ran.stderr.count("\n") == 1


def test_without_a_network_a_command_fails_in_one_sentence() -> None:
    with operating.taken_port() as port:
        pass
    ran = operating.process(
        "tasks", "list", "--scan", **SETTINGS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        AION_TABLE="t", AION_BUCKET="b", AION_TASK_QUEUE_URL="https://sqs/q",
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("aion: AWS does not answer.")
    assert ran.stderr.count("\n") == 1


def test_who_reads_only_the_beginning_of_what_is_printed_sees_no_traceback(moto: LocalStack) -> None:
    command = f"{sys.executable} -m aion_core.cli --help | true; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""


def walk(command: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    commands = getattr(command, "commands", {})
    return [path, *(found for name, each in commands.items() for found in walk(each, (*path, name)))]


@pytest.mark.parametrize("path", walk(operating.aion), ids=lambda path: " ".join(path) or "aion")
def test_each_command_explains_itself(path: tuple[str, ...]) -> None:
    shown = operating.runs({})(*path, "--help")
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.partition("Examples:")[0].splitlines())) <= 80
    assert "..." not in shown.stdout.partition("Commands:")[2], "what a command does fits into a line"
