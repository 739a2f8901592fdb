"""Finished parts in the cache: what they are made from, and what a build that was killed leaves of one."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aion_tools.package import trim
from aion_tools.package.cache import cache
from aion_tools.package.installed import Installed
from aion_tools.package.own_code import compiled_code
from aion_tools.package.package import files_in
from aion_tools.package.part import Part, finished
from aion_tools.programs import interpreter
from tests.tools.unit.package.test_lock import ARM, lock_of, uv_lock
from tests.tools.unit.package.wheels import ONLY, pyproject, small_own_code, wheel, write

ROOM = 100_000_000


@pytest.fixture(autouse=True)
def own_code_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a few files of aion-lambda's own code, for a test to change, and return their folder."""
    folder = write(tmp_path / "aion", {place: file.read_text() for place, file in small_own_code()})
    monkeypatch.setattr("aion_tools.package.own_code.own_files", lambda: files_in(folder).items())
    return folder


@pytest.fixture
def make(tmp_path: Path, wheels: Path, served: str) -> Callable[..., Part]:
    """Return a function that installs two wheels, and makes a part."""
    wheel(wheels, "botocore", {"botocore/__init__.py": "", "botocore/data/ec2/service-2.json": "{}"})
    wheel(wheels, files={"mine/__init__.py": "one = 1", "mine/more.py": "more = 1", "data.txt": "theirs"})
    lock = lock_of(uv_lock(tmp_path / "project", pyproject("mine", "botocore") + ONLY.format(served)))

    def made(*names: str, words: set[str] | None = None, exclude: tuple[str, ...] = (), room: int = ROOM) -> Part:
        found, own = Installed(lock, ARM), compiled_code(ARM.python)
        return finished(found, own, names or ("mine", "botocore"), words or set(), exclude, room)

    return made


def test_part_is_made_once_and_remembers_its_sizes(make: Callable[..., Part]) -> None:
    first = make(exclude=("mine/more.py",))
    made = first.code.stat().st_mtime_ns
    assert make(exclude=("mine/more.py",)) == first
    assert first.code.stat().st_mtime_ns == made
    assert len(list(cache().glob("part-*/built"))) == 1
    assert first.size == sum(file.stat().st_size for file in files_in(first.code).values())
    assert {*first.weights} == {"mine", "botocore"}
    assert (first.code / "mine" / "__init__.py").stat().st_nlink > 1


def test_part_is_another_for_each_of_its_inputs(make: Callable[..., Part]) -> None:
    found = [
        make(),
        make("mine"),
        make(words={"ec2"}),
        make(exclude=("mine/more.py",)),
        make(room=0),
    ]
    assert len({part.code for part in found}) == len(found)
    has_bytecode = interpreter(ARM.python) is not None
    assert [bool(part.dropped) for part in found] == [False, False, False, False, has_bytecode]
    assert [part.excluded > 0 for part in found] == [False, False, False, True, False]
    assert [(part.code / "botocore/data/ec2").is_dir() for part in found] == [False, False, True, False, False]
    # Words that name no service of AWS are in the code of most agents, and change often.
    assert make(words={"hello"}) == found[0]


def test_part_has_changed_code_of_installed_aion(make: Callable[..., Part], own_code_is_small: Path) -> None:
    make()
    (own_code_is_small / "handlers" / "api.py").write_text("changed = 1")
    assert (make().code / "handlers" / "api.py").read_text() == "changed = 1"


def test_part_is_another_for_another_compiler(make: Callable[..., Part], monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch release of Python may write other .pyc files, and with the first one on this machine there are some."""
    first, own = make(), compiled_code(ARM.python)
    monkeypatch.setattr(trim, "compiler", lambda _: "3.13.99")
    assert make().code != first.code
    assert compiled_code(ARM.python) != own


def test_part_of_another_version_of_the_build_is_not_used(
    make: Callable[..., Part], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    write(tmp_path / "package", {"part.py": "of_another_version = 1"})
    monkeypatch.setattr("aion_tools.package.part.__file__", str(tmp_path / "package" / "part.py"))
    assert make().code != first.code


def test_half_made_part_is_made_anew(make: Callable[..., Part]) -> None:
    """A killed build leaves a folder without the file that is written last."""
    whole = make()
    before, archive = {place: file.read_bytes() for place, file in files_in(whole.code).items()}, whole.zip(())
    zipped = archive.read_bytes()
    (whole.code / "mine" / "__init__.py").unlink()
    archive.write_bytes(zipped[: len(zipped) // 2])
    for folder in (whole.code.parent, archive.parent):
        (folder / "built").unlink()
    assert {place: file.read_bytes() for place, file in files_in(make().code).items()} == before
    assert make().zip(()).read_bytes() == zipped


def test_zip_of_part_lacks_the_files_that_a_project_replaces(make: Callable[..., Part]) -> None:
    part = make()
    whole, rest = (part.zip(without) for without in (["agent.py"], ["agent.py", "data.txt"]))
    with zipfile.ZipFile(whole) as first, zipfile.ZipFile(rest) as second:
        assert first.namelist() == list(files_in(part.code))
        assert set(first.namelist()) - set(second.namelist()) == {"data.txt"}
    assert part.zip(["notes.txt"]) == whole
