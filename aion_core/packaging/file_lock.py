"""Lock between processes: the first one creates a file or folder, the others wait."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(made: Path) -> Iterator[None]:
    """Hold the lock file beside this file or folder, named with the suffix `.lock`.

    Windows has no such lock: processes do not wait there.
    """
    made.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
