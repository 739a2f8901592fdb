"""Servers and stacks for the end-to-end tests."""

from collections.abc import Iterator

import pytest

from aion_tools.stack.stack import LocalStack
from tests.support.server import ROOT, ServerProcess, make_dev, serving


@pytest.fixture(scope="package")
def server() -> Iterator[ServerProcess]:
    """Run `make dev` with the echo agent: its answers can be compared with what was sent."""
    with serving(make_dev(), AION_CONFIG=str(ROOT / "examples" / "echo" / "aion.yaml")) as server:
        yield server


@pytest.fixture
def own_stack() -> Iterator[LocalStack]:
    """Start an emulated stack for one test, so that no other test uses its queues."""
    with LocalStack.start("template.yaml") as stack:
        yield stack
