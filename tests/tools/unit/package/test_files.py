"""Files of Lambda packages: compilation, removal of needless files, and zip files."""

import marshal
import os
import shutil
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from aion_tools.package.files import compile_all, compiled, files_of, fix_times_and_modes, put, tidy
from aion_tools.package.zip_writer import ZipWriter

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def package(folder: Path, **modules: str) -> Path:
    """Write the modules into the package `words` of a new folder, and compile it."""
    for name, text in modules.items():
        (folder / "words").mkdir(parents=True, exist_ok=True)
        (folder / "words" / f"{name}.py").write_text(text)
    compile_all(folder, PYTHON, [Path("words", f"{name}.py") for name in modules])
    return folder


def bytecode(folder: Path, name: str) -> bytes:
    return compiled(folder / "words" / f"{name}.py", PYTHON).read_bytes()


def test_compiled_python_file_contains_its_path_on_lambda(tmp_path: Path) -> None:
    made = package(tmp_path, one="ONE = 1\n", two="TWO = 2\n")
    for name in ("one", "two"):
        code = marshal.loads(bytecode(made, name)[16:])  # noqa: S302 - our own
        assert code.co_filename == f"/var/task/words/{name}.py"


def test_file_with_invalid_python_is_not_compiled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = package(tmp_path, one="ONE = 1 is 1\n", template="{{ text }} no Python\n", null="a\0b")
    assert [file.name.split(".")[0] for file in made.rglob("*.pyc")] == ["one"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "content", "mode"),
    [
        ("bin/tool", b"#!/bin/sh\n", 0o755),
        ("ffmpeg", b"\x7fELF\x02", 0o755),
        ("lib.so.1", b"", 0o755),
        ("agent.py", b"", 0o644),
    ],
)
def test_programs_in_package_are_executable(tmp_path: Path, name: str, content: bytes, mode: int) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o600)
    fix_times_and_modes(tmp_path)
    assert file.stat().st_mode & 0o777 == mode


def test_needless_files_of_distributions_are_removed(tmp_path: Path) -> None:
    kept = {"web/app.py", "web/.data/words.txt", "web/agents/one.py", "botocore/data/sqs/service-2.json.gz"}
    needless = {
        "bin/tool", ".lock", "web/.agents/skills/web/SKILL.md", "web/tests/test_app.py", "web/fast.pyx", "web/fast.c",
        "boto3/examples/s3.rst", "botocore/data/sqs/examples-1.json.gz", "web-1.0.dist-info/RECORD",
    }  # fmt: skip
    for name in kept | needless:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tidy(tmp_path)
    assert {file.relative_to(tmp_path).as_posix() for file in files_of(tmp_path)} == kept


def test_changed_file_leaves_linked_package_unchanged(tmp_path: Path) -> None:
    """Two packages share a compiled file by a hard link: a build replaces the file and does not write into it."""
    first, second = package(tmp_path / "first", one="ONE = 1\n"), tmp_path / "second"
    before = bytecode(first, "one")
    shutil.copytree(first, second, copy_function=os.link)
    (tmp_path / "edited.py").write_text("ONE = 2\n")
    put(tmp_path / "edited.py", second / "words" / "one.py")
    compile_all(second, PYTHON, [Path("words/one.py")])
    assert bytecode(first, "one") == before
    assert bytecode(second, "one") != before
    assert (first / "words" / "one.py").read_text() == "ONE = 1\n"


def test_file_that_is_in_two_packages_is_compressed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, compress = list[int](), zlib.compressobj

    def counted(level: int, *more: Any) -> object:
        made.append(level)
        return compress(level, *more)

    monkeypatch.setattr(zlib, "compressobj", counted)
    folders = [tmp_path / "api", tmp_path / "task"]
    (folders[0] / "words").mkdir(parents=True)
    (folders[0] / "words" / "one.py").write_text("ONE = 1\n" * 100)
    (folders[0] / "words" / "empty.py").touch()
    shutil.copytree(folders[0], folders[1], copy_function=os.link)
    (folders[1] / "agent.py").write_text("agent = 1\n")
    writer = ZipWriter()
    for folder in folders:
        fix_times_and_modes(folder)
        writer.write(folder, folder.with_suffix(".zip"))
    assert len(made) == 3
    with zipfile.ZipFile(tmp_path / "task.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["agent.py", "words/empty.py", "words/one.py"]
        assert archive.read("words/one.py") == b"ONE = 1\n" * 100
    ZipWriter().write(folders[1], tmp_path / "alone.zip")
    assert (tmp_path / "alone.zip").read_bytes() == (tmp_path / "task.zip").read_bytes()
