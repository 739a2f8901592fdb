"""Progress output of commands: spinner (after a second, on a terminal only) and colours."""

import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

SLOW = """
import sys, threading
from aion_tools.cli import steps

async def read() -> str:
    import asyncio
    # The gate opens once the test has seen the spinner, or at once without a terminal.
    await asyncio.to_thread(sys.stdin.readline)
    return "read"

print(steps.result_of(read(), "Reading the table"))
"""


def test_spinner_appears_during_slow_work(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    terminal = pexpect.spawn(
        sys.executable, [str(tmp_path / "slow.py")], encoding="utf-8", timeout=60, env={"TERM": "xterm", "PATH": ""}
    )
    terminal.expect("Reading the table …")
    terminal.sendline("go")
    terminal.expect("read\r\n")
    terminal.expect(pexpect.EOF)
    assert terminal.wait() == 0


def test_spinner_is_omitted_without_terminal(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    ran = subprocess.run([sys.executable, str(tmp_path / "slow.py")], input="go\n", capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("read\n", "")


@pytest.mark.parametrize(("no_color", "colours"), [("1", False), ("", True)])
def test_no_color_removes_colours_on_terminals(tmp_path: Path, no_color: str, colours: bool) -> None:
    aion = str(Path(sys.executable).with_name("aion"))
    environ = {"TERM": "xterm", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NO_COLOR": no_color}
    terminal = pexpect.spawn(
        aion, ["doctor", "--no-template", "--port", "0"], cwd=str(tmp_path), encoding="utf-8", timeout=60, env=environ
    )
    terminal.expect(pexpect.EOF)
    # Search for colours only: a slow check's spinner also prints escape sequences, which move the cursor.
    assert (re.search(r"\x1b\[[\d;]*m", str(terminal.before)) is not None) is colours
