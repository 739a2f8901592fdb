"""A `sam local` command as a child process, with its output on standard error."""

import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from aion_core.errors import AionError
from aion_tools.deploy.interrupts import wait_or_kill

_MEANS_NOTHING = re.compile(
    # The authorizer is API Gateway's, and authentication is off here.
    r"Authorizer '.*' is not supported for local emulation|"
    # The end of a container that SAM stops.
    r"Failed to get next invocation|"
    r"No current session found, using default AWS::|"
    r"This is a development server\. Do not use it in a production|"
    r"You can now browse to the above endpoints to invoke|Press CTRL\+C to quit"
)
"""Output of SAM CLI that would mislead or repeat the greeting."""
_ENDS_WITHIN = 20
"""Seconds in which SAM removes its containers."""


class ChildEnded(AionError):
    """`sam local` has ended, though nobody has stopped it. The message has its last line."""


class Child:
    """A running `sam local` command."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        """Start the command in a folder, in a process group of its own, so that Ctrl-C does not reach it first."""
        self.name = " ".join(("sam", *command[1:3]))
        self._lines: deque[str] = deque(maxlen=20)
        self._is_told = False
        self._process = subprocess.Popen(  # noqa: S603 - no shell
            command,
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=self.name, daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process, negative for a signal; None while it runs."""
        return self._process.poll()

    def check(self) -> None:
        """Raise ChildEnded if the process has ended."""
        code = self.exit_code
        if code is not None:
            self._reader.join(5)
            last = next((line for line in reversed(self._lines) if line.strip()), "it has printed nothing")
            raise ChildEnded(f"`{self.name}` has ended with code {code}: {last}")

    def stop(self) -> None:
        """Tell SAM to remove its containers and to end. Do not wait."""
        if not self._is_told:
            # Tell it once: another signal would interrupt the removal.
            self._is_told = True
            self._process.terminate()

    def end(self) -> None:
        """Wait until SAM has removed its containers and has ended. Kill it if this takes too long."""
        self.stop()
        wait_or_kill(self._process, _ENDS_WITHIN)
        self._reader.join(5)

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        with self._process.stdout:
            for line in self._process.stdout:
                if not _MEANS_NOTHING.search(line):
                    self._lines.append(line.rstrip())
                    print(line, end="", file=sys.stderr, flush=True)
