"""Supervisor of the development server. It starts the processes, replaces the worker on edits, and ends them all."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aion_core.errors import ConfigurationError
from aion_core.loading.frameworks import FRAMEWORKS
from aion_tools.dev.backends import Backend
from aion_tools.dev.data_folder import DataFolder, RunningServer
from aion_tools.dev.messages import ENDING, AgentsLoaded, Load, LoadFailed, Serve, Serving, Stop, Stopping
from aion_tools.dev.processes import WorkerProcess, run_forkserver, workers_context

PRELOADED = (
    "aion_tools.dev.preload",
    "aion_tools.dev.worker",
    "fastapi",
    "uvicorn",
    "aion_core.bootstrap.app",
    "aion_core.bootstrap.push",
    "aion_tools.dev.request_log",
)
"""Names of modules needed by every worker and imported once by the fork server."""
_SIGHUP = getattr(signal, "SIGHUP", None)

NOTICE_SECONDS = 1.0
"""Seconds after which a slow start prints its progress."""
END_SECONDS = 8.0
"""Seconds for a worker to end. Then the supervisor kills the worker."""
RETIRE_SECONDS = 30.0
"""Seconds for a replaced worker to hand off its turns, from its message `Stopping` on. Then the supervisor kills it."""
RESTART_SECONDS, LONGEST_RESTART_SECONDS = 1.0, 30.0
"""First and longest delay in seconds before a crashed worker is replaced. Each failure doubles the delay."""
SLOW_SECONDS = 10.0
"""Seconds after which slow loading of edited code is reported."""


@dataclass(frozen=True)
class DevServer:
    """Options of the development server."""

    config: Path
    project: Path
    """Folder of aion-lambda that contains the package `handlers`."""
    backend: Backend
    template: Path | None
    """Path of the SAM template. None without an emulated AWS."""
    base_url: str
    environment: Mapping[str, str]
    """Environment variables that take precedence over the template's variables."""
    variables: Callable[[], tuple[Mapping[str, str], Sequence[str]]]
    """Function that returns the agents' environment variables and warnings. Called for each worker."""
    folder: DataFolder
    frameworks: Sequence[str]
    watched: Sequence[Path]
    """Folders to watch for edits. Empty to disable reloading."""
    with_key: bool
    log_file: Path | None
    """Path of the log file, or None to write no log file."""
    greet: Callable[[AgentsLoaded, str], str]
    """Function that renders the start message from the loaded agents and the emulator's URL ("" without emulator)."""

    @property
    def reloads(self) -> bool:
        """True if edits reload the agents."""
        return bool(self.watched)


