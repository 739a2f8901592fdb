"""Supervisor of the development server. It holds the port, and starts a worker anew after each edit and each crash.

It imports little: its process runs as long as the server.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from aion_tools.dev.worker_task import WorkerTask

ENDING = tuple(number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)))
"""Signals that end the server. A terminal sends these signals to every process; only the supervisor handles them."""
_SIGHUP = getattr(signal, "SIGHUP", None)

END_SECONDS = 8.0
"""Seconds for a worker to hand off its turns and end. Then the supervisor kills it."""

BACKLOG = 2048
"""Maximum number of connections that wait until a worker accepts them."""


class WorkerProcess:
    """A worker as the supervisor sees it: a process, and the socket over which it reports."""

    def __init__(self, task: WorkerTask, listener: socket.socket) -> None:
        """Start a worker that accepts connections from the listener."""
        self.channel, theirs = socket.socketpair()
        self.runs, self.serves, self.edited = True, False, ""
        self._rest = b""
        with theirs:
            for each in (listener, theirs):
                each.set_inheritable(True)
            told = replace(task, listener=listener.fileno(), channel=theirs.fileno())
            # `-P` keeps the current folder off the path: a project's `queue.py` would replace a module of the server. In
            # a group of its own, the worker gets no Ctrl-C, and is killed together with the agents' child processes.
            self._process = subprocess.Popen(  # noqa: S603  # our own module
                [sys.executable, "-P", "-m", "aion_tools.dev.worker", told.text()],
                stdin=subprocess.DEVNULL,
                close_fds=False,
                process_group=0,
            )

    def read(self) -> None:
        """Read the worker's reports: that it serves, that it has noticed an edit, or that it has ended."""
        try:
            read = self.channel.recv(65536)
        except OSError:
            read = b""
        self.runs = bool(read)
        *lines, self._rest = (self._rest + read).split(b"\n")
        for line in lines:
            report, _, names = line.decode(errors="replace").partition(" ")
            if report == "serving":
                self.serves = True
            else:
                self.edited = names

    def stop(self) -> None:
        """Let the worker hand off its turns, end its streams and exit."""
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill the worker, if it still runs, and the agents' child processes."""
        if not self.runs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)  # its exit code is printed
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self.channel.close()

    @property
    def exit_code(self) -> str:
        """The exit code of the ended process, or the signal that killed it, as text."""
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"


class Supervisor:
    """Supervisor of one development server, with one worker at a time."""

    def __init__(self, task: WorkerTask, listener: socket.socket, ended: Callable[[], None] = lambda: None) -> None:
        """Start workers with this task and this bound socket. Call `ended` after the end of each worker."""
        self._task, self._listener, self._ended = task, listener, ended
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._stops = 0

    def run(self) -> int:
        """Run the server until Ctrl-C or SIGTERM. Return the exit code: 1 if no worker could serve."""
        # Listen from here on: between two workers, and until the first one serves, clients wait.
        self._listener.listen(BACKLOG)
        task = self._task
        with self._signals():
            while True:
                worker = WorkerProcess(task, self._listener)
                try:
                    while worker.runs and not worker.edited and not self._stops:
                        self._wait(worker)
                    noticed = time.monotonic()
                finally:
                    self._end(worker)
                if self._stops:
                    return 0
                is_first = task.is_first and not worker.serves
                if not worker.edited and not worker.serves and (is_first or task.error):
                    if worker.exit_code != "exit code 1":  # otherwise the worker has printed the reason
                        _say(f"The agents' process has exited ({worker.exit_code}).")
                    return 1
                error = "" if worker.edited else self._after_crash(worker)
                task = replace(task, is_first=is_first, edited=worker.edited, since=noticed, error=error)

    def _after_crash(self, worker: WorkerProcess) -> str:
        """Report that the worker has ended by itself. Return the error for the next one; "" if it shall try again."""
        _say(f"The agents' process has exited ({worker.exit_code}). Restarting it.")
        if worker.serves:
            return ""
        return f"The agents' process has exited ({worker.exit_code}) while it loaded the agents."

    def _wait(self, worker: WorkerProcess, seconds: float | None = None) -> None:
        """Wait for a report of the worker or a signal."""
        ready, _, _ = select.select([worker.channel, self._wake_reader], [], [], seconds)
        if self._wake_reader in ready:
            self._wake_reader.recv(4096)
        if worker.channel in ready:
            worker.read()

    def _end(self, worker: WorkerProcess) -> None:
        """Let the worker end, or kill it after END_SECONDS or at a second Ctrl-C."""
        worker.stop()
        deadline, stops = time.monotonic() + END_SECONDS, max(self._stops, 1)
        while worker.runs and self._stops <= stops:
            if (left := deadline - time.monotonic()) <= 0:
                _say("Killed the agents' process: an agent blocks it. Its turns resume when their leases expire.")
                break
            self._wait(worker, left)
        worker.kill()
        self._ended()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(*_: Any) -> None:
            self._stops += 1

        # If the server was started by nohup, SIGHUP is ignored already. Leave it so.
        handled = [number for number in ENDING if number != _SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, stop) for number in handled}
        # Wake the loop by a socket: a signal that the system delivers to another thread does not interrupt its wait.
        self._wake_writer.setblocking(False)
        former = signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(former)
            for number, handler in before.items():
                signal.signal(number, handler)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
