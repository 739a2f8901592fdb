"""Many random requests: an invalid one gets its error code, a valid one gets its result, and no request gets a 5xx."""

import json
import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.protocol.answers import check_refusal, events_of, result_of
from tests.runtime.protocol.dialects import DIALECTS, Dialect
from tests.runtime.protocol.equals import equals
from tests.runtime.protocol.served import ServedTasks
from tests.runtime.protocol.variations import Variation, bad
from tests.support.asgi import AsgiAnswer

pytestmark = pytest.mark.timeout(900)  # one test plays many Hypothesis examples

MANY = 20_000 if os.environ.get("SIMULATION_DEEP") else 160
"""Total number of examples."""

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def tried(share: float) -> settings:
    """Return Hypothesis settings with this share of the examples; all use one app, each in a context of its own."""
    return settings(
        max_examples=int(MANY * share / len(DIALECTS)),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture
async def served() -> ServedTasks:
    return ServedTasks()


@each_dialect
@tried(0.7)
@given(data=st.data())
async def test_invalid_variation_of_request_receives_expected_error_code(
    served: ServedTasks, dialect: Dialect, data: st.DataObject
) -> None:
    variation = data.draw(bad(dialect))
    answer = await served.ask(dialect, variation.sent)
    assert variation.gives is not None
    check_refusal(dialect, answer, variation.gives)


@each_dialect
@tried(0.3)
@given(data=st.data())
async def test_equivalent_spellings_of_request_have_same_result(
    served: ServedTasks, dialect: Dialect, data: st.DataObject
) -> None:
    variation = data.draw(equals(dialect))
    assert variation.plain is not None
    plain = await served.ask(dialect, variation.plain)
    assert said(dialect, variation, await served.ask(dialect, variation.sent)) == said(dialect, variation, plain)


def said(dialect: Dialect, variation: Variation, answer: AsgiAnswer) -> object:
    """Return the response without ids and times."""
    if variation.operation == "SendStreamingMessage":
        result = events_of(dialect, answer)
        assert len(result) == 3
    else:
        result = result_of(dialect, answer)
    text = json.dumps(result)
    for name in ("contextId", "timestamp", "taskId", "id"):
        text = re.sub(f'"{name}": "[^"]+"', f'"{name}": "…"', text)
    assert "completed" in text.lower()
    return json.loads(text)
