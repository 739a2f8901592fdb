"""SQLite file: killed processes, several processes, locks, schema versions and expiry."""

import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.local.sqlite.blobs import SQLiteBlobs
from aion_core.local.sqlite.database import CHECKPOINT, TURN, Database
from aion_core.local.sqlite.table import CLEANING, GRACE_SECONDS, SQLiteTable
from aion_core.table.item import Key
from aion_core.table.refusals import WriteRefused
from aion_core.table.schema import ARTIFACTS, PERMANENT_FOLDER, TIMERS, TTL_ATTRIBUTE, VERSION
from aion_core.table.writes import Change, Put, Update
from tests.support.clock import ManualClock
from tests.support.server import ROOT

KEY = Key("p", "s")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "table.sqlite3"


@pytest.fixture
def table(path: Path, clock: ManualClock) -> Iterator[SQLiteTable]:
    made = SQLiteTable(path, clock)
    yield made
    made.close()


TABLE = """
from aion_core.clock import SystemClock
from aion_core.table.conditions import *
from aion_core.table.item import *
from aion_core.table.refusals import *
from aion_core.table.writes import *
from aion_core.local.sqlite.table import SQLiteTable
table = SQLiteTable(path, SystemClock())
"""


def started(program: str, path: Path) -> subprocess.Popen[str]:
    """Start a process that runs this program with the file's path; return the process."""
    program = f"import sys; from pathlib import Path; path = Path(sys.argv[1])\n{program}"
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# ── Durability ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sqlite_items_survive_restart(path: Path, clock: ManualClock) -> None:
    before = SQLiteTable(path, clock)
    await before.write(Put(KEY, {"bytes": b"\xff", TIMERS.partition: "D", TIMERS.sort: 1}))
    before.close()
    after = SQLiteTable(path, clock)
    assert await after.get(KEY) == {"pk": "p", "sk": "s", "bytes": b"\xff", TIMERS.partition: "D", TIMERS.sort: 1}
    assert (await after.query_index(TIMERS, "D", 0, 9)).count == 1
    after.close()


