"""A worker's process as the supervisor has it: how it is started, ended with its children, and named to the emulator."""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import util
from multiprocessing.connection import Connection
from typing import Any
from uuid import uuid4

from aion_core.dev import processes
from aion_core.dev.messages import Loaded

LONGEST_TEMPORARY = 60
"""Characters of a temporary folder in which a socket's name is not too long: 104 in all on macOS, 108 on Linux."""


@dataclass(eq=False)
class WorkerProcess:
    """One worker, from `start` until `kill`."""

    connection: Connection
    why: str
    """Name of the edited file; "" where there was no edit."""
    name: str = field(default_factory=lambda: uuid4().hex)
    """Its name in what it receives from the emulator's queues."""
    began: float = field(default_factory=time.monotonic)
    process: Any = None
    started: threading.Event = field(default_factory=threading.Event)
    loaded: Loaded | None = None
    told_slow: bool = False
    kill_at: float = float("inf")

    @classmethod
    def start(cls, context: Any, listener: socket.socket, why: str) -> "WorkerProcess":
        """Start a worker without waiting for it: the first one waits until the frameworks are imported."""
        ours, theirs = context.Pipe()
        started = cls(ours, why)

        def start() -> None:
            try:
                process = context.Process(target=processes.worker, args=(listener, theirs), name="worker")
                process.start()
                started.process = process
            except Exception as error:
                print(f"A worker cannot be started: {error}", file=sys.stderr)
            finally:
                theirs.close()
                started.started.set()

        threading.Thread(target=start, name="start", daemon=True).start()
        return started

    @property
    def answers(self) -> set[str]:
        """The agents that it has loaded."""
        return set(self.loaded.agents) - set(self.loaded.failures) if self.loaded else set()

    def say(self, message: object) -> None:
        """Send it a message; it may be gone."""
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def kill(self) -> None:
        """End the process and its children at once; one that is not there yet ends when it finds nobody to talk to."""
        if self.started.is_set() and self.process is not None:
            if hasattr(os, "killpg"):
                # Its children may outlive it. It has no group of its own in its first moment.
                with contextlib.suppress(OSError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(OSError, AttributeError):
                if self.process.is_alive():
                    self.process.kill()
        self.connection.close()

    def exit_code(self) -> str:
        """Return how the process has ended, in words."""
        self.started.wait(1)
        if self.process is None:
            return "it did not start"
        self.process.join(2)
        code = self.process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def workers_context(preloaded: Sequence[str]) -> Any:
    """Return how workers are started: forked from a process that has imported what they all need."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    return context


def run_forkserver() -> None:
    """Start the process that workers are forked from; it is reached by a socket in a temporary folder."""
    from multiprocessing.forkserver import ensure_running

    if len(tempfile.gettempdir()) > LONGEST_TEMPORARY and os.path.isdir("/tmp"):  # noqa: S108  # a new folder in it
        before, tempfile.tempdir = tempfile.tempdir, "/tmp"  # noqa: S108
        try:
            util.get_temp_dir()  # which is kept for this process
        finally:
            tempfile.tempdir = before
    ensure_running()
