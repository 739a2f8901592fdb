"""Trimmed dependencies: no dead weight, and modules compiled for Lambda."""

import marshal
import struct
import sys
from pathlib import Path

import pytest

from aion_tools.package import trim
from aion_tools.package.elf import stripped
from tests.support.rows import each_row
from tests.tools.unit.package.wheels import write

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_dead_weight_is_deleted(tmp_path: Path) -> None:
    kept = {
        "web/app.py",
        "web/bin/run",
        "web/.data/words.txt",
        "web/agents/one.py",
        "web/c/words.csv",
        "adk/cli/browser/a",
    }
    dead = {
        "bin/tool", ".lock", "web/.agents/skills/web/SKILL.md", "web/tests/test_app.py", "tests/test_web.py", "web/fast.pyx",
        "web/fast.c", "web/lib.a", "boto3/examples/s3.rst", "botocore/data/sqs/2012-11-05/examples-1.json",
        "web/__pycache__/app.cpython-39.pyc", "google/adk/cli/browser/main.js", "litellm/proxy/_experimental/out/a.html",
    }  # fmt: skip
    write(tmp_path, dict.fromkeys(kept | dead, ""))
    trim.delete_dead_weight(tmp_path)
    assert {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()} == kept


@each_row(
    ("place", "is_needed"),
    [
        ("mine-1.0.dist-info/METADATA", True),
        ("mine-1.0.dist-info/entry_points.txt", True),
        ("mine-1.0.dist-info/LICENSE.txt", True),
        ("mine-1.0.dist-info/licenses/NOTICE", True),
        ("mine-1.0.dist-info/RECORD", False),
        ("mine-1.0.dist-info/WHEEL", False),
        ("mine-1.0.dist-info/sboms/mine.json", False),
        ("mine/RECORD", True),
        ("botocore/data/s3/2006-03-01/service-2.json", True),
        ("botocore/data/ec2/2016-11-15/service-2.json", False),
        ("boto3/data/ec2/2016-11-15/resources-1.json", False),
        ("botocore/data/endpoints.json", True),
        ("mine/botocore/data/ec2/service-2.json", True),
    ],
)
def test_needed_files_are_those_that_code_reads(place: str, is_needed: bool) -> None:
    assert trim.is_needed(place, {"s3"}) == is_needed


def test_modules_are_compiled_for_their_path_on_lambda(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Files with invalid Python stay as they are, without a word."""
    modules = {
        "web/app.py": "A = {'b', 'c'}\n",
        "own.py": "",
        "web/template.py": "{{ no Python\n",
        "web/null.py": "a\0b",
    }
    write(tmp_path, {**modules, "web/app.pyi": ""})
    trim.compile_modules(tmp_path, PYTHON)
    made = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.pyc")}
    assert made == {trim.compiled(place, PYTHON) for place in ("web/app.py", "own.py")}
    content = (tmp_path / trim.compiled("web/app.py", PYTHON)).read_bytes()
    assert struct.unpack_from("<I", content, 4) == (1,), "Python does not compare it with its source"
    assert marshal.loads(content[16:]).co_filename == "/var/task/web/app.py"  # noqa: S302 - our own
    assert capfd.readouterr() == ("", "")


def test_only_named_modules_are_compiled(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": "", "two.py": ""})
    trim.compile_modules(tmp_path, PYTHON, [tmp_path / "two.py"])
    trim.compile_modules(tmp_path, PYTHON, [])
    trim.compile_modules(tmp_path, "3.99")  # a version that this machine lacks
    assert [file.name.split(".")[0] for file in tmp_path.rglob("*.pyc")] == ["two"]


def test_words_count_only_beside_an_import_of_boto(tmp_path: Path) -> None:
    write(tmp_path, {"words.py": "kinds = ['ec2', \"iam\"]\n", "uses.py": "    from botocore.session import Session\n"})
    assert trim.boto_words([tmp_path / "words.py"]) == set()
    assert trim.boto_words([tmp_path / "words.py", tmp_path / "uses.py"]) == {"ec2", "iam"}


def test_file_that_is_no_library_is_not_stripped() -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01" + bytes(200)):
        assert stripped(content) == content
