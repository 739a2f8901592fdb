"""Choice of SAM CLI: the program on PATH if it is new enough, else our own installation."""

from pathlib import Path

import pytest

from aion_core.deploy import sam


def program(folder: Path, says: str, code: int = 0) -> Path:
    file = folder / "sam"
    file.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    file.chmod(0o755)
    return file


def test_recent_sam_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program(tmp_path, "SAM CLI, version 1.160.2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert sam.command() == found


@pytest.mark.parametrize(
    ("says", "code"), [("SAM CLI, version 1.99.0", 0), ("no version", 0), ("SAM CLI, version 1.160.0", 1)]
)
def test_old_or_broken_sam_on_path_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int
) -> None:
    program(tmp_path, says, code)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert sam.command() == sam.installed() / "sam"
