"""The cache of builds."""

import os
import time
from pathlib import Path
from threading import Thread

from aion_tools.package.cache import cache, delete_expired, entry, filled_once, scratch

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


def test_only_latest_parts_are_kept(packages_cache: Path) -> None:
    """A zip has up to a hundred megabytes. Those of the last hour stay, because another build may read them."""

    def make(kind: str, number: int, age: int) -> Path:
        folder = entry(kind, str(number))
        with filled_once(folder):
            pass
        for path in (folder, folder / "built"):
            os.utime(path, (time.time() - age, time.time() - age))
        return folder

    made = {
        kind: [make(kind, number, 4000 + 10 * number) for number in range(14)] for kind in ("part", "zip", "wheels")
    }
    latest = [make("part", number, 60) for number in range(14, 16)]
    delete_expired()
    assert {path for path in packages_cache.glob("part-*") if path.is_dir()} == {*latest, *made["part"][:10]}
    assert {path for path in packages_cache.glob("zip-*") if path.is_dir()} == {*made["zip"][:12]}
    assert all(path.is_dir() for path in made["wheels"])
    newest = [make("part", number, 60) for number in range(20, 40)]
    delete_expired()
    assert {path for path in packages_cache.glob("part-*") if path.is_dir()} == {*latest, *newest}
