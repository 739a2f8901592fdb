"""Emulator process. It restores the snapshot, serves the template's resources, and writes snapshots regularly."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from aion_core.table.schema import VERSION
from aion_tools.dev.data_folder import SNAPSHOT
from aion_tools.dev.messages import ENDING, EmulatorFailed, EmulatorReady, EmulatorTask, ReleaseMessages
from aion_tools.stack import EmulatorError
from aion_tools.stack.snapshot import Saver, SnapshotFile, Unusable
from aion_tools.stack.stack import LocalStack
from aion_tools.template.reader import TemplateError

SNAPSHOT_SECONDS = 3.0
LOCK_SECONDS = 10.0
"""Seconds to wait until an earlier emulator has released the folder.

If its supervisor has crashed, the earlier emulator may still be writing a snapshot.
"""


def main(connection: Connection, task: EmulatorTask) -> None:
    """Run the emulator until the supervisor closes the connection, then exit the process."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    try:
        with _state_lock(task.folder):
            _serve(connection, task)
    except (EmulatorError, TemplateError, OSError) as error:
        with contextlib.suppress(OSError):
            connection.send(EmulatorFailed(str(error)))
    sys.stderr.flush()
    # Exit at once. A normal exit would wait for threads that still handle requests.
    os._exit(0)


def _serve(connection: Connection, task: EmulatorTask) -> None:
    notes: list[str] = []
    files: list[SnapshotFile] = []

    def restore(stack: LocalStack) -> bool:
        file = SnapshotFile(task.folder / SNAPSHOT, stack.template, layout=VERSION)
        files.append(file)
        if task.fresh:
            file.delete()
        try:
            return file.restore(stack.emulator)
        except Unusable as unusable:
            aside = file.set_aside()
            notes.append(f"Ignored the saved state in {task.folder}: {unusable}. Moved it to {aside}.")
            return False

    stack = LocalStack.start(task.template, prepare=restore)
    saver = Saver(
        files[0],
        stack.emulator,
        seconds=SNAPSHOT_SECONDS,
        failed=lambda error: print(f"Cannot write to {task.folder}: {error.strerror}.", file=sys.stderr),
    )
    saver.start()
    # Stop reading commands on EOFError or OSError: the supervisor has ended or has closed the connection.
    with contextlib.suppress(EOFError, OSError):
        connection.send(EmulatorReady(stack.template.place, tuple(notes)))
        while isinstance(message := connection.recv(), ReleaseMessages):
            stack.emulator.release_messages(message.receiver)
    saver.stop()


@contextlib.contextmanager
def _state_lock(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / f"{SNAPSHOT}.lock").open("w") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise EmulatorError(f"another process is using {folder}") from None
                time.sleep(0.05)
        yield
