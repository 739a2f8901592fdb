"""Deletion of an owner's data that ends before any of its writes, and between whose writes another process writes."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.principal import API_KEY_ISSUER, Principal
from aion_core.engine.fenced_writes import Fence
from aion_core.state.langgraph.checkpoints import TableSaver
from aion_core.table import keys
from aion_core.table.item import PARTITION, Key
from aion_core.table.keys import TaskKey
from aion_core.table.stamp import stamp
from aion_core.table.writes import Delete, Put
from aion_tools.erasure.deletion import Erasure
from aion_tools.erasure.stores import ObjectVersion, VersionPage
from tests.runtime.contract.processes import (
    CONTEXT,
    OWNER,
    Act,
    Process,
    adds,
    checkpoint,
    running,
    with_session,
)
from tests.support.between_writes import BetweenWrites, Died
from tests.support.faulty_table import FaultyTable

PRINCIPAL = Principal(API_KEY_ISSUER, OWNER).owner
"""Owner of an API key whose principal is `OWNER`."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step of a deletion have one item, and do not wait before a second attempt."""
    for name in ("ITEMS_AT_ONCE", "VERSIONS_AT_ONCE"):
        monkeypatch.setattr(f"aion_tools.erasure.deletion.{name}", 1)
    monkeypatch.setattr("aion_core.table.retries.FIRST_WAIT_SECONDS", 0.0)


class ErasableFaultyTable(FaultyTable):
    """Memory table that can delete many items at once."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete the items."""
        for key in keys:
            await self.write(Delete(key))
        return []


class Bucket:
    """Bucket with all versions of its objects, newest first, as S3 lists them."""

    def __init__(self, **names: str) -> None:
        """Store objects by name. In the history of an object, `+` stands for a version and `-` for a delete marker."""
        self.versions = [
            ObjectVersion(f"{keys.owner_folder('tasks', owner)}/t/{name}", str(number), 1, kind == "-")
            for owner in (OWNER, "bob")
            for name, history in names.items()
            for number, kind in reversed([*enumerate(history)])
        ]

    async def page(self, prefix: str, *, after: Any = None) -> VersionPage:
        return VersionPage([version for version in self.versions if version.name.startswith(prefix)])

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        self.versions = [each for each in self.versions if (each.name, each.version_id) not in versions]

    def visible(self) -> set[str]:
        """Return the names of the objects that a reader finds: their newest version is no delete marker."""
        newest = {each.name: each for each in reversed(self.versions)}
        return {name for name, version in newest.items() if not version.is_marker}


async def stored(*acts: Act) -> tuple[Process, Bucket]:
    """Return a process whose table has what these acts store, and a bucket."""
    process = Process("before")
    process.stored = ErasableFaultyTable(process.clock), process.blobs
    process.table = process.stored[0]
    for act in acts:
        await act(process)
    return process, Bucket(a="+", b="++", hidden="+-", hidden_twice="+-+-", back="-+")


async def deletes(process: Process, bucket: Bucket, writes: BetweenWrites | None = None) -> None:
    """Delete the owner's data, between whose writes something may happen."""
    writes = writes or BetweenWrites()
    table, objects = writes.of(process.stored[0]), writes.of(bucket)
    erasure = Erasure(table, objects)
    found = await erasure.find([OWNER, PRINCIPAL], lambda *_: None)
    await erasure.delete(found, lambda *_: None)


async def remembers(process: Process) -> None:
    """Store a checkpoint. Its key has a hash of the owner only."""
    place: Any = {"configurable": {"thread_id": keys.thread_id(CONTEXT), "checkpoint_ns": ""}}
    saver = TableSaver(process.table, process.blobs, process.clock, fence=Fence(CONTEXT, 1))
    await saver.aput(place, checkpoint(1), {"source": "loop", "step": 1, "parents": {}}, {})


async def of_bob(process: Process) -> None:
    await process.table.write(
        Put(keys.head_key(TaskKey("bob", "t")), {**stamp("bob"), "agent": "echo", "context_id": "c-1"})
    )


def owners_items(process: Process) -> list[str]:
    table: Any = process.stored[0]
    return [item[PARTITION] for item in table.items() if item[PARTITION] != "TASK#bob#t"]


async def test_deletion_that_dies_shows_nothing_hidden_and_ends_later() -> None:
    """Die before each write: no deleted object is back, API keys are deleted first, and the next deletion ends it."""

    async def dies() -> None:
        raise Died

    for at in itertools.count(1):
        process, bucket = await stored(adds(OWNER), running, with_session, remembers, of_bob)
        visible, items = bucket.visible(), owners_items(process)
        try:
            await deletes(process, bucket, BetweenWrites(at, dies))
        except Died:
            assert bucket.visible() <= visible, at
            has_key = await ApiKeys(process.table, process.clock).find("id") is not None
            assert has_key == (owners_items(process) == items), at
            await deletes(process, bucket)
            has_died = True
        else:
            has_died = False
        assert owners_items(process) == []
        assert {version.name.split("/")[1] for version in bucket.versions} == {keys.owner_tag("bob")}
        if not has_died:
            break
    assert at > len(items)
