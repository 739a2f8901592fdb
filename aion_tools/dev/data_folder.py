"""Data folder of the development server (`.aion`), with its lock file, its address and its stored data.

Every `aion` command reads this folder to find a server, so this module imports little, which keeps commands fast.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aion_core.errors import ConfigurationError

FOLDER = ".aion"
SQLITE = "AION_SQLITE_FOLDER"
"""Name of the environment variable with the folder of the SQLite files."""
VARIABLE = "AION_DATA_DIR"
STATE = "dev.json"
STORE = "store"
"""Name of the SQLite folder within the data folder."""
LOG = "log.jsonl"
"""Name of the log file within the data folder. The previous log file has this name with the suffix `.1`."""
_LOCK = "dev.lock"
LOCK_WAITS = (0.01, 0.05, 0.0)
"""Pauses in seconds after failed attempts to lock. A command that looks for a server holds the lock for a moment."""


@dataclass(frozen=True)
class RunningServer:
    """A running development server, as described by the file dev.json in its data folder."""

    pid: int
    url: str
    endpoint: str = ""
    """URL of the emulated AWS. Empty for other stores."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the server's functions: the emulator's table, bucket, queues, key and credentials."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the development server of this data folder, or None if no server runs there."""
        try:
            state: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
            found = cls(int(state["pid"]), str(state["url"]), str(state["endpoint"]), dict(state["environment"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if _is_running(folder, found.pid) else None


@dataclass(frozen=True)
class LocalServer:
    """A development server with stored data, running or stopped."""

    name: str
    environment: Mapping[str, str]
    """Environment variables that select the server's store."""
    folder: Path
    """The server's data folder."""


def find_local_server() -> LocalServer | None:
    """Return the development server of AION_DATA_DIR or, if this is not set, of the nearest `.aion` here or above.

    A server with its tasks in memory is not returned, because other processes cannot read them.
    """
    return next(filter(None, map(_local, _candidates())), None)


def running_server_url() -> str:
    """Return the URL of the development server of AION_DATA_DIR or of the nearest `.aion`, or "" if it does not run."""
    return next((found.url for folder in _candidates() if (found := RunningServer.read(folder))), "")


def _candidates() -> list[Path]:
    """Return the folders that may be data folders: AION_DATA_DIR, or `.aion` in this and each parent folder."""
    if named := os.environ.get(VARIABLE):
        return [Path(named).expanduser().absolute()]
    here = Path.cwd()
    return [folder / FOLDER for folder in (here, *here.parents)]


def _local(folder: Path) -> LocalServer | None:
    running = RunningServer.read(folder)
    if running is not None:
        is_memory = not running.endpoint and SQLITE not in running.environment
        name = f"the development server at {running.url}"
        return None if is_memory else LocalServer(name, running.environment, folder)
    if (folder / STORE).is_dir():
        name = f"{folder / STORE}, the store of `aion dev` (not running)"
        return LocalServer(name, {SQLITE: str(folder / STORE)}, folder)
    return None


def make_ignored(folder: Path) -> None:
    """Create the folder and a .gitignore for all its files, unless they exist. Raises OSError.

    Only this user may enter the folder: it has conversations and keys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):  # another user's folder, in a container
        folder.chmod(0o700)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


class DataFolder:
    """Data folder of a development server, which locks the folder so that no second server uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_own(self, path: Path) -> bool:
        """Return True if the server has created the file. The data folder may also contain files of the project."""
        folder = self.path.resolve()
        inner = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
        return bool(inner) and (inner[0] == STORE or inner[0].startswith((STATE, LOG, _LOCK)))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder and hold its lock. Raises ConfigurationError if another server holds the lock."""
        try:
            make_ignored(self.path)
            lock = (self.path / _LOCK).open("w")
        except OSError as error:
            raise ConfigurationError(
                f"Cannot write to {self.path}: {error.strerror}. Choose another folder with --data-dir."
            ) from error
        with lock:
            if not _lock(lock.fileno()):
                raise ConfigurationError(self._in_use())
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    (self.path / STATE).unlink(missing_ok=True)

    def announce(self, running: RunningServer) -> None:
        """Write the server's address to the data folder, into a file readable by this user only.

        Other users must not read the file, because it contains the emulator's credentials. If the folder was deleted
        while the server runs, it is created again. Raises OSError.
        """
        make_ignored(self.path)
        temporary = self.path / f"{STATE}.new"
        state = {
            "pid": running.pid,
            "url": running.url,
            "endpoint": running.endpoint,
            "environment": dict(running.environment),
        }
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(state, file, indent=1)
        temporary.replace(self.path / STATE)

    def _in_use(self) -> str:
        running = RunningServer.read(self.path)
        where = f" at {running.url} (process {running.pid})" if running else ""
        return (
            f"A development server is already running in this folder{where}. Stop it, or choose another data folder "
            "with --data-dir."
        )


def _lock(descriptor: int) -> bool:
    """Acquire the lock of an open file. Return False if another process holds it.

    The operating system releases the lock when this process ends, even if it is killed.
    """
    try:
        import fcntl
    except ImportError:
        # Continue without a lock on Windows, which has no `fcntl`. Two servers could use the same data there.
        return True
    for seconds in LOCK_WAITS:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(seconds)
        else:
            return True
    return False


def _is_running(folder: Path, pid: int) -> bool:
    """Return True if a server holds the folder's lock. Its process id proves nothing: another process may have it."""
    try:
        import fcntl

        lock = (folder / _LOCK).open(encoding="utf-8")
    except (ImportError, OSError):
        return _is_alive(pid)
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
