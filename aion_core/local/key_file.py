"""File with the key of a server whose data is in local files."""

import contextlib
import os
from pathlib import Path
from uuid import uuid4

from aion_core.errors import ConfigurationError

KEY_BYTES = 32
"""Length of an AES-256 key."""


def local_key(file: Path) -> bytes:
    """Return the key in this file. Create the file with a new key if it is missing, readable by this user only.

    Raises ConfigurationError.
    """
    new = file.with_name(f"{file.name}.{uuid4().hex}")
    try:
        if not file.exists():
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as made:
                made.write(os.urandom(KEY_BYTES))
            # Create the file atomically, because another process may create it at the same time.
            with contextlib.suppress(FileExistsError):
                os.link(new, file)
            new.unlink()
        key = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"Cannot read or create {file}: {error.strerror}.") from error
    if len(key) != KEY_BYTES:
        raise ConfigurationError(f"{file} is not a key of aion. Start with --fresh, or restore the file.")
    return key
