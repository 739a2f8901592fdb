"""Helpers for tests of `aion doctor`: runs of the command, and projects to check."""

import json
from pathlib import Path

from tests.support.operating import RunCommand

OPEN = "aion: {agents: {helper: {path: agent.py, name: Helper}}}"
AGENT = """
from langgraph.graph import START, MessagesState, StateGraph
graph = StateGraph(MessagesState).add_node("a", lambda state: {}).add_edge(START, "a")
"""


def run_doctor(run: RunCommand, *arguments: object) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code and the result of each check."""
    ran = run(*arguments, "--json")
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran.exit_code, {each["name"]: each for each in json.loads(ran.stdout)}


def written(folder: Path, text: str, **files: str) -> Path:
    config = folder / "aion.yaml"
    config.write_text(text, encoding="utf-8")
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return config
