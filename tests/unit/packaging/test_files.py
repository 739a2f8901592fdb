"""Files of packages: compiled once for all functions and projects."""

import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aion_core.packaging.files import compile_all, compiled

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path_factory.mktemp("packages")))


def package(folder: Path, **modules: str) -> Path:
    """Write the modules into the package `words` of a new folder, and compile it."""
    (folder / "words").mkdir(parents=True)
    for name, text in modules.items():
        (folder / "words" / f"{name}.py").write_text(text)
    compile_all(folder, PYTHON, [folder])
    return folder


def bytecode(folder: Path, name: str) -> bytes:
    return compiled(folder / "words" / f"{name}.py", PYTHON).read_bytes()


def test_same_file_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = package(tmp_path / "api", one="ONE = 1\n")
    programs: list[str] = []
    run = subprocess.run

    def record(command: list[str], **options: object) -> object:
        programs.append(" ".join(command))
        return run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", record)
    second = package(tmp_path / "task", one="ONE = 1\n")
    assert [each for each in programs if "compileall" in each] == []
    assert bytecode(second, "one") == bytecode(first, "one")
    assert marshal.loads(bytecode(second, "one")[16:]).co_filename == "/var/task/words/one.py"  # noqa: S302 - our own


def test_changed_moved_and_invalid_files_are_compiled_anew(tmp_path: Path) -> None:
    first = package(tmp_path / "first", one="ONE = 1\n", two="TWO = 2\n", template="{{ text }} no Python\n")
    again = package(tmp_path / "again", one="ONE = 10\n", other="TWO = 2\n", template="{{ text }} no Python\n")
    assert bytecode(again, "one") != bytecode(first, "one")
    names: dict[str, object] = {}
    exec(marshal.loads(bytecode(again, "one")[16:]), names)  # noqa: S102, S302 - our own
    assert names["ONE"] == 10
    assert marshal.loads(bytecode(again, "other")[16:]).co_filename == "/var/task/words/other.py"  # noqa: S302 - our own
    assert not compiled(again / "words" / "template.py", PYTHON).exists()


def test_changed_file_leaves_linked_package_unchanged(tmp_path: Path) -> None:
    """Packages share the compiled files of dependencies by hard links."""
    first, second = package(tmp_path / "first", one="ONE = 1\n"), tmp_path / "second"
    before = bytecode(first, "one")
    shutil.copytree(first, second, copy_function=os.link)
    (second / "words" / "one.py").unlink()
    (second / "words" / "one.py").write_text("ONE = 2\n")
    compile_all(second, PYTHON, [second])
    assert bytecode(first, "one") == before
    assert bytecode(second, "one") != before
