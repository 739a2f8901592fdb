"""Programs of a package build."""

from pathlib import Path

import pytest

from aion_tools.programs import interpreter, standard_modules


def test_python_interpreter_is_found_behind_pyenv_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the interpreter itself: a shim of pyenv may start no interpreter in another folder."""
    shim = tmp_path / "python3.98"
    shim.write_text("#!/bin/sh\necho cpython 3.98 /opt/my pythons/bin/python3.98\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreter("3.98") == "/opt/my pythons/bin/python3.98"


@pytest.mark.skipif(interpreter("3.13") is None, reason="no Python 3.13 here")
def test_standard_modules_are_listed_for_requested_python_version() -> None:
    assert "json" in standard_modules("3.13")
    assert "imp" not in standard_modules("3.13")
