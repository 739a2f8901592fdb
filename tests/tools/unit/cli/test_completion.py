"""`aion completion`: completion scripts for shells, their installation, and their results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import operating

AION = str(Path(sys.executable).with_name("aion"))


@pytest.mark.parametrize(
    ("shell", "installed"),
    [
        ("bash", ".local/share/bash-completion/completions/aion"),
        ("zsh", ".zshrc"),
        ("fish", ".config/fish/completions/aion.fish"),
    ],
)
def test_shell_completion_is_installed_once(tmp_path: Path, shell: str, installed: str) -> None:
    (tmp_path / ".zshrc").write_text("setopt autocd")
    environ = {
        "HOME": str(tmp_path),
        "SHELL": f"/bin/{shell}",
        "XDG_DATA_HOME": "",
        "XDG_CONFIG_HOME": "",
        "ZDOTDIR": "",
    }
    run = operating.runs(environ)
    for _ in range(2):
        done = run("completion", "--install", prog_name="aion")
        assert done.exit_code == 0, done.output
        assert str(tmp_path / installed) in done.stdout
    text = (tmp_path / installed).read_text()
    marks = {"bash": "complete -o", "zsh": "_AION_COMPLETE=zsh_source", "fish": "complete --no-files"}
    assert text.count(marks[shell]) == 1
    assert "setopt autocd\n" in text or shell != "zsh"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ta", "tasks"),
        ("build Ta", "TaskFunction"),
        ("chat --agent bi", "billing"),
        ("key create alice --agent ''", "helper billing"),
        ("card show --config other.yaml ''", "other"),
        ("card show --config missing.yaml ''", ""),
    ],
)
def test_printed_script_completes_in_bash(tmp_path: Path, words: str, completed: str) -> None:
    (tmp_path / "aion.bash").write_text(operating.runs({})("completion", "bash", prog_name="aion").stdout)
    (tmp_path / "aion.yaml").write_text("aion: {agents: {helper: {path: a.py:graph}, billing: {path: b.py:graph}}}")
    (tmp_path / "other.yaml").write_text("aion: {agents: {other: {path: a.py:graph}}}")
    ask = (
        f"source aion.bash; COMP_WORDS=(aion {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '_aion_completion aion; echo "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{Path(AION).parent}:{os.environ['PATH']}"}
    asked = subprocess.run(["bash", "-c", ask], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (asked.stdout.strip(), asked.stderr) == (completed, "")


def test_unknown_shell_is_usage_error() -> None:
    failed = operating.runs({"SHELL": "/bin/tcsh"})("completion")
    assert (failed.exit_code, "Name one: bash, zsh, fish" in failed.stderr) == (2, True)
