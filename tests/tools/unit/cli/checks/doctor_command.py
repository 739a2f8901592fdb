"""Helpers for tests of `aion doctor`: runs of the command, and projects to check."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.support import operating
from tests.support.operating import RunCommand

OPEN = "aion: {agents: {helper: {path: agent.py, name: Helper}}}"
AGENT = """
from langgraph.graph import START, MessagesState, StateGraph
graph = StateGraph(MessagesState).add_node("a", lambda state: {}).add_edge(START, "a")
"""


ANSWERING = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
answer = lambda state: {"messages": [AIMessage(f"You said: {state['messages'][-1].content}")]}
graph = StateGraph(MessagesState).add_node("a", answer).add_edge(START, "a")
"""


def run_doctor(run: RunCommand, *arguments: object, **options: Any) -> tuple[int, dict[str, dict[str, str]]]:
    """Run `aion doctor` by a function that names it. Return the exit code and the result of each check."""
    ran = run(*arguments, "--json", **options)
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran.exit_code, {each["name"]: each for each in json.loads(ran.stdout)}


def doctor(environ: dict[str, str], *arguments: object) -> tuple[int, dict[str, dict[str, str]]]:
    """Run `aion doctor` in this environment, without a project unless `--config` names one."""
    config = () if "--config" in arguments else ("--config", "/nowhere.yaml")
    return run_doctor(operating.runs(environ), "doctor", *arguments, *config)


def written(folder: Path, text: str, **files: str) -> Path:
    config = folder / "aion.yaml"
    config.write_text(text, encoding="utf-8")
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return config


class ServedAgents:
    """Server of a folder's agents: the app under uvicorn, in a thread."""

    def __init__(self, folder: Path, text: str, code: str = "", **environ: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        given = {
            "AION_STORE": "memory",
            "AION_CONFIG": str(written(folder, text, **({"agent": code} if code else {}))),
            "AION_BASE_URL": self.url,
            **environ,
        }
        app = build_app(Settings.from_environ(given))
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            self._thread.join(0.02)
        return self.url

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
