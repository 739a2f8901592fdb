"""The folder `.aion`: the lock of the development server that runs there, where it is reached, and what it keeps.

Only the standard library is imported: every command that looks for a server reads it.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aion_core.errors import ConfigurationError

FOLDER = ".aion"
SQLITE = "AION_SQLITE_FOLDER"
"""The variable that names the folder of SQLite files."""
VARIABLE = "AION_DATA_DIR"
STATE = "dev.json"
STORE, SNAPSHOT = "store", "state"
"""The folder of the SQLite files, and the snapshot of an emulated AWS."""
_LOCK = "dev.lock"


@dataclass(frozen=True)
class Running:
    """A development server as its file describes it."""

    pid: int
    url: str
    endpoint: str = ""
    """Endpoint of the emulated AWS; empty with `--store memory`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of its functions: table, bucket, queues, key, region and credentials of the emulator."""

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the server that runs in this folder; None where there is none, or its process has ended."""
        try:
            said: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
            found = cls(int(said["pid"]), str(said["url"]), str(said["endpoint"]), dict(said["environment"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if _is_alive(found.pid) else None


@dataclass(frozen=True)
class Local:
    """A development server that has a store, running or stopped."""

    name: str
    environment: Mapping[str, str]
    """The variables by which its store is found."""


def find_local() -> Local | None:
    """Return the server of the folder that AION_DATA_DIR names, else of the nearest `.aion` from here upwards.

    A server that stores in memory is none: nobody else reaches its tasks.
    """
    if named := os.environ.get(VARIABLE):
        return _local(Path(named).expanduser().absolute())
    here = Path.cwd()
    return next(filter(None, (_local(folder / FOLDER) for folder in (here, *here.parents))), None)


def _local(folder: Path) -> Local | None:
    running = Running.read(folder)
    if running is not None:
        is_memory = not running.endpoint and SQLITE not in running.environment
        return None if is_memory else Local(f"the development server at {running.url}", running.environment)
    if (folder / STORE).is_dir():
        return Local(f"{folder / STORE}, the store of `aion dev`, which is stopped", {SQLITE: str(folder / STORE)})
    return None


def make_ignored(folder: Path) -> None:
    """Make the folder where it is missing, with a .gitignore that keeps all of it out of git; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


class DataFolder:
    """A folder that one development server has at a time, from `taken` on until the block ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Make the folder and hold its lock; raises ConfigurationError where another server has it."""
        try:
            make_ignored(self.path)
            lock = (self.path / _LOCK).open("w")
        except OSError as error:
            raise ConfigurationError(
                f"{self.path} cannot be written ({error.strerror}). Name another folder: --data-dir."
            ) from error
        with lock:
            if not _locked(lock.fileno()):
                raise ConfigurationError(self._taken())
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    (self.path / STATE).unlink(missing_ok=True)

    def announce(self, running: Running) -> None:
        """Write where the server is reached, for this user's commands only: it holds the emulator's credentials.

        The folder is made again where it was removed. Raises OSError.
        """
        make_ignored(self.path)
        temporary = self.path / f"{STATE}.new"
        said = {
            "pid": running.pid,
            "url": running.url,
            "endpoint": running.endpoint,
            "environment": dict(running.environment),
        }
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(said, file, indent=1)
        temporary.replace(self.path / STATE)

    def _taken(self) -> str:
        running = Running.read(self.path)
        where = f" at {running.url} (process {running.pid})" if running else ""
        return (
            f"A development server runs in this folder already{where}. Stop it, or start this one with a folder of its "
            "own for its state: --data-dir."
        )


def _locked(descriptor: int) -> bool:
    """Take the lock, which the system gives back with the process; return False where another process has it."""
    try:
        import fcntl
    except ImportError:
        # Windows: two servers there would share their state.
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
