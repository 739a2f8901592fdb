"""Storage backends of the development server."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aion_core.bootstrap.stores import local_key
from aion_core.errors import ConfigurationError
from aion_core.local.sqlite.message_queue import SQLiteQueue, open_queues
from aion_tools.dev.backends import Files
from aion_tools.dev.processes import WorkerProcess
from tests.support.clock import ManualClock


class Ended:
    """Stand-in for a worker's process that has already ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def join(self, seconds: float) -> None:
        """Return at once."""


async def received_by(folder: Path, clock: ManualClock, receiver: str) -> int:
    database = open_queues(folder / "queues.db")
    found = await SQLiteQueue(database, "task", clock, receiver=receiver).receive(10)
    database.close()
    return len(found)


async def test_messages_received_by_ended_worker_return_to_queue(tmp_path: Path, clock: ManualClock) -> None:
    files, folder = Files(tmp_path / "store", fresh=False), tmp_path / "store"
    files.start()
    SQLiteQueue(open_queues(folder / "queues.db"), "task", clock).send_blocking("{}")
    assert await received_by(folder, clock, "7") == 1
    for pid, released in ((8, 0), (7, 1)):
        worker: Any = WorkerProcess(None, "", process=Ended(pid))  # type: ignore[arg-type]
        files.release(worker)
        assert await received_by(folder, clock, "9") == released


async def test_messages_received_before_restart_are_available_to_new_server(tmp_path: Path, clock: ManualClock) -> None:
    folder = tmp_path / "store"
    Files(folder, fresh=False).start()
    SQLiteQueue(open_queues(folder / "queues.db"), "task", clock).send_blocking("{}")
    assert await received_by(folder, clock, "7") == 1
    Files(folder, fresh=False).start()
    assert await received_by(folder, clock, "8") == 1
    Files(folder, fresh=True).start()
    clock.move(3600)
    assert await received_by(folder, clock, "9") == 0


def test_dev_key_file_is_readable_by_owner_only(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from aion_core.bootstrap.stores import local_key;"
    program += "print(local_key(Path(sys.argv[1])).hex())"
    file = tmp_path / "key"
    several = [
        subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = {process.communicate()[0].strip() for process in several}
    assert printed == {local_key(file).hex()}
    assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("content", [b"", b"short"])
def test_local_encryption_key_of_wrong_length_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not a key of aion"):
        local_key(tmp_path / "key")
