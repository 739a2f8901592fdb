"""One process at a time: what several would make at once, such as an environment, is made by the first of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(made: Path) -> Iterator[None]:
    """Wait until no other process makes this; a file beside it, `made` and `.lock`, is what they wait for.

    On Windows, which lacks the lock, nobody waits.
    """
    made.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
