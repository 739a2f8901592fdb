"""Data folder `.aion` of the development server: its lock, and the search for a running server."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_tools.dev.data_folder import DataFolder, RunningServer, find_local_server


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AION_DATA_DIR", raising=False)


def test_command_in_subfolder_finds_running_dev_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = RunningServer(os.getpid(), "http://127.0.0.1:8000", "http://127.0.0.1:9", {"AION_TABLE": "t"})
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    folder = DataFolder(tmp_path / ".aion")
    with folder.locked():
        folder.announce(running)
        assert (folder.path / "dev.json").stat().st_mode & 0o077 == 0, "it holds credentials"
        assert folder.path.stat().st_mode & 0o077 == 0
        assert RunningServer.read(folder.path) == running
        found = find_local_server()
        assert found is not None
        assert (found.name, found.environment) == (
            "the development server at http://127.0.0.1:8000",
            running.environment,
        )
    assert find_local_server() is None


def test_command_finds_sqlite_store_of_stopped_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / ".aion" / "store"
    store.mkdir(parents=True)
    inner = tmp_path / "a"
    inner.mkdir()
    monkeypatch.chdir(inner)
    found = find_local_server()
    assert found is not None
    assert found.environment == {"AION_SQLITE_FOLDER": str(store)}
    assert "(not running)" in found.name
    monkeypatch.setenv("AION_DATA_DIR", str(tmp_path / "elsewhere"))
    assert find_local_server() is None


def test_command_ignores_dev_server_with_memory_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(tmp_path / ".aion")
    (folder.path / "store").mkdir(parents=True)
    with folder.locked():
        folder.announce(RunningServer(os.getpid(), "http://127.0.0.1:8000"))
        assert find_local_server() is None, "the files are of an earlier start"


def test_dev_json_left_by_ended_server_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file names the id of an ended process; another process may have this id now."""
    monkeypatch.chdir(tmp_path)
    folder = DataFolder(tmp_path / ".aion")
    with folder.locked():
        pass
    folder.announce(RunningServer(os.getpid(), "http://127.0.0.1:8000"))
    assert find_local_server() is None


@pytest.mark.parametrize("is_ended", [True, False])
def test_dev_json_without_lock_counts_while_its_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ended: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for pid in (ended.pid, 2**80) if is_ended else (os.getpid(),):
        DataFolder(tmp_path / ".aion").announce(RunningServer(pid, "http://127.0.0.1:8000", "http://127.0.0.1:9"))
        assert (find_local_server() is None) == is_ended


def test_dev_server_start_waits_until_command_releases_shared_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder(tmp_path / ".aion")
    with folder.locked():
        pass
    with (folder.path / "dev.lock").open() as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        monkeypatch.setattr("time.sleep", lambda seconds: fcntl.flock(looks, fcntl.LOCK_UN))
        with folder.locked():
            pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}'])
def test_unreadable_dev_json_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".aion").mkdir()
    (tmp_path / ".aion" / "dev.json").write_text(content)
    assert find_local_server() is None


def test_data_folder_is_locked_by_one_server(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "x").locked():
        with pytest.raises(ConfigurationError, match=r"already running in this folder.*--data-dir"):
            DataFolder(tmp_path / "x").locked().__enter__()
        assert (tmp_path / "x" / ".gitignore").read_text() == "*\n"
    with DataFolder(tmp_path / "x").locked():
        pass


def test_unwritable_data_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="Cannot write to"):
        DataFolder(tmp_path / "file" / ".aion").locked().__enter__()


def test_folder_in_place_of_dev_json_is_not_deleted(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    (tmp_path / "dev.json").mkdir()
    with folder.locked(), pytest.raises(OSError):
        folder.announce(RunningServer(os.getpid(), "http://127.0.0.1:8000"))
    assert (tmp_path / "dev.json").is_dir()
