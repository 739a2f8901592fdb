"""`aion data delete` on the command line: owners, output, and deletion."""

import asyncio
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.principal import API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER, Principal
from aion_core.auth.schemes.api_key import make_key
from aion_core.auth.schemes.aws_iam import AwsIamScheme, IamVerifier
from aion_core.auth.tenants import owner_in
from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError
from aion_core.settings import Settings
from aion_core.table import keys, schema
from aion_core.table.keys import ContextKey
from aion_core.table.stamp import stamp
from aion_core.table.writes import Put
from aion_tools.cli.data_owners import OWN_ISSUERS, issuers_in, owners_of
from aion_tools.cli.data_report import Progress
from aion_tools.erasure import kinds
from aion_tools.operator.bootstrap import build_keys
from aion_tools.stack.stack import LocalStack
from tests.support import operating
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand
from tests.support.rows import each_row
from tests.support.server import ROOT
from tests.support.stores import dynamodb_table

AION_YAML = ROOT / "tests" / "support" / "agents" / "remembering.yaml"
ISSUER = "https://login.example.com"

ALICE = "alice@example.com"


@pytest.fixture
def run(run: RunCommand, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunCommand:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture
def owner(run: RunCommand, chat: StoreConversation, environ: dict[str, str]) -> Iterator[str]:
    """Owner who has a task and an API key."""
    owner = Principal(API_KEY_ISSUER, ALICE).owner
    asyncio.run(uses(chat, owner, environ))
    yield owner
    assert run("data", "delete", "--subject", ALICE, "--yes").exit_code == 0


async def uses(chat: StoreConversation, owner: str, environ: dict[str, str]) -> None:
    chat.context = ContextKey(owner, "echo", "c-1")
    begun = await chat.starts(text="x" * 40_000)
    await chat.ends(begun)
    settings = Settings.from_environ({"AION_STORE": "sqlite" if "AION_SQLITE_FOLDER" in environ else "", **environ})
    await build_keys(settings).add(make_key(ALICE, now=SystemClock().now()).record)


class Terminal(BytesIO):
    """Standard input that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def stores(report: str) -> dict[str, tuple[int, int]]:
    """Return each store's numbers of items and of versions from the printed table."""
    lines = [re.split(r" {2,}", line) for line in report.splitlines()[1:]]
    return {store: (int(items), int(versions)) for store, items, versions, _ in lines}


@pytest.mark.usefixtures("empty_table")
def test_data_delete_dry_run_lists_stores_and_deletes_nothing(run: RunCommand, owner: str, moto: LocalStack) -> None:
    first = run("data", "delete", "--owner", owner)
    assert first.exit_code == 0, first.exception
    assert first.stdout.startswith("STORE ")
    assert stores(first.stdout) == {
        "tasks": (4, 0),
        "contexts": (1, 0),
        "message ids": (1, 0),
        "API keys": (1, 0),
        "task payloads": (0, 1),
    }
    assert first.stderr.endswith("Nothing was deleted (dry run). --yes deletes.\n")
    assert run("data", "delete", "--owner", owner, "--dry-run").stdout == first.stdout
    document = json.loads(run("data", "delete", "--subject", ALICE, "--json").stdout)
    assert document["owners"][0] == {
        "owner": owner, "subject": ALICE, "issuer": API_KEY_ISSUER, "tenant": "", "found": 8,
    }  # fmt: skip
    (tasks,) = (store for store in document["stores"] if store["store"] == "tasks")
    assert (tasks["items"], tasks["versions"]) == (4, 0)
    assert (document["deleted"], document["left"]) == (False, 8)
    by_stack = operating.runs(operating.environ_of(moto))
    stack = operating.registered(moto, "aion-data")
    assert "tasks " in by_stack("data", "delete", "--owner", owner, "--stack", stack).stdout


def test_data_delete_with_yes_may_be_repeated(run: RunCommand, owner: str) -> None:
    """Delete all but the API keys, then the rest, and then nothing."""
    assert run("data", "delete", "--owner", owner, "--keep-keys", "--yes").exit_code == 0
    assert stores(run("data", "delete", "--owner", owner).stdout) == {"API keys": (1, 0)}
    done = run("data", "delete", "--subject", ALICE, "--yes")
    assert done.exit_code == 0, done.exception
    assert "Everything was deleted" in done.stderr
    document = json.loads(run("data", "delete", "--subject", ALICE, "--yes", "--json").stdout)
    assert (document["stores"], document["left"], document["deleted"]) == ([], 0, True)
    assert ALICE not in run("key", "list").stdout


def test_data_delete_warns_that_running_turn_may_store_more_files(
    run: RunCommand, owner: str, chat: StoreConversation
) -> None:
    asyncio.run(StoreConversation(chat.store, chat.clock, ContextKey(owner, "echo", "c-2")).starts())
    done = run("data", "delete", "--subject", ALICE, "--yes")
    assert (
        "The turn of a task is running, but can no longer write to the table. Run the command again in a minute to "
        "delete files stored in the meantime."
    ) in done.stderr


def test_data_delete_prompt_accepts_only_owners_name(run: RunCommand, owner: str) -> None:
    for typed in ("yes", "", ALICE):
        deletes = typed == ALICE
        asked = run("data", "delete", "--subject", ALICE, input=Terminal(f"{typed}\n".encode()))
        assert asked.exit_code == (0 if deletes else 1), asked.exception
        assert f"Type {ALICE} to delete all of it" in asked.stderr
        assert (run("data", "delete", "--owner", owner).stdout == "") is deletes


@each_row(
    ("arguments", "error_text"),
    [
        ([], "Give either --owner or --subject."),
        (["--owner", "a", "--subject", "b"], "Give either --owner or --subject."),
        (["--owner", "a", "--issuer", "i"], "--issuer and --tenant require a --subject."),
        (["--owner", "a", "--tenant", "t"], "--issuer and --tenant require a --subject."),
        (["--owner", "a", "--yes", "--dry-run"], "either --yes or --dry-run"),
    ],
)
def test_contradicting_data_delete_options_are_refused(run: RunCommand, arguments: list[str], error_text: str) -> None:
    failed = run("data", "delete", *arguments)
    assert failed.exit_code == 2
    assert error_text in failed.stderr


def test_data_delete_with_unknown_bucket_names_missing_variable(stack: LocalStack) -> None:
    environ = {name: value for name, value in stack.environment("ApiFunction").items() if name != "AION_BUCKET"}
    failed = operating.runs(environ)("data", "delete", "--owner", "a")
    assert failed.exit_code == 2
    assert "set AION_BUCKET" in failed.stderr


def test_data_delete_reports_owner_that_still_writes(
    run: RunCommand, owner: str, moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, request = dynamodb_table(moto), Put(keys.requests_key(owner), {**stamp(owner), "full_at": 1})
    with monkeypatch.context() as patched:
        operating.hook(patched, "after-call.dynamodb.BatchWriteItem", lambda **_: table.write_blocking(request))
        failed = run("data", "delete", "--owner", owner, "--yes")
    assert operating.refusal(failed).startswith("1 item or version is there again: the owner still writes.")
    assert stores(run("data", "delete", "--owner", owner).stdout) == {"rate limits": (1, 0)}


def test_data_delete_progress_is_printed_once_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 0.5, 1.0, 1.5, 2.5])
    # Replace the clock of this module only, because other threads of the process read the time too.
    monkeypatch.setattr("aion_tools.cli.data_report.time", SimpleNamespace(monotonic=lambda: next(times)))
    progress = Progress()
    for count in (10, 2000, 3000, 4000):
        progress("items read", count)
    assert capsys.readouterr().err == "2,000 items read\n4,000 items read\n"


