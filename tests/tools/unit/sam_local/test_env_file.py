"""`.aion/sam-env.json`: its content and mode, for each way in which SAM runs the build."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from aion_core.errors import ConfigurationError
from aion_tools.sam_local.env_file import PLAIN, project_of, write_plain, write_private
from tests.support.rows import each_row

AION_YAML = """
aion:
  secrets: {OPENAI_API_KEY: openai-key, UNSET: other}
  environment: {MODEL: small, PLACE: here}
  agents: {a: {path: "agent.py:graph"}}
"""
DOTENV = "OPENAI_API_KEY=sk-1\nMODEL=large\nUNDECLARED=private\n"


def project(folder: Path, dotenv: str | None = DOTENV) -> Path:
    folder.mkdir(parents=True)
    (folder / "aion.yaml").write_text(AION_YAML)
    (folder / "template.yaml").write_text("")
    if dotenv is not None:
        (folder / ".env").write_text(dotenv)
    return folder


def written(folder: Path, artifacts: str = ".aws-sam/build/Aion/ApiFunction") -> dict[str, Any]:
    file = write_plain(folder, folder / artifacts)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (variables,) = json.loads(file.read_text()).values()
    return {**variables, "AION_LOCAL_ENVIRONMENT": json.loads(variables["AION_LOCAL_ENVIRONMENT"])}


def test_file_has_declared_variables_of_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSET", "exported, so it is not written to the disk")
    assert written(project(tmp_path / "project")) == {
        "AION_STORE": "memory",
        "AION_AUTH": "off",
        "AION_LOOPBACK_ORIGINS": "true",
        "AION_REVEAL_ERRORS": "true",
        "AION_LOCAL_ENVIRONMENT": {"MODEL": "large", "PLACE": "here", "OPENAI_API_KEY": "sk-1"},
    }
    assert (tmp_path / "project" / ".aion" / ".gitignore").read_text() == "*\n"


def test_file_without_dotenv_still_selects_the_store(tmp_path: Path) -> None:
    variables = written(project(tmp_path / "project", None))
    assert variables["AION_STORE"] == "memory"
    assert variables["AION_LOCAL_ENVIRONMENT"] == {"MODEL": "small", "PLACE": "here"}
    (tmp_path / "project" / "aion.yaml").unlink()
    assert written(tmp_path / "project")["AION_LOCAL_ENVIRONMENT"] == {}


def test_unreadable_dotenv_is_named(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    (folder / ".env").write_bytes(b"KEY=\xff\xfe")
    with pytest.raises(ConfigurationError, match=rf"^{folder}/\.env cannot be read: it is not UTF-8\.$"):
        write_plain(folder, folder / ".aws-sam/build/ApiFunction")


def test_earlier_file_with_open_mode_becomes_private(tmp_path: Path) -> None:
    folder = project(tmp_path / "project")
    (folder / ".aion").mkdir()
    (folder / PLAIN).write_text("{}")
    (folder / PLAIN).chmod(0o644)
    assert written(folder)["AION_STORE"] == "memory"


PLACES = {
    "built in the source": ("project", "project/.aws-sam/build/Aion/ApiFunction", "project"),
    "built in SAM's copy": ("copy", "project/.aws-sam/build/ApiFunction", "project"),
    "cached, built in the copy": ("copy", "project/.aws-sam/cache/1-2-3/ApiFunction", "project"),
    "other folder in the project": ("project", "project/.aion/sam-local/3000/ApiFunction", "project"),
    "other folder elsewhere": ("project", "elsewhere/ApiFunction", "project"),
}


@each_row(("folder", "artifacts", "found"), PLACES.values())
def test_project_of_a_build_is_found(tmp_path: Path, folder: str, artifacts: str, found: str) -> None:
    assert project_of(tmp_path / folder, tmp_path / artifacts) == tmp_path / found


def test_concurrent_builds_leave_one_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "env.json"
    long = {str(number): {"NAME": str(number) * 100_000} for number in range(4)}
    write_private(file, long)
    stop, seen = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            seen.append(len(json.loads(file.read_text())))

    def write() -> None:
        for _ in range(20):
            write_private(file, long)

    writers = [threading.Thread(target=write) for _ in range(4)]
    reader = threading.Thread(target=read)
    for thread in (reader, *writers):
        thread.start()
    for writer in writers:
        writer.join()
    stop.set()
    reader.join()
    assert set(seen) == {4}
    assert os.listdir(tmp_path) == ["env.json"]


def test_failed_write_keeps_the_earlier_file(tmp_path: Path) -> None:
    file = tmp_path / "env.json"
    write_private(file, {"A": {"B": "c"}})
    with pytest.raises(TypeError):
        write_private(file, {"A": {"B": object()}})  # type: ignore[dict-item]
    assert json.loads(file.read_text()) == {"A": {"B": "c"}}
    assert os.listdir(tmp_path) == ["env.json"]
