"""The cache of builds."""

import os
from pathlib import Path
from threading import Thread

from aion_tools.package.cache import cache, delete_expired, filled_once, scratch

DIGEST = "0123456789abcdef0123"


def test_folder_is_filled_once_by_concurrent_builds(packages_cache: Path) -> None:
    folder, filled = cache() / f"wheels-{DIGEST}", list[Path]()

    def build() -> None:
        with filled_once(folder) as is_new:
            if is_new:
                assert not list(folder.iterdir()), "the rest of a failed build"
                filled.append(folder)

    folder.mkdir()
    (folder / "of_failed_build").touch()
    threads = [Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert filled == [folder]


def test_unused_entries_are_deleted_after_a_day(packages_cache: Path) -> None:
    for name in ("used", "unused"):
        with filled_once(cache() / f"{name}-{DIGEST}") as is_new:
            assert is_new
    of_others = packages_cache / "notes.txt"
    of_failed_build = packages_cache / f"failed-{DIGEST}" / "code" / "of_failed_build.py"
    of_failed_build.parent.mkdir(parents=True)
    for file in (of_others, of_failed_build):
        file.touch()
    with scratch() as folder:
        Path(folder, "package.py").touch()
        for path in packages_cache.rglob("*"):
            os.utime(path, (0, 0))
        with filled_once(cache() / f"used-{DIGEST}") as is_new:
            assert not is_new
        delete_expired()
        assert {path.name for path in packages_cache.iterdir()} == {f"used-{DIGEST}", "notes.txt"}
