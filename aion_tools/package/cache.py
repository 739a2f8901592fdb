"""Cache of installed dependencies. No build needs to clear it, because an entry's name contains a hash of its inputs."""

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
_DIGEST = "[0-9a-f]" * 20
_SCRATCH = "aion-scratch-"


def cache() -> Path:
    """Return the cache folder, either AION_PACKAGE_CACHE or aion-lambda's folder in the user's cache folder."""
    given = os.environ.get("AION_PACKAGE_CACHE")
    return Path(given) if given else user_cache_path("aion-lambda") / "packages"


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
    """Delete what no build has used for a day, also the rest of failed builds.

    Entries without a digest in their name are not deleted, since AION_PACKAGE_CACHE may name a folder with other files.
    """
    for entry in [
        each for name in (f"*-{_DIGEST}", f"*-{_DIGEST}.lock", f"{_SCRATCH}*") for each in cache().glob(name)
    ]:
        with suppress(OSError):  # another process may delete it
            used = max(each.stat().st_mtime for each in (entry, *entry.glob("*")))
            if time.time() - used > _EXPIRES_AFTER:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
