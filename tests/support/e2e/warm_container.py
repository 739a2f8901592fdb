"""Warm container of `sam local` without docker: a process that imports the handler, and serves one event after another."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.server import ROOT

PROGRAM = """
import json, os, sys, time

from handlers.api import handler


class Context:
    aws_request_id = "r-1"

    def __init__(self, seconds):
        self._end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self):
        return int((self._end - time.monotonic()) * 1000)


# The process writes its log to standard output, as on Lambda.
answers = os.fdopen(int(sys.argv[1]), "w")
for line in sys.stdin:
    event, seconds = json.loads(line)
    print(json.dumps(handler(event, Context(seconds))), file=answers, flush=True)
"""


class WarmContainer:
    """Process with a function's handler. Between two events its event loop stands still, as in a container of SAM CLI."""

    def __init__(self, process: "subprocess.Popen[str]", answers: Iterator[str], log: Path) -> None:
        self._process, self._answers, self._log = process, answers, log
        self.seconds = 900.0
        """Time of an invocation, until its deadline."""

    def log(self) -> list[str]:
        """Return the lines that the process has written so far."""
        return self._log.read_text(encoding="utf-8").splitlines()

    async def answer(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the handler's response to the event. It blocks this event loop, as a busy container blocks SAM CLI."""
        assert self._process.stdin is not None
        print(json.dumps([event, self.seconds]), file=self._process.stdin, flush=True)
        line = next(self._answers, None)
        assert line is not None, self._log.read_text(encoding="utf-8")
        answered: dict[str, Any] = json.loads(line)
        return answered


@contextmanager
def warm_container(environ: Mapping[str, str]) -> Iterator[WarmContainer]:
    """Start the process with these environment variables, and stop it after the block."""
    read, write = os.pipe()
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log, os.fdopen(read) as answers:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(write)],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "AWS_SAM_LOCAL": "true",
                "AWS_LAMBDA_FUNCTION_NAME": "ApiFunction",
                **environ,
            },
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[write],
        )
        os.close(write)
        try:
            yield WarmContainer(process, answers, Path(log.name))
        finally:
            process.kill()
            process.communicate()
