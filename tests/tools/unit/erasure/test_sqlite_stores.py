"""Objects to erase in SQLite files."""

from pathlib import Path

from aion_core.local.sqlite.blobs import SQLiteBlobs
from aion_tools.erasure.sqlite_stores import SQLiteObjectVersions
from tests.support.clock import ManualClock


async def test_blob_written_again_since_its_page_is_kept(tmp_path: Path) -> None:
    clock = ManualClock()
    blobs = SQLiteBlobs(tmp_path / "blobs.sqlite", clock)
    objects = SQLiteObjectVersions(blobs.database)
    for name in ("tasks/a/1", "tasks/a/2", "tasks/b/1"):
        await blobs.put(name, b"old")
    found = (await objects.page("tasks/a/")).versions
    clock.move(0.001)
    await blobs.put("tasks/a/2", b"new")
    await objects.delete([(each.name, each.version_id) for each in found])
    assert await blobs.names("tasks/") == ["tasks/a/2", "tasks/b/1"]