def test_process_kill_during_transaction_rolls_back(path: Path) -> None:
    database = Database(path, "CREATE TABLE t (n INTEGER, filler TEXT)")
    with database.writing() as connection:
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x" * 1000)] * 500)
    # Use a small cache, so that SQLite writes changed pages to the WAL file before the commit.
    writer = started(
        "from aion_core.local.sqlite.database import Database\n"
        "database = Database(path, '')\n"
        "with database.writing() as connection:\n"
        "    connection.execute('PRAGMA cache_size = 1')\n"
        "    connection.execute('UPDATE t SET n = 2')\n"
        "    print('updated', flush=True)\n"
        "    sys.stdin.readline()\n",
        path,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "updated\n"
    writer.kill()
    writer.communicate()
    assert path.with_name(f"{path.name}-wal").stat().st_size > 100_000
    count = "SELECT n, count(*) FROM t GROUP BY n"
    assert database.read_blocking(lambda connection: connection.execute(count).fetchall()) == [(1, 500)]
    database.write_blocking(lambda connection: connection.execute("UPDATE t SET n = 3"))
    assert database.read_blocking(lambda connection: connection.execute(count).fetchall()) == [(3, 500)]
    database.close()


async def test_process_kill_keeps_acknowledged_transactions(path: Path, clock: ManualClock) -> None:
    SQLiteTable(path, clock).close()
    writer = started(
        TABLE + "import asyncio\n"
        "async def main():\n"
        "    for n in range(100_000):\n"
        "        await table.transact([Put(Key('p', 'a'), {'n': n}), Put(Key('p', 'b'), {'n': n})])\n"
        "        print(n, flush=True)\n"
        "asyncio.run(main())\n",
        path,
    )
    assert writer.stdout is not None
    for _ in range(50):
        writer.stdout.readline()
    writer.kill()
    *_, last = writer.communicate()[0].split() or ["49"]
    table = SQLiteTable(path, clock)
    found = [item["n"] for item in (await table.query("p", "a", "b")).items]
    assert found[0] == found[1] >= int(last)
    table.close()


async def test_second_connection_keeps_file_lock_of_first_connection(path: Path, clock: ManualClock) -> None:
    first, second = SQLiteTable(path, clock), SQLiteTable(path, clock)
    await first.write(Put(KEY, {"n": 1}))
    count = "print(table.get_blocking(Key('p', 's'))['n']); table.close()"
    # Without the lock, this process would delete the WAL file at its end, and later writes would be lost.
    assert started(TABLE + count, path).communicate()[0] == "1\n"
    await first.write(Put(KEY, {"n": 2}))
    assert started(TABLE + count, path).communicate()[0] == "2\n"
    first.close()
    second.close()


async def test_two_processes_can_write_to_database_concurrently(table: SQLiteTable, path: Path) -> None:
    program = (
        TABLE + "won = 0\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for n in range(100):\n"
        "    table.write_blocking(Update(Key('p', 'count'), Change(add={'n': 1})))\n"
        "    try:\n"
        "        table.write_blocking(Put(Key('p', f'{n:03d}'), {}, Absent()))\n"
        "        won += 1\n"
        "    except WriteRefused:\n"
        "        pass\n"
        "print(won)\n"
    )
    processes = [started(program, path) for _ in range(2)]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    told = await asyncio.gather(*(asyncio.to_thread(each.communicate, "go\n") for each in processes))
    assert sum(int(out) for out, _ in told) == 100
    counted = await table.get(Key("p", "count"))
    assert counted is not None
    assert counted["n"] == 200


async def test_sixteen_concurrent_writers_all_succeed(table: SQLiteTable) -> None:
    async def writer(number: int) -> None:
        for n in range(20):
            change = Update(Key("p", "count"), Change(add={"n": 1}))
            await table.transact([change, Put(Key("p", f"{number}-{n}"), {})], token=f"{number}-{n}")

    await asyncio.gather(*map(writer, range(16)))
    found = await table.query("p", "0", "z", keys_only=True)
    assert found.count == 16 * 20 + 1
    assert (await table.get(Key("p", "count")) or {})["n"] == 16 * 20


# ── Locks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_sqlite_reads_do_not_wait_for_other_processs_write(table: SQLiteTable, path: Path) -> None:
    await table.write(Put(KEY, {"n": 1}))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(table.write(Put(KEY, {"n": 2})))
    assert (await table.get(KEY) or {})["n"] == 1
    assert not waiting.done()
    other.execute("COMMIT")
    await waiting
    assert (await table.get(KEY) or {})["n"] == 2
    other.close()


def test_write_that_waits_too_long_raises_store_unavailable(path: Path) -> None:
    database = Database(path, "CREATE TABLE t (a)", busy_seconds=0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
        database.write_blocking(lambda connection: connection.execute("INSERT INTO t VALUES (1)"))
    other.execute("COMMIT")
    database.write_blocking(lambda connection: connection.execute("INSERT INTO t VALUES (1)"))
    other.close()
    database.close()


def test_failed_transaction_is_rolled_back(path: Path) -> None:
    database = Database(path, "CREATE TABLE t (a)")

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1)")
        raise WriteRefused(())

    with pytest.raises(WriteRefused):
        database.write_blocking(work)
    assert database.read_blocking(lambda connection: connection.execute("SELECT * FROM t").fetchall()) == []
    database.close()


async def test_sqlite_table_refuses_number_above_64_bits(table: SQLiteTable) -> None:
    with pytest.raises(StoreError, match="OverflowError"):
        await table.write(Put(KEY, {TIMERS.partition: "D", TIMERS.sort: 2**63}))
    assert await table.get(KEY) is None


# ── Threads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_short_call_runs_in_thread_only_if_it_waits(path: Path) -> None:
    database = Database(path, "CREATE TABLE t (a)")

    def work(connection: sqlite3.Connection) -> bool:
        connection.execute("SELECT 1")
        return threading.current_thread() is threading.main_thread()

    assert await database.read(work)
    assert await database.write(work)
    assert not await database.read(work, large=True)
    assert not await database.write(work, large=True)
    with database.writing():
        waiting = asyncio.create_task(database.write(work))
        await asyncio.sleep(0)
        assert await database.read(work)
    assert not await waiting
    database.close()


async def test_failed_short_write_is_rolled_back(path: Path) -> None:
    database = Database(path, "CREATE TABLE t (a)")

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1)")
        raise WriteRefused(())

    with pytest.raises(WriteRefused):
        await database.write(work)
    assert await database.read(lambda connection: connection.execute("SELECT * FROM t").fetchall()) == []
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES (2)"))
    assert await database.read(lambda connection: connection.execute("SELECT * FROM t").fetchall()) == [(2,)]
    database.close()


async def test_short_writes_do_not_follow_large_one_to_its_thread(path: Path) -> None:
    database = Database(path, "CREATE TABLE t (a)")
    threads = []

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1)")
        threads.append(threading.current_thread() is threading.main_thread())

    async def turn() -> None:
        for _ in range(20):
            await database.write(work)
            await asyncio.sleep(0)

    await asyncio.gather(database.write(work, large=True), *(turn() for _ in range(16)))
    assert threads.count(True) >= 300
    database.close()


