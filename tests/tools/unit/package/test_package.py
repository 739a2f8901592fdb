"""A built package: its zip, the modes of its files, and what fits into Lambda's limit."""

import shutil
import zipfile
from pathlib import Path

import pytest

from aion_tools.package.functions import Target
from aion_tools.package.installed import InstalledFile
from aion_tools.package.package import (
    IMAGE_LIMIT,
    LAMBDA_LIMIT,
    Package,
    add_to_zip,
    files_in,
    fitting,
    put,
    too_large,
    weights_of,
)
from tests.support.rows import each_row
from tests.tools.unit.package.wheels import write


@pytest.mark.parametrize(
    ("name", "mode", "packaged"),
    [
        ("bin/tool", 0o700, 0o755),
        ("wrapper.sh", 0o600, 0o755),
        ("lib.so.1", 0o600, 0o755),
        ("agent.py", 0o600, 0o644),
        ("data.json", 0o640, 0o644),
    ],
)
def test_lambda_user_may_read_files_and_run_programs(tmp_path: Path, name: str, mode: int, packaged: int) -> None:
    file = tmp_path / name
    write(tmp_path, {name: "text"})
    file.chmod(mode)
    put(file, tmp_path / "package" / name)
    assert (tmp_path / "package" / name).stat().st_mode & 0o777 == packaged


def test_equal_packages_give_equal_zips(tmp_path: Path) -> None:
    write(tmp_path / "first", {"b/empty.py": "", "agent.py": "ONE = 1\n" * 100, "run.sh": "#!/bin/sh"})
    (tmp_path / "first" / "run.sh").chmod(0o755)
    shutil.copytree(tmp_path / "first", tmp_path / "second")  # at other times
    archives = []
    for folder in (tmp_path / "second", tmp_path / "first"):
        archives.append(tmp_path / f"{folder.name}.zip")
        add_to_zip(archives[-1], files_in(folder))
    first, second = (archive.read_bytes() for archive in archives)
    assert first == second
    with zipfile.ZipFile(archives[0]) as archive:
        assert archive.namelist() == ["agent.py", "b/empty.py", "run.sh"]
        assert archive.read("agent.py") == b"ONE = 1\n" * 100
        assert [info.external_attr >> 16 & 0o777 for info in archive.infolist()] == [0o644, 0o644, 0o755]


def test_package_size_is_printed_in_megabytes_like_limit(tmp_path: Path) -> None:
    package = Package("ApiFunction", Target("arm64", "3.13"), (), tmp_path, LAMBDA_LIMIT)
    assert str(package).startswith("ApiFunction: 250 MB for arm64, Python 3.13")


def files(**sizes: tuple[int, int]) -> list[InstalledFile]:
    """Return a module and a .pyc file of each distribution, with these sizes."""
    return [
        InstalledFile(name, f"{name}{suffix}", Path(name), size)
        for name, pair in sizes.items()
        for suffix, size in zip((".py", ".pyc"), pair, strict=True)
    ]


@each_row(
    ("limit", "dropped"),
    [(60, []), (59, ["torch"]), (40, ["torch"]), (39, ["torch", "data"]), (9, ["torch", "data", "mine"])],
)
def test_bytecode_is_dropped_from_largest_distributions(limit: int, dropped: list[str]) -> None:
    found = files(mine=(5, 5), torch=(10, 20), data=(10, 10))
    fitted = fitting(found, limit)
    assert fitted.dropped == dropped
    assert [file.place for file in fitted.files] == [
        file.place for file in found if not (file.distribution in dropped and file.place.endswith(".pyc"))
    ]


@pytest.mark.parametrize(
    ("is_image", "limit", "first", "last"),
    [
        (False, LAMBDA_LIMIT, "a zip is 250 MB.", " (`exclude:`), or deploy images of up to 10 GB (`image: true`)."),
        (True, IMAGE_LIMIT, "an image is 10240 MB.", " (`exclude:`)."),
    ],
)
def test_error_of_large_package_lists_ten_largest(is_image: bool, limit: int, first: str, last: str) -> None:
    megabyte = 1024**2
    found = files(**{f"d{size}": (size * megabyte, megabyte) for size in range(20, 32)})
    lines = too_large("ApiFunction", 12_000 * megabyte, limit, weights_of(found), is_image=is_image).splitlines()
    assert lines[0] == f"ApiFunction has 12000 MB without the .pyc files; Lambda's limit for {first}"
    assert (
        lines[1] == f"The largest distributions: {', '.join(f'd{size} {size + 1} MB' for size in range(31, 21, -1))}."
    )
    assert lines[2].endswith(last)
