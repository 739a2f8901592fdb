"""A `sam local` command as a child process: its output, its unexpected end, and its end."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aion_tools.sam_local.child import Child, ChildEnded
from tests.tools.unit.sam_local.programs import program

SAYS = """
import sys
print("Mounting ApiFunction at http://127.0.0.1:3000/")
print("Authorizer 'AWS_IAM' for route '/' is not supported for local emulation, requests will not be authorized")
print("[ERROR] [1795925552580] LAMBDA_RUNTIME Failed to get next invocation. No Response from endpoint")
print("Error: Port 3000 is already in use", file=sys.stderr)
sys.exit(3)
"""
ENDS = """
import signal, subprocess, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
other = subprocess.Popen(["sleep", "60"])
open(sys.argv[-1], "w").write(str(other.pid))
while not told:
    time.sleep(0.01)
time.sleep(0.3)
open(sys.argv[-1], "w").write(f"{other.pid} {len(told)}")
"""


def wait_until(holds: Callable[[], object], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.01)
    return False


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended, but whose parent has not asked for its end, is a zombie.
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if sys.platform == "linux" else True


def child(folder: Path, code: str, *more: str) -> Child:
    return Child([str(program(folder, "sam", code)), "local", "start-api", *more], folder, dict(os.environ))


def test_unexpected_end_is_told_with_last_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = child(tmp_path, SAYS)
    assert wait_until(lambda: ended.exit_code is not None)
    with pytest.raises(
        ChildEnded, match=r"^`sam local start-api` has ended with code 3: Error: Port 3000 is already in"
    ):
        ended.check()
    shown = capfd.readouterr().err
    assert "Mounting ApiFunction" in shown
    assert "Error: Port 3000" in shown
    assert "not supported for local emulation" not in shown
    assert "Failed to get next invocation" not in shown


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
def test_end_tells_sam_once_and_kills_its_children(tmp_path: Path) -> None:
    running, file = child(tmp_path, ENDS, str(tmp_path / "pid")), tmp_path / "pid"
    assert wait_until(lambda: file.exists() and file.read_text())
    running.stop()
    running.end()
    pid, told = file.read_text().split()
    assert told == "1"
    assert wait_until(lambda: not is_alive(int(pid)))