async def test_many_short_writes_checkpoint_file_and_let_others_run(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aion_core.local.sqlite.database.LARGE_LOG", 500)
    database = Database(path, "CREATE TABLE t (n INTEGER PRIMARY KEY, filler TEXT)")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def insert(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t (filler) VALUES (?)", ("x" * 4000,))

    running = asyncio.create_task(other())
    for _ in range(10 * CHECKPOINT):
        await database.write(insert)
    running.cancel()
    assert turns >= 10 * CHECKPOINT / TURN - 1
    # The writer thread checkpoints before these writes.
    for _ in range(CHECKPOINT):
        await database.write(insert, large=True)
    await database.write(insert, large=True)
    assert path.stat().st_size > 10_000_000
    assert path.with_name(f"{path.name}-wal").stat().st_size < 6_000_000
    database.close()


# ── Permissions and validity of the file ──────────────────────────────────────────────────────────────────────────────


async def test_only_file_owner_can_read_database_files(table: SQLiteTable, path: Path) -> None:
    await table.write(Put(KEY, {}))
    files = list(path.parent.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert {file.name for file in files} >= {path.name, f"{path.name}-wal"}


def test_database_with_other_layout_is_refused(path: Path, clock: ManualClock) -> None:
    SQLiteTable(path, clock).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(ConfigurationError) as refused:
        SQLiteTable(path, clock)
    assert str(refused.value) == (
        f"The store {path.parent} has layout 99, and this version of aion reads only layout {VERSION}: delete this folder, "
        "or start with `aion dev --fresh`."
    )


def test_database_of_other_program_is_refused(path: Path, clock: ManualClock) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    with pytest.raises(ConfigurationError, match="has layout 0"):
        SQLiteTable(path, clock)


def test_file_that_is_no_database_is_refused(path: Path, clock: ManualClock) -> None:
    path.parent.mkdir()
    path.write_text("no database at all\n" * 100, "utf-8")
    with pytest.raises(ConfigurationError, match=r"not a SQLite file.* Delete it"):
        SQLiteTable(path, clock)


def test_database_in_folder_that_cannot_be_created_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        SQLiteTable(tmp_path / "file" / "table.sqlite3", clock)


async def test_broken_database_file_raises_store_corrupt(path: Path, clock: ManualClock) -> None:
    table = SQLiteTable(path, clock)
    await table.transact([Put(Key("p", str(n)), {"filler": "x" * 5000}) for n in range(50)])
    table.close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    broken = SQLiteTable(path, clock)
    with pytest.raises(StoreCorrupt):
        await broken.query("p", "0", "9")
    broken.close()


# ── Cleaning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_expired_sqlite_items_are_deleted_after_grace_period(table: SQLiteTable, clock: ManualClock) -> None:
    now = int(clock.now().timestamp())
    of_index = {TIMERS.partition: "D", TIMERS.sort: 1}
    await table.write(Put(Key("p", "early"), {TTL_ATTRIBUTE: now, **of_index}))
    await table.write(Put(Key("p", "late"), {TTL_ATTRIBUTE: now + GRACE_SECONDS, **of_index}))
    await table.write(Put(Key("p", "never"), of_index))

    async def keys() -> list[str]:
        for n in range(CLEANING):
            await table.write(Put(Key("other", str(n)), {}))
        assert (await table.query_index(TIMERS, "D", 1, 1)).count == (await table.query("p", "a", "z")).count
        return [item["sk"] for item in (await table.query("p", "a", "z")).items]

    clock.move(GRACE_SECONDS - 1)
    assert await keys() == ["early", "late", "never"]
    clock.move(1)
    assert await keys() == ["late", "never"]
    clock.move(GRACE_SECONDS)
    assert await keys() == ["never"]


async def test_expired_items_of_sqlite_transactions_do_not_accumulate(table: SQLiteTable, clock: ManualClock) -> None:
    """Write ten items in each transaction, as the first write of a task does: the deletions keep up."""
    for partition in ("first", "second"):
        expires = int(clock.now().timestamp())
        for start in range(0, 2 * CLEANING, 10):
            sorts = [f"{number:03d}" for number in range(start, start + 10)]
            await table.transact([Put(Key(partition, sort), {TTL_ATTRIBUTE: expires}) for sort in sorts])
        clock.move(GRACE_SECONDS)
    assert (await table.query("first", "0", "9")).items == []


async def test_sqlite_blobs_are_deleted_after_retention_except_permanent(path: Path, clock: ManualClock) -> None:
    blobs = SQLiteBlobs(path, clock, retention=timedelta(days=7))
    await blobs.put(f"{ARTIFACTS}/a", b"1")
    await blobs.put(f"{PERMANENT_FOLDER}/a", b"2")
    for days, left in [(21, b"1"), (1, None)]:
        clock.move(timedelta(days=days).total_seconds())
        for n in range(CLEANING):
            await blobs.put(f"{PERMANENT_FOLDER}/{n}", b"")
        assert await blobs.get(f"{ARTIFACTS}/a") == left
    assert await blobs.get(f"{PERMANENT_FOLDER}/a") == b"2"
    blobs.close()
