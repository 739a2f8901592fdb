"""Imports of an agent's code, and those missing from its package."""

from pathlib import Path

import pytest

from aion_core.packaging.imports import imports, missing


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder like a package's: a module, a package, a namespace with one package in it, a library."""
    package = tmp_path / "package"
    for name in (
        "yaml/__init__.py",
        "google/adk/__init__.py",
        "six.py",
        "_cffi_backend.cpython-313-x86_64-linux-gnu.so",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    return package


@pytest.mark.parametrize(
    "statement",
    [
        "import json, os.path, tomllib",
        "import yaml.something, six, _cffi_backend",
        "from google import adk",
        "from google.adk.agents import Agent",
        "import neighbour",
        "from neighbour import thing",
        "from . import neighbour",
        "from .nobody import thing",
        "try:\n    import nobody\nexcept ImportError:\n    nobody = None",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nobody",
        "def late():\n    import only_late",
    ],
)
def test_present_or_optional_import_is_not_missing(statement: str, tmp_path: Path, package: Path) -> None:
    (tmp_path / "agent.py").write_text(statement)
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "only_late.py").write_text("import nobody")
    assert list(missing([tmp_path / "agent.py"], [tmp_path], [package])) == []


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("import nobody", "nobody"),
        ("import nobody.below as one", "nobody.below"),
        ("from google.cloud import storage", "google.cloud.storage"),
        ("import neighbour", "nobody"),
        ("from .neighbour import thing", "nobody"),
    ],
)
def test_missing_import_is_named_with_its_files(statement: str, name: str, tmp_path: Path, package: Path) -> None:
    (tmp_path / "agent.py").write_text(statement)
    (tmp_path / "neighbour.py").write_text("import nobody")
    found = list(missing([tmp_path / "agent.py"], [tmp_path], [package]))
    assert [each.name for each in found] == [name]
    assert found[0].file.name == ("neighbour.py" if "neighbour" in statement else "agent.py")


def test_circular_imports_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import neighbour")
    (tmp_path / "neighbour.py").write_text("def late():\n    import agent\nimport agent")
    assert {each.name for each in imports(tmp_path / "agent.py", [tmp_path])} == {"neighbour", "agent"}
