"""SQLite file: connections, transactions, layout version and errors."""

import asyncio
import itertools
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from aion_core.errors import ConfigurationError, StoreCorrupt, StoreError, StoreUnavailable
from aion_core.table.schema import VERSION

BUSY_SECONDS = 10.0
"""Seconds to wait for another process's write."""

READERS = 4
"""Number of reader threads. There is one writer thread, since SQLite allows one writer at a time."""

TURN = 64
"""After this many short calls, other tasks of the event loop run. SQLite alone would not let them."""

CHECKPOINT = 256
"""After this many writes, the writer thread checkpoints the file."""

LARGE_LOG = 4000
"""Number of pages in the WAL file from which a checkpoint keeps other writes waiting, because it must reach the end."""

BRIEF_SECONDS = 0.002
"""Seconds that a short write waits in the event loop's thread for a write of this process. Most take less. If it went to
the writer thread at once, the next one would find it there: under load, each would go."""

_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")

T = TypeVar("T")


class Database:
    """SQLite file that all threads of this process and other processes may use at the same time.

    A commit survives a crash of the process. A loss of power may undo the last commits, but does not corrupt the file
    (WAL with synchronous=NORMAL). Turns would be many times slower if each commit waited for the developer's disk. The
    methods raise StoreUnavailable, StoreCorrupt or StoreError.

    A short call takes less time than the way to a thread and back, and its commit does not wait for the disk. So it runs
    in the event loop's own thread, unless it has to wait for another writer.
    """

    def __init__(self, path: Path, schema: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        """Open the file, and create it if missing. Raises ConfigurationError if the file has another version."""
        self._path, self._busy_seconds = path, busy_seconds
        self._idle: deque[sqlite3.Connection] = deque()
        self._write_lock = threading.Lock()
        self._short: sqlite3.Connection | None = None
        """Connection of short writes, which does not wait for other processes. The write lock guards it."""
        self._calls = itertools.count(1)
        self._writes = itertools.count(1)
        self._readers = ThreadPoolExecutor(READERS, f"{path.stem}-read")
        self._writer = ThreadPoolExecutor(1, f"{path.stem}-write")
        self._open(schema)

    def _open(self, schema: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Create the file readable for this user only, because SQLite would not. Its WAL files get the same mode. Do
            # not open an existing file: closing it would release the POSIX locks of all SQLite connections of this
            # process, and another process would then delete the WAL files with the last commits.
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be opened ({error.strerror}).") from error
        if not os.access(self._path, os.R_OK | os.W_OK):
            raise ConfigurationError(f"{self._path} cannot be opened (Permission denied).")
        try:
            self._use_wal()
            with self.writing() as connection:
                [(found,)] = connection.execute("PRAGMA user_version")
                is_new = not connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
                if is_new:
                    for statement in schema.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {VERSION:d}")
        except StoreCorrupt as error:
            raise ConfigurationError(f"{self._path} is not a SQLite file, or is broken. {_REMEDY}") from error
        if not is_new and found != VERSION:
            # Name the folder, because its files belong together: they refer to each other, and have one version.
            raise ConfigurationError(
                f"The store {self._path.parent} has layout {found}, and this version of aion reads only layout {VERSION}: "
                "delete this folder, or start with `aion dev --fresh`."
            )

    def _use_wal(self) -> None:
        """Set the file's WAL mode, to allow reads during a write. The mode is stored in the file."""
        for attempt in range(100):
            try:
                with self.reading() as connection:
                    connection.execute("PRAGMA journal_mode = WAL")
            except StoreUnavailable:
                # Retry, because SQLite does not wait for the lock that this statement needs.
                if attempt == 99:
                    raise
                time.sleep(self._busy_seconds / 100)
            else:
                return

    async def read(self, work: Callable[[sqlite3.Connection], T], *, large: bool = False) -> T:
        """Run the function `work` with a connection, and return its result. A `large` read runs in a reader thread."""
        if large:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_blocking, work)
        await self._let_others_run()
        return self.read_blocking(work)

    async def write(self, work: Callable[[sqlite3.Connection], T], *, large: bool = False) -> T:
        """Run the function `work` in a transaction, and return its result. A `large` write runs in the writer thread."""
        await self._let_others_run()
        if not large and self._write_lock.acquire(timeout=BRIEF_SECONDS):
            try:
                with self._errors():
                    if self._short is None:
                        self._short = self._connect(busy_seconds=0)
                    if _has_begun(self._short):
                        with self._committed(self._short):
                            return work(self._short)
            finally:
                self._write_lock.release()
        return await asyncio.get_running_loop().run_in_executor(self._writer, self.write_blocking, work)

    async def _let_others_run(self) -> None:
        if next(self._calls) % TURN == 0:
            await asyncio.sleep(0)

    def _checkpoint(self) -> None:
        """Copy the commits in the WAL file to the file itself. Writes go on meanwhile, unless the WAL file has grown large.

        A failure loses nothing, and shows at the next write.
        """
        with self.reading() as connection:
            [(_, pages, _)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            if pages > LARGE_LOG:
                with self._write_lock:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def read_blocking(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run the function `work` with a connection in this thread, and return its result."""
        with self.reading() as connection:
            return work(connection)

    def write_blocking(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run the function `work` in a transaction in this thread, and return its result."""
        with self.writing() as connection:
            return work(connection)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to the file for exclusive use."""
        with self._errors():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect(self._busy_seconds)
            try:
                yield connection
            finally:
                self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction. Commit the transaction at the end, or undo it after an exception."""
        with self._write_lock, self.reading() as connection:
            connection.execute(_BEGIN)
            with self._committed(connection):
                yield connection

    def close(self) -> None:
        """Wait for the running calls, and close the file."""
        self._readers.shutdown()
        self._writer.shutdown()
        while self._idle:
            self._idle.pop().close()
        if self._short is not None:
            self._short.close()

    def _connect(self, busy_seconds: float) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = NORMAL")
        # A commit does not wait for the disk: `_checkpoint` does that, in a thread of its own.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    @contextmanager
    def _committed(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Commit the connection's transaction at the end, or undo it after an exception."""
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if next(self._writes) % CHECKPOINT == 0:
            # A thread pool that shuts down takes no more calls. Closing the file then checkpoints it.
            with suppress(RuntimeError):
                self._writer.submit(self._checkpoint)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            text = f"SQLite: {name}: {error} ({self._path})"
            if name.startswith(_CORRUPT):
                raise StoreCorrupt(text) from error
            raise (StoreUnavailable if name.startswith(_PASSING) else StoreError)(text) from error


# Take the write lock now (IMMEDIATE). Otherwise SQLite refuses the first write of a transaction that began with a read if
# another process has written since the read.
_BEGIN = "BEGIN IMMEDIATE"


def _has_begun(connection: sqlite3.Connection) -> bool:
    """Begin a transaction on a connection that does not wait. Return False if another process is writing."""
    try:
        connection.execute(_BEGIN)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith("SQLITE_BUSY"):
            return False
        raise
    return True


_REMEDY = "Delete it to start with an empty store, or use `aion dev --fresh`."