class Supervisor:
    """Supervisor of one development server. One loop handles signals, edits and the messages of other processes."""

    def __init__(self, server: DevServer, listener: socket.socket) -> None:
        self._server, self._listener = server, listener
        self._backend = server.backend
        preloaded = [*PRELOADED, *server.backend.preloaded, *(FRAMEWORKS[name].adapter for name in server.frameworks)]
        self._workers_context = workers_context(preloaded)
        self._current: WorkerProcess | None = None
        self._candidate: WorkerProcess | None = None
        self._retiring: list[WorkerProcess] = []
        self._unannounced: list[WorkerProcess] = []
        self._edited: set[str] = set()
        self._edits = threading.Lock()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._stops = 0
        self._code: int | None = None
        self._began = time.monotonic()
        self._notice = ""
        self._restart_at = float("inf")
        self._restart_seconds = RESTART_SECONDS
        self._greeted = False
        self._watcher: Any = None
        self._warned: set[str] = set()

    def run(self) -> int:
        """Run the server until Ctrl-C or SIGTERM, or until it cannot serve any agent. Return the exit code."""
        with self._signals():
            try:
                self._start()
                while self._code is None:
                    self._handle_events()
                return self._code
            finally:
                self._end()

    # --- Start ---

    def _start(self) -> None:
        # Remove `__file__`: otherwise multiprocessing would import the `aion` script again in each new process.
        vars(sys.modules["__main__"]).pop("__file__", None)
        with _interrupts_ignored():
            self._backend.start()
            if self._workers_context.get_start_method() == "forkserver":
                run_forkserver()
        self._begin("")
        if self._server.reloads:
            from aion_tools.dev.watcher import Watcher

            watched, data = self._server.watched, self._server.folder
            self._watcher = Watcher(watched, data, self._note_edits, self._warn_unwatched)
            self._watcher.start()

    def _begin(self, why: str) -> None:
        """Start a candidate worker in place of an earlier candidate. It loads the agents once the storage is ready."""
        if self._candidate is not None:
            self._kill(self._candidate)
        self._candidate = started = WorkerProcess.start(self._workers_context, self._listener, why)
        if self._backend.is_ready:
            self._load(started)

    def _load(self, candidate: WorkerProcess) -> None:
        try:
            variables, warnings = self._server.variables()
        except (ConfigurationError, OSError) as error:
            if self._current is None and not self._greeted:
                raise
            self._refuse(candidate, [str(error)])
            return
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                print(f"aion: {warning}", file=sys.stderr)
        candidate.send(
            Load(
                self._server.config,
                self._server.project,
                self._server.template,
                self._backend.place,
                self._server.base_url,
                variables,
                self._server.environment,
                colour=coloured(),
                receiver=candidate.name,
                log_file=self._server.log_file,
                with_key=self._server.with_key and self._current is None,
            )
        )

    # --- The loop ---

    def _handle_events(self) -> None:
        """Wait for worker messages, edits, signals or timeouts, and handle them."""
        waiting: list[Any] = [self._wake_reader, *(each.connection for each in self._workers())]
        if self._backend.connection is not None:
            waiting.append(self._backend.connection)
        ready = multiprocessing.connection.wait(waiting, self._timeout())
        if self._wake_reader in ready:
            os.read(self._wake_reader, 4096)
        if self._stops:
            self._code = 0
            return
        for each in self._workers():
            if each.connection in ready:
                self._receive(each)
        if self._backend.connection in ready:
            self._backend.receive()
            if self._candidate is not None:
                self._load(self._candidate)
        now = time.monotonic()
        for each in list(self._retiring):
            if now > each.kill_at:
                self._retiring.remove(each)
                self._kill(each)
                print(
                    f"{_now()}  Killed the process with the old code: an agent blocks it. Its turns resume in the new "
                    "code when their leases expire.",
                    file=sys.stderr,
                    flush=True,
                )
        self._report_reloads()
        with self._edits:
            edited, self._edited = self._edited, set()
        if edited:
            self._restart_at = float("inf")
            self._begin(_shown(edited))
        elif now > self._restart_at:
            self._restart_at = float("inf")
            self._begin("")
        self._report_progress(now)

    def _workers(self) -> list[WorkerProcess]:
        return [each for each in (self._current, self._candidate, *self._retiring) if each is not None]

    def _timeout(self) -> float | None:
        """Return the seconds until the next timeout, or None without a timeout."""
        times = [self._restart_at, *(each.kill_at for each in self._retiring)]
        if not self._greeted:
            times.append(time.monotonic() + 0.5)
        elif self._candidate is not None and not self._candidate.reported_slow:
            times.append(self._candidate.began + SLOW_SECONDS)
        first = min(times)
        return None if first == float("inf") else max(0.0, first - time.monotonic())

    def _receive(self, each: WorkerProcess) -> None:
        try:
            message = each.connection.recv()
        except (EOFError, OSError):
            self._ended(each)
            return
        match message:
            case AgentsLoaded():
                each.loaded = message
                self._loaded(each, message)
            case LoadFailed(reason):
                if self._current is None and not self._greeted:
                    raise ConfigurationError(reason)
                self._refuse(each, [reason])
            case Serving():
                self._serves(each)
            case Stopping():
                each.accepts, each.kill_at = False, time.monotonic() + RETIRE_SECONDS

    def _loaded(self, each: WorkerProcess, loaded: AgentsLoaded) -> None:
        lost = sorted(set(loaded.failures) & self._current.answers) if self._current is not None else []
        if lost:
            self._refuse(each, [loaded.failures[agent_id] for agent_id in lost])
            return
        for failure in loaded.failures.values():
            print(f"{failure}\n", file=sys.stderr)
        if self._current is None and not each.answers and not self._server.reloads:
            print("No agent could be loaded.", file=sys.stderr)
            self._code = 1
            return
        each.send(Serve())

    def _refuse(self, each: WorkerProcess, reasons: Iterable[str]) -> None:
        """Kill a candidate that cannot serve and print the reasons. The current worker, if there is one, continues."""
        for reason in reasons:
            print(f"{reason}\n", file=sys.stderr)
        self._candidate = None
        self._kill(each)
        print(f"{_now()}  Not reloaded{each.after_edit}. {self._plan_retry()}", file=sys.stderr, flush=True)

    def _serves(self, each: WorkerProcess) -> None:
        old, self._current, self._candidate = self._current, each, None
        if old is not None:
            old.send(Stop(has_successor=True))
            old.kill_at = time.monotonic() + END_SECONDS
            self._retiring.append(old)
        assert each.loaded is not None  # noqa: S101  # a worker has sent AgentsLoaded before it serves
        self._restart_seconds = RESTART_SECONDS
        self._announce(
            RunningServer(os.getpid(), self._server.base_url, self._backend.endpoint, each.loaded.environment)
        )
        if not self._greeted:
            self._greeted = True
            print(self._server.greet(each.loaded, self._backend.endpoint), flush=True)
            if self._server.reloads and not each.answers:
                print("No agent could be loaded. Waiting for an edit.", file=sys.stderr)
        else:
            self._unannounced.append(each)

    def _ended(self, each: WorkerProcess) -> None:
        """Report that a worker process has ended. If it was the current worker, schedule the start of another."""
        if each in self._retiring:
            self._retiring.remove(each)
            self._kill(each)
            return
        code = each.exit_code()
        self._kill(each)
        if each is self._candidate:
            self._candidate = None
            if self._current is None and not self._greeted:
                raise ConfigurationError(f"The agents' process has exited ({code}).")
            print(
                f"{_now()}  Not reloaded: the process with the new code has exited ({code}). {self._plan_retry()}",
                file=sys.stderr,
                flush=True,
            )
            return
        self._current, self._unannounced = None, []
        print(f"{_now()}  The agents' process has exited ({code}). Restarting it.", file=sys.stderr, flush=True)
        if self._candidate is None:
            self._restart_at = time.monotonic() + self._restart_seconds

    def _plan_retry(self) -> str:
        """If no worker serves requests, schedule another start. Return a sentence about this for the developer."""
        if self._current is not None:
            return "The server continues with the old code."
        seconds, self._restart_seconds = self._restart_seconds, min(2 * self._restart_seconds, LONGEST_RESTART_SECONDS)
        self._restart_at = time.monotonic() + seconds
        return f"No agent is available: the server tries again in {seconds:.0f} s and after each edit."

    def _kill(self, each: WorkerProcess) -> None:
        """Kill the worker and make its queue messages visible again."""
        each.kill()
        self._backend.release(each)

    def _announce(self, running: RunningServer) -> None:
        """Write the server's address to the data folder. Print a warning if writing fails."""
        try:
            self._server.folder.announce(running)
        except OSError as error:
            print(
                f"Cannot write to {self._server.folder.path} ({error.strerror}): other commands cannot find this server.",
                file=sys.stderr,
            )

    # --- Output ---

    def _report_reloads(self) -> None:
        """Print "Reloaded" once no worker with the old code accepts requests any more."""
        if any(each.accepts for each in self._retiring):
            return
        for each in self._unannounced:
            took = time.monotonic() - each.began
            print(f"{_now()}  Reloaded{each.after_edit} ({took:.1f} s).", file=sys.stderr, flush=True)
        self._unannounced.clear()

    def _report_progress(self, now: float) -> None:
        slow = self._candidate
        if self._greeted and slow is not None and not slow.reported_slow and now >= slow.began + SLOW_SECONDS:
            slow.reported_slow = True
            serves = "the old code serves" if self._current is not None else "no agent is available until then"
            what = f"{slow.why} is" if slow.why else "The agents are"
            print(f"{_now()}  {what} still being loaded ({SLOW_SECONDS:.0f} s); {serves}.", file=sys.stderr, flush=True)
        if self._greeted or self._code is not None or now - self._began < NOTICE_SECONDS:
            return
        if self._candidate is not None and self._candidate.loaded is not None:
            return
        doing = []
        if not self._backend.is_ready:
            doing.append("starting the emulated AWS")
        if self._candidate is not None and not self._candidate.started.is_set():
            doing.append(f"importing {' and '.join(['the server', *self._server.frameworks])}")
        notice = ", ".join(doing) or "loading the agents"
        if notice != self._notice:
            self._notice = notice
            print(f"{notice[0].upper()}{notice[1:]} …", file=sys.stderr, flush=True)

    def _note_edits(self, paths: Iterable[str]) -> None:
        with self._edits:
            self._edited.update(paths)
        self._wake_up()

    def _warn_unwatched(self, error: Exception) -> None:
        print(f"Cannot watch for edits: {error}. Restart the server after an edit.", file=sys.stderr)

    # --- End ---

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(*_: Any) -> None:
            self._stops += 1

        # If the server was started by nohup, SIGHUP is ignored already. Leave it so.
        handled = [number for number in ENDING if number != _SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, stop) for number in handled}
        # Wake the loop by the pipe: a signal that the system delivers to another thread does not interrupt its wait.
        former = signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(former)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wake_up(self) -> None:
        # Ignore the error of a full pipe, because the bytes already in the pipe wake the loop.
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b".")

    def _end(self) -> None:
        """End every process. The worker hands off its turns first, and the emulator writes its snapshot."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._candidate is not None:
            self._kill(self._candidate)
            self._candidate = None
        if self._current is not None:
            self._current.send(Stop(has_successor=False))
            self._retiring.append(self._current)
            self._current = None
        deadline, stops = time.monotonic() + END_SECONDS, self._stops
        while self._retiring and time.monotonic() < deadline and self._stops <= max(stops, 1):
            ready = multiprocessing.connection.wait(
                [self._wake_reader, *(each.connection for each in self._retiring)], deadline - time.monotonic()
            )
            if self._wake_reader in ready:
                os.read(self._wake_reader, 4096)
            for each in list(self._retiring):
                if each.connection in ready:
                    with contextlib.suppress(EOFError, OSError):
                        each.connection.recv()
                        continue
                    self._retiring.remove(each)
                    self._kill(each)
        for each in self._retiring:
            self._kill(each)
        self._backend.end()


def coloured() -> bool:
    """Return True if the output is a terminal and NO_COLOR is not set (no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C in this block and in processes started in it, because a terminal sends Ctrl-C to all processes."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _shown(paths: Iterable[str]) -> str:
    """Return a short list of edited files as text, with paths relative to the current folder."""
    try:
        names = sorted({os.path.relpath(path) for path in paths}, key=len)
    except OSError:
        # Print the paths unchanged, because a deleted current folder has no path to make them relative to.
        names = sorted(set(paths), key=len)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _now() -> str:
    return time.strftime("%H:%M:%S")
