"""Storage backends of the development server."""

from pathlib import Path
from typing import Any

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
