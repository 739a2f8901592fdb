"""Operator commands on the SQLite store of `aion dev`, which is stopped."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.clock import SystemClock
from aion_core.ports import WakeUp
from aion_core.ports.queues import body_of
from aion_core.settings import Settings
from aion_core.sqlite.queues import MAX_RECEIVES, SQLiteQueue, open_queues
from tests.support import operating
from tests.support.clock import ManualClock
from tests.support.conversation import Conversation
from tests.support.operating import EventBroadcast

CLOCK = SystemClock()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AION_DATA_DIR", raising=False)
    return tmp_path / ".aion" / "store"


@pytest.fixture
def stores(folder: Path) -> Stores:
    return build_stores(Settings.from_environ({"AION_STORE": "sqlite", "AION_SQLITE_FOLDER": str(folder)}), CLOCK)


@pytest.fixture
def run() -> EventBroadcast:
    return operating.runs({})


def parked(folder: Path, body: str) -> None:
    """Let the message be received as often as it may be."""
    clock = ManualClock()
    queue = SQLiteQueue(open_queues(folder / "queues.db"), "task", clock)

    async def park() -> None:
        await queue.send(body)
        for _ in range(MAX_RECEIVES + 1):
            await queue.receive(1)
            clock.move(3600)

    asyncio.run(park())


def test_tasks_are_listed_shown_and_canceled(run: EventBroadcast, stores: Stores, folder: Path) -> None:
    chat = Conversation(stores.tasks, CLOCK)
    asyncio.run(chat.starts("m-1"))
    listed = run("tasks", "list")
    assert listed.stderr == f"Using {folder}, the store of `aion dev`, which is stopped\n"
    assert listed.stdout.split("\t")[:2] == ["t-m-1", "working"]
    assert run("tasks", "cancel", "t-m-1", "--yes").exit_code == 0
    assert json.loads(run("tasks", "show", "t-m-1", "--json").stdout)[0]["state"] == "canceled"
    assert "No tasks." in run("tasks", "list", "--expired").stderr


def test_parked_messages_are_sent_again_or_dropped(run: EventBroadcast, stores: Stores, folder: Path) -> None:
    chat = Conversation(stores.tasks, CLOCK)
    parked(folder, body_of(WakeUp(chat.context)))
    parked(folder, "not of ours")
    listed = json.loads(run("dlq", "list", "--json").stdout)
    assert [each.get("context") for each in listed] == [chat.context.context_id, None]
    assert abs((datetime.fromisoformat(listed[0]["sentAt"]) - datetime.now(UTC)).total_seconds()) < 600
    redriven = run("dlq", "redrive", "--all", "--yes")
    assert "1 sent again." in redriven.stderr
    (left,) = json.loads(run("dlq", "list", "--json").stdout)
    assert run("dlq", "drop", left["id"], "--yes").exit_code == 0
    assert "No messages in the dead letter queues." in run("dlq", "list").stderr


def test_keys_and_webhooks_are_listed(run: EventBroadcast, stores: Stores) -> None:
    made = run("key", "create", "alice")
    assert made.stdout.startswith("aion_")
    assert "alice" in run("key", "list").stdout
    assert "No push configs." in run("push", "list", "--all").stderr


def test_owner_is_deleted_with_large_payloads(run: EventBroadcast, stores: Stores) -> None:
    chat = Conversation(stores.tasks, CLOCK)

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


def test_named_deployment_goes_before_local_store(run: EventBroadcast, stores: Stores) -> None:
    refused = operating.runs({"AION_TABLE": "theirs"})("tasks", "list", "--scan")
    assert "set AION_BUCKET, AION_TASK_QUEUE_URL" in refused.stderr
