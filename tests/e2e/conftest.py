"""Servers for the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.support.server import DevServer, make_dev, serving


@pytest.fixture(scope="package")
def server() -> Iterator[DevServer]:
    """Run `make dev`, the command of the README."""
    with serving(make_dev()) as server:
        yield server
