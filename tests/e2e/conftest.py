"""Servers for the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.support.server import Server, make_dev, serving


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """Run `make dev`, the command of the README."""
    with serving(make_dev()) as server:
        yield server
