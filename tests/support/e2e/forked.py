"""Processes of Python modules, forked from a server that has imported the packages: a cold start takes seconds of CPU.

`python -m tests.support.e2e.forked` runs the fork server. It has one thread, and no client and no event loop. If a forked process
starts `python -P -m module`, as `aion dev` does for its worker, this process is forked too. The workers of pytest-xdist are also
forked from this server (`fork_workers`).
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, NoReturn

from tests.support import service_models

ROOT = Path(__file__).parents[3]
PRELOADED = (
    "a2a.client",
    "a2a.server.routes",
    "boto3",
    "google.adk.runners",
    "google.adk.tools",
    "hypothesis",
    "langchain.agents",
    "mangum",
    "uvicorn",
    "aws_lambda_powertools.utilities.batch",
    "aws_lambda_powertools.utilities.data_classes.sqs_event",
    "aion_core.agents.adk.agent",
    "aion_core.agents.executor.agent",
    "aion_core.agents.langgraph.agent",
    "aion_core.bootstrap.app",
    "aion_core.bootstrap.push",
    "aion_tools.cli.main",
    "aion_core.lambda_runtime.loop",
    "aion_tools.stack.emulator",
    "aion_tools.stack.poller",
    "aion_tools.stack.resources",
    "prompt_toolkit.shortcuts",
    "rich.live",
    "rich.markdown",
    # Of single tests: otherwise each worker of pytest-xdist imports them when it collects the tests, for seconds of CPU.
    "openai.types.chat",
    "playwright.sync_api",
    "schemathesis.pytest.plugin",
    "schemathesis.specs.openapi.checks",
)
WORKER = "-c"
"""Replaces the module's name, as for the interpreter: the first argument is the text of a program."""
ADDRESS = "TESTS_FORK_SERVER"
"""Environment variable with the address of the server that the workers of pytest-xdist share."""
_shared = os.environ.get(ADDRESS)
_NUMBER = struct.Struct("!i")


class ForkedProcess:
    """Forked process of a Python module, with methods of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        cwd: Path = ROOT,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start `python -m module`. `stdin` is DEVNULL or a descriptor; `stdout` and `stderr` are None, PIPE or a descriptor.

        If `stdin` is a terminal, it becomes the controlling terminal of the process.
        """
        request = json.dumps([module, arguments, dict(env), str(cwd)]).encode()
        status, their_status = os.pipe()
        output, their_output = _pipe(stdout, 1)
        errors, their_errors = _pipe(stderr, 2)
        their_input = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else os.dup(stdin)
        theirs = [their_status, their_input, their_output, their_errors]
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(_server())
            socket.send_fds(server, [_NUMBER.pack(len(request))], theirs)
            server.sendall(request)
        for descriptor in theirs:
            os.close(descriptor)
        self._status: IO[bytes] = os.fdopen(status, "rb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(output, "rb") if output >= 0 else None
        self.stderr: IO[bytes] | None = os.fdopen(errors, "rb") if errors >= 0 else None
        self.returncode: int | None = None
        (self.pid,) = _NUMBER.unpack(self._status.read(_NUMBER.size))

    def poll(self) -> int | None:
        """Return the exit code (negative after a signal), or None while the process runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code. Raise TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send the signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the process has ended meanwhile
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        (self.returncode,) = _NUMBER.unpack(self._status.read(_NUMBER.size))
        self._status.close()


def started(
    command: Sequence[str | Path], env: Mapping[str, str], cwd: Path = ROOT
) -> "tuple[subprocess.Popen[bytes] | ForkedProcess, IO[bytes]]":
    """Start a command in a new session; return the process and its output stream. Fork a command `python -m …`."""
    output, theirs = os.pipe()
    process: subprocess.Popen[bytes] | ForkedProcess
    if list(command[:2]) == [sys.executable, "-m"]:
        process = ForkedProcess(*map(str, command[2:]), env=env, cwd=cwd, stdout=theirs, stderr=theirs)
    else:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    return process, os.fdopen(output, "rb")


def run(
    module: str, *arguments: str, env: Mapping[str, str], cwd: Path = ROOT, text: str = "", timeout: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m module` to its end, with `text` as standard input; return its exit code and output."""
    with TemporaryFile("w+") as given, TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        given.write(text)
        given.seek(0)
        streams = {"stdin": given.fileno(), "stdout": output.fileno(), "stderr": errors.fileno()}
        process = ForkedProcess(module, *arguments, env=env, cwd=cwd, **streams)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([module, *arguments], code, output.read(), errors.read())


def _pipe(wanted: int | None, own: int) -> tuple[int, int]:
    """Return the descriptors of an output stream: the reader's (-1 without PIPE) and the process's."""
    return os.pipe() if wanted == subprocess.PIPE else (-1, os.dup(own if wanted is None else wanted))


@cache
def _server() -> str:
    """Return the address of the shared fork server, or start a fork server for this process."""
    if _shared is not None:
        return _shared
    folder = TemporaryDirectory(prefix="forked")
    address = f"{folder.name}/server"
    # Remove AION_ and AWS_ variables, because the variables of the first test must not reach other tests.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AION_", "AWS_"))}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        command = [sys.executable, "-m", "tests.support.e2e.forked", str(listener.fileno())]
        server = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True
        )

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


