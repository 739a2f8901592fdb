"""Cache folder of built Lambda packages, and a file lock between processes.

All projects share the cache, because a package's name contains a hash of its inputs.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_path

# Seconds after its last use until an entry is deleted from the cache.
_EXPIRES_AFTER = 86400
_DIGEST = "[0-9a-f]" * 20
# Folders of packages and parts, their lock files, resolved requirements, generated files, and wheels of local folders.
_ENTRIES = (f"*-{_DIGEST}", f"*-{_DIGEST}.*", f"generated/{_DIGEST}", f"wheels/{_DIGEST}")


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
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        yield is_new
        marker.touch()


def delete_expired() -> None:
    """Delete the packages and other files of builds that no build has used for a day, also those of failed builds.

    Entries without a digest in their name are not deleted, since AION_PACKAGE_CACHE may name a folder with other files.
    """
    for entry in [entry for pattern in _ENTRIES for entry in cache().glob(pattern)]:
        with suppress(OSError):  # another process may delete it
            used = max(each.stat().st_mtime for each in (entry, *entry.glob("*")))
            if time.time() - used > _EXPIRES_AFTER:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
