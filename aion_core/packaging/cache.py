"""Cache folder of built Lambda packages, and a file lock between processes.

All projects share the cache, because a package's name contains a hash of its inputs.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

# Seconds after its last use until a package is deleted from the cache.
_EXPIRES_AFTER = 86400


def cache() -> Path:
    """Return the cache folder, either AION_PACKAGE_CACHE or aion-lambda's folder in the user's cache folder."""
    given = os.environ.get("AION_PACKAGE_CACHE")
    return Path(given) if given else user_cache_path("aion-lambda") / "packages"


@contextmanager
def file_lock(made: Path) -> Iterator[None]:
    """Hold a lock between processes for this file or folder. The lock file has the suffix `.lock`.

    On Windows there is no such lock, and processes do not wait for each other.
    """
    made.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def filled_once(folder: Path) -> Iterator[bool]:
    """Yield True if the `with` block must fill the folder, False if the folder has been filled before.

    Meanwhile, other processes wait for the end of the block.
    """
    marker = folder / "built"
    with file_lock(folder):
        is_new = not marker.is_file()
        if is_new:
            _delete_expired()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        yield is_new
        marker.touch()


def _delete_expired() -> None:
    for marker in cache().glob("*/built"):
        if time.time() - marker.stat().st_mtime > _EXPIRES_AFTER:
            shutil.rmtree(marker.parent, ignore_errors=True)