# ── Workers of pytest-xdist ───────────────────────────────────────────────────────────────────────────────────────────


def fork_workers(specs: Iterable[Any]) -> None:
    """Let pytest-xdist fork its local workers from the fork server. The workers use the same server."""
    if Path.cwd() != ROOT:
        # Fork no workers in another folder, because a worker can import this module only in the root folder.
        return
    os.environ[ADDRESS] = _server()
    for spec in specs:
        if spec.popen and not spec.python:
            spec.python = f"{sys.executable} -m tests.support.e2e.forked worker"


def _work(program: str) -> int:
    """Run the program in a forked process, with the streams of this process. Return its exit code."""
    streams = {"stdin": 0, "stdout": 1, "stderr": 2}
    return ForkedProcess(WORKER, program, env=os.environ, cwd=Path.cwd(), **streams).wait()


# ── Server ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def serve(listener: socket.socket) -> None:
    """Fork a process for each request, until the standard input ends."""
    from botocore.session import Session

    before = dict(os.environ)
    for module in PRELOADED:
        importlib.import_module(module)
    imported = {name: value for name, value in os.environ.items() if before.get(name) != value}
    service_models.share()
    for service in ("dynamodb", "kms", "s3", "sqs"):
        # Create a client to load botocore's service models once, before other processes are forked.
        Session().create_client(service, "us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        _reap()
        if listener not in ready:
            return
        asked, _ = listener.accept()
        with asked:
            header, descriptors, _, _ = socket.recv_fds(asked, _NUMBER.size, 4)
            request = asked.recv(_NUMBER.unpack(header)[0], socket.MSG_WAITALL)
        if os.fork() == 0:
            listener.close()
            module, arguments, env, cwd = json.loads(request)
            _keep([module, arguments, {**imported, **env}, cwd], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(request: list[Any], descriptors: list[int]) -> NoReturn:
    """Fork the module's process; write its id to the status pipe, and later its exit code."""
    status, *streams = descriptors
    process = os.fork()
    if process == 0:
        os.close(status)
        _run(request, streams)
    os.write(status, _NUMBER.pack(process))
    for descriptor in (0, 1, 2, *streams):
        os.close(descriptor)
    os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))
    os._exit(0)


def _run(request: list[Any], streams: list[int]) -> NoReturn:
    module, arguments, env, cwd = request
    code: object = 1
    try:
        os.setsid()
        for ours, descriptor in enumerate(streams):
            os.dup2(descriptor, ours)
            os.close(descriptor)
        # Replace the inherited sys.stdin, stdout and stderr: they remember, for example, that a descriptor was a file.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
        sys.argv = [module, *arguments]
        if module == WORKER:
            sys.argv = [module, *arguments[1:]]
            exec(arguments[0], {"__name__": "__main__"})  # noqa: S102  # a program of the tests, or execnet's
            atexit._run_exitfuncs()
        else:
            subprocess._fork_exec = _fork_interpreter  # type: ignore[attr-defined]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


_fork_exec = subprocess._fork_exec  # type: ignore[attr-defined]


def _fork_interpreter(command: Sequence[Any], *arguments: Any) -> int:
    """Fork instead of starting `python -P -m module …` by subprocess.Popen; return the process id."""
    if list(command[:3]) != [sys.executable, "-P", "-m"] or threading.active_count() > 1:
        return int(_fork_exec(command, *arguments))
    stdin, process_group = arguments[5], arguments[15]
    process = os.fork()
    if process:
        return process
    code: object = 1
    try:
        if process_group >= 0:
            os.setpgid(0, process_group)
        os.dup2(stdin, 0)
        _reset()
        module, *sys.argv[1:] = command[3:]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _reset() -> None:
    """Reset the process as exec would: keep only inheritable descriptors, and no signal handlers."""
    for each in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError):  # the listing's own descriptor
            if not os.get_inheritable(each):
                os.close(each)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        sys.exit(_work(sys.argv[-1]))
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        serve(asking)
