"""Linux control group that limits the memory of a command, as Lambda limits a function's."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

_V2, _V1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
_PROGRAM = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'


@contextmanager
def memory_cgroup(megabytes: int) -> Iterator[Sequence[str]]:
    """Yield the beginning of a command: what follows it may use this much memory, and is killed beyond it.

    Skip the test if this process may not make control groups: it needs root, and a container with write access to them.
    """
    is_v2 = (_V2 / "cgroup.controllers").is_file()
    group = (_V2 if is_v2 else _V1) / f"aion-{uuid4().hex}"
    limits = {"memory.max": 1, "memory.swap.max": 0} if is_v2 else {"memory.limit_in_bytes": 1}
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control groups here: {error}")
    try:
        for name, factor in limits.items():
            try:
                (group / name).write_text(str(factor * megabytes * 1024 * 1024))
            except OSError as error:
                pytest.skip(f"no limits of memory here: {error}")
        yield ["/bin/sh", "-c", _PROGRAM, "sh", os.fspath(group)]
    finally:
        group.rmdir()


def is_limiting(command: Sequence[str], python: str, megabytes: int) -> bool:
    """Return True if Python is killed when it uses this much memory after the beginning of a command."""
    program = f"text = b'x' * {megabytes * 1024 * 1024}"
    return subprocess.run([*command, python, "-c", program], capture_output=True).returncode != 0
