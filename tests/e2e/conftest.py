"""The servers that the end-to-end tests talk to."""

from collections.abc import Iterator

import pytest

from tests.support.server import Server, make_dev, serving


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """`make dev`, as the README has it."""
    with serving(make_dev()) as server:
        yield server
