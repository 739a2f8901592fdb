"""Log file of the development server: reading a task's lines, rotation, write errors."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core import log
from aion_tools.dev import log_file
from aion_tools.dev.data_folder import LOG


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.setLevel(logging.INFO)
    log.install()
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def test_log_file_returns_lines_of_task_and_its_context(tmp_path: Path, root: logging.Logger) -> None:
    log_file.install(log_file.prepare(tmp_path, fresh=False))
    with log.about(correlation_id="r-1", context_id="c-1"):
        root.warning("of the context")
        with log.about(task_id="t-1"):
            root.info("A turn begins.", extra={"tries": 2})
    with log.about(correlation_id="r-2", context_id="c-1"):
        root.warning("of another owner's context")
        with log.about(task_id="t-2"):
            root.warning("of another task")
    found = log_file.read(tmp_path, "t-1", "c-1")
    assert [line.fields["message"] for line in found] == ["of the context", "A turn begins."]
    assert found[1].fields["tries"] == 2
    assert 0 <= found[1].at - found[0].at < 60_000
    assert (tmp_path / LOG).stat().st_mode & 0o077 == 0, "messages may quote data of the project"


def test_large_dev_log_file_is_renamed_while_server_runs(
    tmp_path: Path, root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log in two workers, as during a reload: each file has the lines of both, and only the oldest lines are deleted."""
    monkeypatch.setattr(log_file, "LARGEST_BYTES", 2000)
    path = log_file.prepare(tmp_path, fresh=False)
    for _ in range(2):
        log_file.install(path)
    with log.about(task_id="t-1", context_id="c-1"):
        for number in range(50):
            root.info(f"{number}")
    found = [line.fields["message"] for line in log_file.read(tmp_path, "t-1", "c-1")]
    assert found == [each for number in range(50) for each in [f"{number}"] * 2][-len(found) :]
    assert 0 < path.stat().st_size < 3000 > (tmp_path / log_file.EARLIER).stat().st_size
    assert log_file.prepare(tmp_path, fresh=True) == path
    assert log_file.read(tmp_path, "t-1", "c-1") == []


def test_full_disk_causes_one_log_warning(
    root: logging.Logger, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    log_file.install(Path("/dev/full"))
    root.info("one")
    root.info("two")
    assert caplog.messages == ["one", "The log file cannot be written: No space left on device", "two"]
    assert "Traceback" not in capsys.readouterr().err
