"""Completion of the `aion` command by the shell, with click's script."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.rows import each_row

AION = str(Path(sys.executable).with_name("aion"))


@each_row(
    ("words", "completed"),
    [
        ("chat --agent bi", "billing"),
        ("card show --config other.yaml ''", "other"),
    ],
)
def test_clicks_script_completes_in_bash(tmp_path: Path, words: str, completed: str) -> None:
    (tmp_path / "aion.yaml").write_text("aion: {agents: {helper: {path: a.py:graph}, billing: {path: b.py:graph}}}")
    (tmp_path / "other.yaml").write_text("aion: {agents: {other: {path: a.py:graph}}}")
    ask = (
        'eval "$(_AION_COMPLETE=bash_source aion)"; '
        f"COMP_WORDS=(aion {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '_aion_completion aion; echo "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{Path(AION).parent}:{os.environ['PATH']}"}
    asked = subprocess.run(["bash", "-c", ask], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (asked.stdout.strip(), asked.stderr) == (completed, "")
