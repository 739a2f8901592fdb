"""Cache of installed dependencies and finished parts. No build needs to clear it, because an entry's name contains a hash of its inputs."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock
from platformdirs import user_cache_path

# Seconds after its last use until an entry is deleted from the cache.
_EXPIRES_AFTER = 86400
# Number of finished parts, and of zips of them, that are kept: three versions of a project's four functions.
_KEPT = 12
# Seconds after its last use in which another build may still read an entry.
_IN_USE = 3600
_DIGEST = "[0-9a-f]" * 20
_SCRATCH = "aion-scratch-"


def cache() -> Path:
    """Return the cache folder, either AION_PACKAGE_CACHE or aion-lambda's folder in the user's cache folder."""
    given = os.environ.get("AION_PACKAGE_CACHE")
    return Path(given) if given else user_cache_path("aion-lambda") / "packages"


def entry(kind: str, *inputs: str) -> Path:
    """Return the folder of the entry that is made from these inputs."""
    digest = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:20]
    return cache() / f"{kind}-{digest}"


def file_lock(made: Path) -> FileLock:
    """Return a lock between processes for this file or folder. The lock file has the suffix `.lock`."""
    made.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(made.with_name(f"{made.name}.lock"))


@contextmanager
def filled_once(folder: Path) -> Iterator[bool]:
    """Yield True if the `with` block must fill the folder, False if the folder has been filled before.

    Meanwhile, other processes wait for the end of the block.
    """
    marker = folder / "built"
    with file_lock(folder):
        is_new = not marker.is_file()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        yield is_new
        marker.touch()


def scratch() -> "TemporaryDirectory[str]":
    """Return a temporary folder in the cache, whose files may be hard links to the cache. A killed build leaves it there."""
    cache().mkdir(parents=True, exist_ok=True)
    return TemporaryDirectory(prefix=_SCRATCH, dir=cache())


def delete_expired() -> None:
    """Delete what no build has used for a day, also the rest of failed builds, and of the finished parts all but the latest.

    Entries without a digest in their name are not deleted, since AION_PACKAGE_CACHE may name a folder with other files.
    """
    used = dict[Path, float]()
    for name in (f"*-{_DIGEST}", f"*-{_DIGEST}.lock", f"{_SCRATCH}*"):
        for each in cache().glob(name):
            with suppress(OSError):  # another process may delete it
                used[each] = max(path.stat().st_mtime for path in (each, *each.glob("*")))
    latest = sorted(used, key=used.__getitem__, reverse=True)
    parts = [[each for each in latest if each.match(f"{kind}-{_DIGEST}")] for kind in ("part", "zip")]
    surplus = [each for found in parts for each in found[_KEPT:]]
    for each, moment in used.items():
        if time.time() - moment > (_IN_USE if each in surplus else _EXPIRES_AFTER):
            with suppress(OSError):
                # Under another name first, because a build must not find an entry that is half deleted.
                gone = each.rename(each.with_name(f"{_SCRATCH}{each.name.removeprefix(_SCRATCH)}"))
                shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
