"""The store of a development server as its supervisor has it: nothing, files, or the process of an emulated AWS."""

import contextlib
import multiprocessing
import shutil
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aion_core.dev import processes
from aion_core.dev.messages import EmulatorFailed, EmulatorReady, EmulatorTask, ReleaseMessages
from aion_core.dev.worker_process import WorkerProcess
from aion_core.errors import ConfigurationError, StoreError
from aion_core.template.names import Place

EMULATOR_END_SECONDS = 15.0
"""Seconds that the emulator gets to write its snapshot, before a kill."""


class Backend:
    """A store in the worker's memory: nothing is to be started."""

    preloaded: tuple[str, ...] = ()
    """Modules that a worker imports for it."""
    connection: Connection | None = None
    """Where its process sends messages, if it has one."""
    place: Place | None = None
    """The place of the emulated resources."""
    is_ready = True
    """True if a worker may load the agents."""

    def start(self) -> None:
        """Start what workers need."""

    def receive(self) -> None:
        """Receive a message of its process; raises ConfigurationError if that cannot serve."""

    def release(self, worker: WorkerProcess) -> None:
        """Let others receive the messages that the worker had; it has ended."""

    def end(self) -> None:
        """End what was started."""

    @property
    def endpoint(self) -> str:
        """The endpoint of the emulated AWS, or ""."""
        return self.place.endpoint if self.place is not None else ""


class Files(Backend):
    """SQLite files in a folder, which workers open by themselves."""

    preloaded = (
        "aion_core.memory.services",
        "aion_core.sqlite.blobs",
        "aion_core.sqlite.queues",
        "aion_core.sqlite.table",
    )

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        """`fresh`: delete the folder first."""
        self._folder, self._fresh = folder, fresh

    def start(self) -> None:
        """Let the messages of workers that a crash has ended be received at once."""
        if self._fresh:
            try:
                shutil.rmtree(self._folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise ConfigurationError(f"{self._folder} cannot be deleted ({error.strerror}).") from error
        self._release("")

    def release(self, worker: WorkerProcess) -> None:
        """See `Backend.release`; a file that cannot be written leaves that to the messages' timeouts."""
        if worker.process is not None:
            worker.process.join(1)
            with contextlib.suppress(StoreError, ConfigurationError):
                self._release(str(worker.process.pid))

    def _release(self, receiver: str) -> None:
        from aion_core.bootstrap.stores import QUEUES_FILE
        from aion_core.sqlite.queues import release_messages

        release_messages(self._folder / QUEUES_FILE, receiver)


class EmulatedAWS(Backend):
    """The resources of a template in an emulator, whose process writes snapshots to a folder."""

    preloaded = ("aws_lambda_powertools.utilities.batch", "aion_core.aws.client", "aion_core.local.stack")
    is_ready = False

    def __init__(self, template: Path, folder: Path, *, fresh: bool) -> None:
        """`fresh`: delete the snapshot first."""
        self._task = EmulatorTask(template, folder, fresh)
        self._process: Any = None

    def start(self) -> None:
        """Start the process; it is ready some time later."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=processes.emulator, args=(theirs, self._task), name="emulator")
        self._process.start()
        theirs.close()

    def receive(self) -> None:
        """See `Backend.receive`."""
        assert self.connection is not None  # noqa: S101  # it has sent something
        try:
            match self.connection.recv():
                case EmulatorReady(place, notes):
                    self.place, self.is_ready = place, True
                    for note in notes:
                        print(note, file=sys.stderr)
                case EmulatorFailed(reason):
                    raise ConfigurationError(f"The emulated AWS cannot start: {reason}.")
        except (EOFError, OSError) as error:
            raise ConfigurationError("The emulated AWS has ended: its process was killed.") from error

    def release(self, worker: WorkerProcess) -> None:
        """See `Backend.release`."""
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.send(ReleaseMessages(worker.name))

    def end(self) -> None:
        """Let the process write its snapshot, and end."""
        if self._process is not None and self.connection is not None:
            self.connection.close()
            self._process.join(EMULATOR_END_SECONDS)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