# ── Owners of a subject ───────────────────────────────────────────────────────────────────────────────────────────────


def test_one_subject_has_owner_id_for_each_issuer_and_tenant() -> None:
    found = owners_of("alice", [*OWN_ISSUERS, ISSUER], ["acme", ""])
    assert [(each.issuer, each.tenant) for each in found] == [
        (issuer, tenant) for issuer in (API_KEY_ISSUER, BASIC_ISSUER, IAM_ISSUER, ISSUER) for tenant in ("", "acme")
    ]
    assert [each.owner for each in found[:2]] == [
        Principal(API_KEY_ISSUER, "alice").owner,
        owner_in(Principal(API_KEY_ISSUER, "alice").owner, "acme"),
    ]
    assert len({each.owner for each in found}) == 8


async def test_iam_role_arn_selects_owner_ids_of_the_roles_sessions() -> None:
    """In a signed request AWS names a role's session by an ARN that lacks the role's path."""
    event: dict[str, Any] = {
        "requestContext": {"identity": {"userArn": "arn:aws:sts::123456789012:assumed-role/caller/session-1"}}
    }
    principal = await IamVerifier(AwsIamScheme()).verify(RequestCredentials.from_request([], event))
    assert isinstance(principal, Principal)
    found = owners_of("arn:aws:iam::123456789012:role/team/caller", [IAM_ISSUER], [])
    assert principal.owner in {each.owner for each in found}


def test_data_delete_reads_issuers_from_aion_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert issuers_in(AION_YAML) == [ISSUER]
    monkeypatch.chdir(tmp_path)
    assert issuers_in(Path("aion.yaml")) == []
    with pytest.raises(ConfigurationError, match="cannot be read"):
        issuers_in(tmp_path / "named.yaml")


def test_objects_of_every_folder_are_searched() -> None:
    assert set(kinds.OBJECTS) == {*schema.RETENTIONS, schema.PERMANENT_FOLDER}
