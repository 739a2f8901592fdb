"""What the tests of who may call share: an issuer whose keys are on a real server."""

from collections.abc import Iterator

import pytest

from tests.support.issuer import Issuer, issuing


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found
