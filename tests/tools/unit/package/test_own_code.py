"""aion-lambda's own code in a package."""

from pathlib import Path

import pytest

from aion_tools.package import own_code
from aion_tools.package.own_code import compiled_code, own_files
from tests.tools.unit.package.wheels import small_own_code


def test_package_contains_runtime_without_developer_tools() -> None:
    folders = {tuple(place.split("/")[:2]) for place, _ in own_files()}
    assert folders >= {("aion_core", "engine"), ("aion_core", "lambda_runtime"), ("aion", "langgraph"), ("aion", "adk")}
    assert {first for first, _ in folders} == {"aion", "aion_core", "handlers"}


def test_own_code_is_compiled_once(packages_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "own_files", small_own_code)
    made = compiled_code("3.13")
    assert (made / "handlers" / "__pycache__" / "api.cpython-313.pyc").is_file()
    assert made == compiled_code("3.13")
    assert len(list(packages_cache.glob("aion-3.13-*/built"))) == 1
    assert (made / "aion_core" / "lambda_runtime" / "exec-wrapper.sh").stat().st_mode & 0o777 == 0o755
    assert (made / "handlers" / "api.py").read_bytes() == dict(small_own_code())["handlers/api.py"].read_bytes()
