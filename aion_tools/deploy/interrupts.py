"""Signals that end this process, delayed while it starts or ends a child process."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, Self


class DelayedInterrupt:
    """Context in which SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, but not before `raise_from_now_on`.

    A signal while a process is being started would otherwise leave it running: no variable holds the process yet. Only
    the first signal raises, so that another one does not interrupt the end of the processes. An ignored signal, such as
    SIGHUP after nohup, stays ignored.
    """

    def __init__(self) -> None:
        self._delayed = True
        self._received = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def delay(self) -> None:
        """Raise nothing until `raise_from_now_on`."""
        self._delayed = True

    def raise_from_now_on(self) -> None:
        """Raise KeyboardInterrupt at the next signal, and now if one has been received."""
        self._delayed = False
        if self._received:
            self._delayed = True
            raise KeyboardInterrupt

    def _receive(self, number: int, frame: object) -> None:
        self._received = True
        if not self._delayed:
            self._delayed = True
            raise KeyboardInterrupt


def end_group(process: "subprocess.Popen[Any]", seconds: float = 5) -> None:
    """End a process that has its own group, and its children. Kill them if they still run after these seconds."""
    if sys.platform != "win32":
        with suppress(OSError):  # the group has ended
            os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    wait_or_kill(process, seconds)


def wait_or_kill(process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Wait until a process that has its own group has ended. Then, or after these seconds, kill what is left of it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if sys.platform != "win32":
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
