"""Fixtures of the ADK tests."""

import pytest

from tests.support.adk import DIALECTS


@pytest.fixture(params=[DIALECTS[0], pytest.param(DIALECTS[1], marks=pytest.mark.deep)], ids=["v1", "v0.3"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)
