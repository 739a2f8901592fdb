"""Each list that a command prints is whole: with more items than one page, and with one more than `--limit`."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aion_core.auth.api_keys import KeyRecord
from aion_core.bootstrap.stores import QUEUES_FILE, build_stores
from aion_core.local.sqlite.message_queue import open_queues
from aion_core.settings import Settings
from aion_core.table.keys import ContextKey
from aion_core.table.times import milliseconds
from aion_tools.cli import documents
from tests.support import operating
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.operating import RunCommand
from tests.support.pushes import a_config

ITEMS = 5
UUID = "01a22a28-a75d-7309-837f-96b3e12c8836"
OWNER = ("--owner", "alice", "--agent", "echo")
LISTS = {
    "tasks of owner": ("tasks", "list", *OWNER),
    "tasks of owner in a state": ("tasks", "list", *OWNER, "--state", "working"),
    "tasks of all": ("tasks", "list", "--scan"),
    "tasks of expired leases": ("tasks", "list", "--expired"),
    "dead letters": ("dlq", "list"),
    "push configs of owner": ("push", "list", "--all", *OWNER),
    "push configs of all": ("push", "list", "--all"),
    "API keys": ("key", "list"),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in a folder in which `aion dev` has stored five items of each kind.

    Each page that a command reads has one or two items.
    """
    monkeypatch.chdir(tmp_path)
    folder, clock = tmp_path / ".aion" / "store", ManualClock(at=datetime.now(UTC) - timedelta(hours=1))
    asyncio.run(stored(folder, clock))
    monkeypatch.setattr("aion_core.table.semantics.pages.MAX_PAGE_BYTES", 1)
    monkeypatch.setattr("aion_core.engine.listing.task_list.MAX_READS", 2)
    monkeypatch.setattr("aion_tools.cli.operate.push.TASKS_AT_ONCE", 2)
    return operating.runs({})


async def stored(folder: Path, clock: ManualClock) -> None:
    environ = {"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder), "AION_PUSH": "on"}
    stores = build_stores(Settings.from_environ(environ), clock)
    assert stores.push is not None
    insert = "INSERT INTO messages (queue, body, sent_at, visible_at, receives, receiver, dead) VALUES (?,?,?,0,5,'',1)"
    for number in range(ITEMS):
        chat = StoreConversation(stores.tasks, clock, ContextKey("alice", "echo", f"c-{number}"))
        await chat.starts(f"m-{number}")
        await stores.push.configs.put(chat.key(f"t-m-{number}"), a_config(f"p-{number}"))
        await stores.api_keys().add(KeyRecord(f"key-{number}", "hash", "alice", clock.now(), "last"))
        clock.move(1)
    letters = [("task", f"letter {number}", milliseconds(clock.now())) for number in range(ITEMS)]
    database = open_queues(folder / QUEUES_FILE)
    database.write_blocking(lambda connection: connection.executemany(insert, letters))


@pytest.mark.parametrize("name", LISTS)
def test_list_has_each_item_of_many_pages_once(run: RunCommand, name: str) -> None:
    lines = run(*LISTS[name]).stdout.splitlines()[1:]
    assert (len(lines), len(set(lines))) == (ITEMS, ITEMS)
    assert len(json.loads(run(*LISTS[name], "--json").stdout)) == ITEMS


SENTENCES = {
    "tasks of owner": "{} of 5 tasks printed; --limit prints more.",
    "tasks of all": "{} of 5 tasks printed; --limit prints more.",
    "push configs of all": "{} of 5 push configs printed; --limit prints more.",
    "dead letters": "The task queue has more than {} dead letters; --limit prints more.",
}


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("name", [*SENTENCES, "tasks of expired leases"])
def test_list_says_what_is_beyond_its_limit(run: RunCommand, name: str, options: tuple[str, ...]) -> None:
    for limit in (1, ITEMS - 1, ITEMS, ITEMS + 1):
        listed = run(*LISTS[name], "--limit", str(limit), *options)
        number = len(json.loads(listed.stdout)) if options else len(listed.stdout.splitlines()) - 1
        assert number == min(limit, ITEMS)
        is_told = limit < ITEMS and name in SENTENCES
        told = [line for line in listed.stderr.splitlines() if "prints more" in line]
        assert told == ([SENTENCES[name].format(limit)] if is_told else [])


@pytest.mark.parametrize(("is_terminal", "shown"), [(True, f"e12c8836  {UUID}"), (False, f"{UUID}  {UUID}")])
def test_ids_that_commands_accept_are_short_on_terminal(
    is_terminal: bool, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    documents.print_rows([{"task": UUID, "context": UUID}], ("task", "context"), "tasks")
    header, line = capsys.readouterr().out.splitlines()
    assert (header.split(), line) == (["TASK", "CONTEXT"], shown)
