"""Options of all operator commands: deployment, local store, credentials."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.clock import SystemClock
from aion_core.engine.queues import WakeUp, body_of
from aion_core.local.sqlite.message_queue import MAX_RECEIVES, SQLiteQueue, open_queues
from aion_core.settings import Settings
from aion_tools.cli import aws_options
from aion_tools.deploy import aws
from aion_tools.deploy.samconfig import SamConfig
from aion_tools.stack.stack import SETTINGS, LocalStack
from tests.support import operating
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand
from tests.support.rows import each_row

COMMANDS = [["key", "list"], ["push", "list"], ["tasks", "list", "--scan"], ["dlq", "list"]]


@each_row("command", COMMANDS)
def test_operator_command_without_deployment_asks_for_stack_name(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Leave the repository, because `.aion` of a development server in it would count as the deployment.
    monkeypatch.chdir(tmp_path)
    failed = operating.runs({})(*command)
    assert failed.exit_code == 2
    assert "Which deployment? Give --stack NAME" in failed.stderr


def test_stack_option_overrides_table_named_by_environment_variable(moto: LocalStack) -> None:
    stack = operating.registered(moto, "aion-names")
    run = operating.runs({**operating.environ_of(moto), "AION_TABLE": "another-table"})
    assert run("key", "list", "--stack", stack).exit_code == 0
    refused = operating.refusal(run("key", "list"))
    assert refused.startswith(
        "The table another-table does not exist. `aion doctor` prints the commands that restore it."
    )
    assert refused.endswith("If the name is wrong, check --stack, --table, --region and --profile.")
    assert run("key", "list", "--table", moto.physical_id("Table")).exit_code == 0


@pytest.mark.parametrize("nests", [True, False], ids=["project", "repository"])
def test_stack_option_finds_table_of_nested_or_outermost_stack(moto: LocalStack, *, nests: bool) -> None:
    stack = operating.registered(moto, f"aion-nests-{nests}".lower(), nests=nests)
    assert operating.runs(operating.environ_of(moto))("key", "list", "--stack", stack).exit_code == 0


def test_stack_of_another_program_is_refused(moto: LocalStack) -> None:
    body = '{"Resources": {"Any": {"Type": "AWS::SQS::Queue"}}}'
    moto.client("cloudformation").create_stack(StackName="foreign", TemplateBody=body)
    failed = operating.runs(operating.environ_of(moto))("key", "list", "--stack", "foreign")
    assert "is not an aion deployment" in operating.refusal(failed)


def test_aws_options_select_profile_region_and_endpoint(moto: LocalStack, tmp_path: Path) -> None:
    before = dict(os.environ)
    run = operating.runs({**SETTINGS, "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"})
    table = ("--table", moto.physical_id("Table"))
    there = ("--endpoint-url", moto.endpoint, "--region", "us-east-1")
    assert run("key", "list", *table, *there).exit_code == 0
    # --profile overrides the credentials in the environment: profile `empty` has no credentials, and the other
    # profile does not exist.
    (tmp_path / "config").write_text("[profile empty]\nregion = us-east-1\n")
    profiles = operating.runs(
        {**SETTINGS, "AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_EC2_METADATA_DISABLED": "true"}
    )
    failed = profiles("key", "list", *table, *there, "--profile", "empty")
    assert operating.refusal(failed).startswith("No AWS credentials found")
    failed = run("key", "list", *table, *there, "--profile", "nobody")
    assert operating.refusal(failed).startswith("Your AWS configuration has no profile")
    assert dict(os.environ) == before


def test_aws_region_overrides_default_and_profile_region(moto: LocalStack, tmp_path: Path) -> None:
    stack = operating.registered(moto, "aion-region")
    (tmp_path / "config").write_text("[default]\nregion = eu-west-3\n")
    environ = {**operating.environ_of(moto), "AWS_CONFIG_FILE": str(tmp_path / "config"), "AION_STACK": stack}
    del environ["AWS_DEFAULT_REGION"]
    assert operating.runs(environ)("key", "list").exit_code == 0
    assert operating.runs({**environ, "AWS_DEFAULT_REGION": "eu-west-3"})("key", "list").exit_code == 0
    failed = operating.runs(environ)("key", "list", "--region", "eu-west-3")
    assert "There is no stack" in operating.refusal(failed)


def test_invalid_region_error_names_the_option(moto: LocalStack) -> None:
    failed = operating.runs(operating.environ_of(moto))("key", "list", "--stack", "any", "--region", "no region!")
    assert operating.refusal(failed).startswith("That isn't the name of an AWS region")


def test_missing_aws_credentials_error_is_one_sentence() -> None:
    with operating.taken_port() as port:
        ran = operating.process(
            "key", "list", "--table", "t", "--region", "us-east-1", "--endpoint-url", f"http://127.0.0.1:{port}"
        )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Error: No AWS credentials found.")
    assert ran.stderr.count("\n") == 1


def test_error_for_broken_local_store_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".aion" / "store").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    run = operating.runs({})
    assert run("key", "create", "alice").exit_code == 0
    file = tmp_path / ".aion" / "store" / "table.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    pages = file.read_bytes()
    file.write_bytes(pages[:4096] + b"x" * (len(pages) - 4096))
    refused = operating.refusal(run("key", "list"))
    assert refused.startswith("The store of `aion dev` failed: SQLITE_CORRUPT")
    assert refused.endswith(f"({file}). `aion dev --fresh` starts with an empty one.")


def test_closed_output_pipe_prints_no_traceback(moto: LocalStack) -> None:
    command = f"{sys.executable} -m aion_tools.cli --help | true; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""


CLOCK: Any = SystemClock()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AION_DATA_DIR", raising=False)
    return tmp_path / ".aion" / "store"


@pytest.fixture
def stores(folder: Path) -> Stores:
    return build_stores(Settings.from_environ({"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder)}), CLOCK)


@pytest.fixture
def run() -> RunCommand:
    return operating.runs({})


def parked(folder: Path, body: str) -> None:
    """Send a message, and receive it until the queue moves it to the dead letter queue."""
    clock = ManualClock()
    queue = SQLiteQueue(open_queues(folder / "queues.db"), "task", clock)

    async def park() -> None:
        await queue.send(body)
        for _ in range(MAX_RECEIVES + 1):
            await queue.receive(1)
            clock.move(3600)

    asyncio.run(park())


def test_tasks_in_local_store_are_listed_and_canceled(run: RunCommand, stores: Stores, folder: Path) -> None:
    chat = StoreConversation(stores.tasks, CLOCK)
    asyncio.run(chat.starts("m-1"))
    listed = run("tasks", "list")
    assert listed.stderr == f"Using {folder}, the store of `aion dev` (not running)\n"
    assert operating.table(listed)[0][:2] == ["t-m-1", "working"]
    assert run("tasks", "cancel", "t-m-1", "--yes").exit_code == 0
    assert json.loads(run("tasks", "show", "t-m-1", "--json").stdout)[0]["state"] == "canceled"
    assert "No tasks." in run("tasks", "list", "--expired").stderr


def test_local_dead_letters_are_redriven_or_dropped(run: RunCommand, stores: Stores, folder: Path) -> None:
    chat = StoreConversation(stores.tasks, CLOCK)
    parked(folder, body_of(WakeUp(chat.context)))
    parked(folder, "not of ours")
    listed = json.loads(run("dlq", "list", "--json").stdout)
    assert [each.get("context") for each in listed] == [chat.context.context_id, None]
    assert abs((datetime.fromisoformat(listed[0]["sentAt"]) - datetime.now(UTC)).total_seconds()) < 600
    assert run("dlq", "drop", listed[1]["id"], "--yes").exit_code == 0
    redriven = run("dlq", "redrive", "--yes")
    assert "Redrive to the task queue started." in redriven.stderr
    assert "No dead letters." in run("dlq", "list").stderr


def test_data_delete_in_local_store_deletes_large_payloads(run: RunCommand, stores: Stores) -> None:
    chat = StoreConversation(stores.tasks, CLOCK)

    async def converse() -> None:
        begun = await chat.starts(text="x" * 400_000)
        await chat.ends(begun)

    asyncio.run(converse())
    assert asyncio.run(stores.resources.blobs.names("tasks/"))
    owner = chat.context.owner
    deleted = json.loads(run("data", "delete", "--owner", owner, "--yes", "--json").stdout)
    assert deleted["left"] == 0
    assert {each["versions"] for each in deleted["stores"]} == {0, 1}
    assert not asyncio.run(stores.resources.blobs.names("tasks/"))
    assert "No tasks." in run("tasks", "list").stderr


def test_table_named_by_environment_variable_overrides_local_store(run: RunCommand, stores: Stores) -> None:
    refused = operating.runs({"AION_TABLE": "theirs"})("tasks", "list", "--scan")
    assert "set AION_BUCKET, AION_TASK_QUEUE_URL" in refused.stderr


def test_confirmation_with_closed_standard_input_names_yes() -> None:
    """Unlike an ended standard input, a closed one (`<&-`) is no file: Python sets `sys.stdin` to None."""
    program = "from aion_tools.cli import options; import click; click.command()(lambda: options.confirm('Sure?'))()"
    ran = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, program], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 2
    assert ran.stderr.endswith("Error: There is no terminal to ask for confirmation: give --yes.\n")


REGIONS = {
    "file before default profile": ({}, [], "us-east-2"),
    "file before profile of environment": ({"AWS_PROFILE": "eu"}, [], "us-east-2"),
    "environment before file": ({"AWS_REGION": "eu-west-3"}, [], "eu-west-3"),
    "old variable before file": ({"AWS_DEFAULT_REGION": "eu-west-3"}, [], "eu-west-3"),
    "profile option before file": ({}, ["--profile", "eu"], "eu-central-1"),
    "profile option without region": ({}, ["--profile", "bare"], "us-east-2"),
    "environment before profile option": ({"AWS_REGION": "eu-west-3"}, ["--profile", "eu"], "eu-west-3"),
    "region option before all": (
        {"AWS_REGION": "eu-west-3"},
        ["--profile", "eu", "--region", "ap-south-1"],
        "ap-south-1",
    ),
}


@each_row(("environ", "given", "region"), REGIONS.values())
def test_region_precedence_of_options_environment_and_samconfig(
    environ: dict[str, str], given: list[str], region: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "samconfig.toml").write_text('[default.global.parameters]\nregion = "us-east-2"\n')
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile eu]\nregion = eu-central-1\n[profile bare]\noutput = json\n"
    )
    monkeypatch.chdir(tmp_path)

    @click.command()
    @aws_options.aws
    def shown() -> None:
        with aws_options.aws_environment(*aws_options.saved_place(SamConfig.read(Path("samconfig.toml"))), None):
            click.echo(aws.region())

    kept = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", **environ}
    cleared = dict.fromkeys(name for name in os.environ if name.startswith("AWS_"))
    done = CliRunner().invoke(shown, given, env={**cleared, **kept})
    assert done.output == f"{region}\n"


@each_row(
    ("environ", "other"),
    [
        ({}, "eu-north-1"),
        ({"AWS_PROFILE": "same"}, ""),
        ({"AWS_REGION": "eu-west-3"}, ""),
        ({"AWS_PROFILE": "gone"}, ""),
    ],
)
def test_other_region_of_profile_is_told(
    environ: dict[str, str], other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "samconfig.toml").write_text('[default.global.parameters]\nregion = "us-east-2"\n')
    (tmp_path / "config").write_text("[default]\nregion = eu-north-1\n[profile same]\nregion = us-east-2\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {"AWS_CONFIG_FILE": str(tmp_path / "config"), **environ}.items():
        monkeypatch.setenv(name, value)
    assert aws_options.other_region(SamConfig.read(tmp_path / "samconfig.toml")) == other
