"""What the whole suite shares: the embedded stack, and a clock that only moves when it is told to."""

from collections.abc import Iterator

import pytest

from infra.local_stack import LocalStack
from tests.support.clock import ManualClock


@pytest.fixture(scope="session")
def stack() -> Iterator[LocalStack]:
    with LocalStack.start("template.yaml") as stack:
        yield stack


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
