"""Storage backends of the development server: memory, SQLite files, or an AWS emulator in its own process."""

import contextlib
import multiprocessing
import shutil
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aion_core.errors import ConfigurationError, StoreError
from aion_tools.dev.messages import EmulatorFailed, EmulatorReady, EmulatorTask, ReleaseMessages
from aion_tools.dev.processes import WorkerProcess, run_emulator
from aion_tools.template.names import Place

EMULATOR_END_SECONDS = 15.0
"""Seconds for the emulator to write its snapshot and exit. Then the supervisor kills its process."""


class Backend:
    """Storage backend in the worker's memory, and base class of the others. It needs no process and no file."""

    preloaded: tuple[str, ...] = ()
    """Names of modules imported once by the fork server, before it forks a worker."""
    connection: Connection | None = None
    """Connection to the backend's process, None for a backend without a process."""
    place: Place | None = None
    """Account, region and endpoint of the emulated AWS, None for other backends."""
    is_ready = True
    """True once the storage is ready, so that a worker may load the agents."""

    def start(self) -> None:
        """Start the backend's process or prepare its files. The backend in memory does nothing."""

    def receive(self) -> None:
        """Receive a message from the backend's process. Raises ConfigurationError if the process cannot serve."""

    def release(self, worker: WorkerProcess) -> None:
        """Make the queue messages that an ended worker had received visible again, for the next worker."""

    def end(self) -> None:
        """Stop the backend's process. A backend without a process does nothing."""

    @property
    def endpoint(self) -> str:
        """URL of the emulated AWS, or "" for other backends."""
        return self.place.endpoint if self.place is not None else ""


class Files(Backend):
    """Storage backend in SQLite files of one folder. Workers open the files directly."""

    preloaded = (
        "aion_core.local.memory.cipher",
        "aion_core.local.sqlite.blobs",
        "aion_core.local.sqlite.queues",
        "aion_core.local.sqlite.table",
    )

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        """Use the SQLite files in this folder. If `fresh` is True, `start` deletes the folder with its data."""
        self._folder, self._fresh = folder, fresh

    def start(self) -> None:
        """Delete the folder if `fresh`. Make messages visible again that workers of a crashed server had received."""
        if self._fresh:
            try:
                shutil.rmtree(self._folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise ConfigurationError(f"Cannot delete {self._folder}: {error.strerror}.") from error
        self._release("")

    def release(self, worker: WorkerProcess) -> None:
        """Make the queue messages received by an ended worker visible again.

        If the queue's file cannot be written, the messages become visible after their visibility timeout.
        """
        if worker.process is not None:
            worker.process.join(1)
            with contextlib.suppress(StoreError, ConfigurationError):
                self._release(str(worker.process.pid))

    def _release(self, receiver: str) -> None:
        from aion_core.bootstrap.stores import QUEUES_FILE
        from aion_core.local.sqlite.message_queue import release_messages

        release_messages(self._folder / QUEUES_FILE, receiver)


class EmulatedAWS(Backend):
    """Storage backend with the template's resources in an emulator process, which writes snapshots to a folder."""

    preloaded = ("aws_lambda_powertools.utilities.batch", "aion_core.aws.client", "aion_tools.stack.stack")
    is_ready = False

    def __init__(self, template: Path, folder: Path, *, fresh: bool) -> None:
        """Emulate the resources of the template. If `fresh`, the emulator deletes its earlier snapshot first."""
        self._task = EmulatorTask(template, folder, fresh)
        self._process: Any = None

    def start(self) -> None:
        """Start the emulator process, without waiting until it is ready."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=run_emulator, args=(theirs, self._task), name="emulator")
        self._process.start()
        theirs.close()

    def receive(self) -> None:
        """Receive the emulator's message that it is ready. Raises ConfigurationError if it failed or was killed."""
        assert self.connection is not None  # noqa: S101  # a message has arrived, so the connection exists
        try:
            match self.connection.recv():
                case EmulatorReady(place, notes):
                    self.place, self.is_ready = place, True
                    for note in notes:
                        print(note, file=sys.stderr)
                case EmulatorFailed(reason):
                    raise ConfigurationError(f"The emulated AWS cannot start: {reason}.")
        except (EOFError, OSError) as error:
            raise ConfigurationError("The emulated AWS has stopped: its process was killed.") from error

    def release(self, worker: WorkerProcess) -> None:
        """Tell the emulator to make the queue messages that an ended worker had received visible again."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.send(ReleaseMessages(worker.name))

    def end(self) -> None:
        """Close the connection to the emulator process, so that it writes its snapshot and exits."""
        if self._process is not None and self.connection is not None:
            self.connection.close()
            self._process.join(EMULATOR_END_SECONDS)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
