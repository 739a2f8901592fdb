"""Limit for agents that call each other in a loop."""

from typing import Any

import pytest

from aion_core.delegation.depth import DEPTH, MAX_DEPTH, next_depth
from aion_core.errors import AgentFailed
from tests.support.rows import each_row


@each_row(
    ("metadata", "depth"),
    [
        ({}, 1),
        ({DEPTH: 0}, 1),
        ({DEPTH: 3.0}, 4),
        ({DEPTH: MAX_DEPTH - 1}, MAX_DEPTH),
        ({DEPTH: -5}, 1),
        ({DEPTH: "8"}, 1),
        ({DEPTH: True}, 1),
    ],
)
def test_each_call_is_one_deeper(metadata: dict[str, Any], depth: int) -> None:
    assert next_depth(metadata, "far") == {DEPTH: depth}


@pytest.mark.parametrize("depth", [MAX_DEPTH, 1e300])
def test_loop_is_cut(depth: float) -> None:
    with pytest.raises(AgentFailed, match="probably in a loop"):
        next_depth({DEPTH: depth}, "far")
