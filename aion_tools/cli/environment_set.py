"""Environment variables of an agent's code while a command loads it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def environment_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables, which must not be set yet, and remove them after the block."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
