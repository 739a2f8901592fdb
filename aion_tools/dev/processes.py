"""Entry points of the development server's processes, and the supervisor's object for a worker process.

Each entry point imports its code when it runs, so that the supervisor, which imports this module, stays small.
"""

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

from aion_tools.dev.messages import AgentsLoaded, EmulatorTask

SAFE_PATH = "PYTHONSAFEPATH"

LONGEST_TEMPORARY = 60
"""Maximum length of the path of a socket's temporary folder. macOS allows 104 characters for a socket's path."""


def run_emulator(connection: Connection, task: EmulatorTask) -> None:
    """Run as the emulator process, with commands from this connection."""
    from aion_tools.dev.preload import collect_again

    from aion_tools.dev.emulator_process import main  # isort: skip

    collect_again()
    main(connection, task)


def run_worker(listener: socket.socket, connection: Connection) -> None:
    """Run as a worker process, with HTTP requests from the listener and commands from the connection."""
    from aion_tools.dev.preload import collect_again

    from aion_tools.dev.worker import main  # isort: skip

    collect_again()
    main(listener, connection)


@dataclass(eq=False)
class WorkerProcess:
    """Worker process as seen by the supervisor: its connection, its state, and the means to stop it."""

    connection: Connection
    why: str
    """Names of the edited files that caused the worker's start, or ""."""
    name: str = field(default_factory=lambda: uuid4().hex)
    """Name of the worker in its ReceiveMessage requests to the emulator."""
    began: float = field(default_factory=time.monotonic)
    process: Any = None
    started: threading.Event = field(default_factory=threading.Event)
    loaded: AgentsLoaded | None = None
    reported_slow: bool = False
    accepts: bool = True
    """False once the worker accepts no more requests."""
    kill_at: float = float("inf")

    @classmethod
    def start(cls, context: Any, listener: socket.socket, why: str) -> "WorkerProcess":
        """Start a worker process from a thread, because the first start takes as long as the imports."""
        ours, theirs = context.Pipe()
        started = cls(ours, why)

        def start() -> None:
            try:
                process = context.Process(target=run_worker, args=(listener, theirs), name="worker")
                process.start()
                started.process = process
            except Exception as error:
                print(f"Cannot start a worker: {error}", file=sys.stderr)
            finally:
                theirs.close()
                started.started.set()

        threading.Thread(target=start, name="start", daemon=True).start()
        return started

    @property
    def answers(self) -> set[str]:
        """Ids of the agents that this worker has loaded."""
        return set(self.loaded.agents) - set(self.loaded.failures) if self.loaded else set()

    @property
    def after_edit(self) -> str:
        """End of a sentence about this worker, such as " after an edit of agent.py"; "" if no edit caused its start."""
        return f" after an edit of {self.why}" if self.why else ""

    def send(self, message: object) -> None:
        """Send a message to the worker. Do nothing if the worker has ended."""
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def kill(self) -> None:
        """Kill the worker process and its children.

        If the process has not started yet, it ends by itself later, because it finds its connection closed.
        """
        if self.started.is_set() and self.process is not None:
            if hasattr(os, "killpg"):
                # Kill the process group, because the worker's children may outlive the worker. If the worker has just
                # started and has no group yet, killpg fails, and the worker alone is killed below.
                with contextlib.suppress(OSError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(OSError, AttributeError):
                if self.process.is_alive():
                    self.process.kill()
        self.connection.close()

    def exit_code(self) -> str:
        """Return as text the exit code of the worker process, or the signal that killed it."""
        self.started.wait(1)
        if self.process is None:
            return "not started"
        self.process.join(2)
        code = self.process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def workers_context(preloaded: Sequence[str]) -> Any:
    """Return the multiprocessing context for workers.

    It uses a fork server that has imported these modules. On a system without fork servers, it uses spawn.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    return context


def run_forkserver() -> None:
    """Start the fork server that starts workers. Its socket gets a short path, because such paths are limited."""
    from multiprocessing.forkserver import ensure_running

    if len(tempfile.gettempdir()) > LONGEST_TEMPORARY and os.path.isdir("/tmp"):  # noqa: S108  # a new folder in it
        before, tempfile.tempdir = tempfile.tempdir, "/tmp"  # noqa: S108
        try:
            util.get_temp_dir()  # create the folder now, because multiprocessing caches its path
        finally:
            tempfile.tempdir = before
    # Keep the current folder off the fork server's path: a project's `a2a` or `queue.py` would replace a module of the
    # server. The module `preload` removes this value from the fork server's environment, which the agents inherit.
    if is_unset := not os.environ.get(SAFE_PATH):
        os.environ[SAFE_PATH] = "aion"
    try:
        ensure_running()
    finally:
        if is_unset:
            del os.environ[SAFE_PATH]
