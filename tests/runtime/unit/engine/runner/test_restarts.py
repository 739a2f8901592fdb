"""Restarts in the trace of a turn."""

from typing import Any

import pytest

from aion_core.engine.records import StoppedBy, Turn, Wait
from aion_core.engine.runner.restarts import note_restart
from aion_core.table.keys import TaskKey
from aion_core.trace.recorder import TurnTrace
from aion_core.trace.step import TracedTurn
from tests.support.clock import ManualClock
from tests.support.traces import tree


@pytest.mark.parametrize(
    ("turn", "noted"),
    [
        ({"tries": 1}, []),
        (
            {"tries": 1, "handoffs": 2, "stopped_by": StoppedBy.DEADLINE},
            ["handoff handoff 2: the process before reached its deadline"],
        ),
        ({"tries": 2, "stopped_by": StoppedBy.WORKER}, ["takeover try 2: the worker before died or froze"]),
        (
            {"tries": 2, "handoffs": 1, "stopped_by": StoppedBy.WORKER},
            ["takeover try 2: the worker before died or froze"],
        ),
        ({"tries": 3, "stopped_by": StoppedBy.STORE}, ["retry try 3: stopped by store"]),
        ({"tries": 1, "wait": Wait("w", 0, 1)}, ["wait waited since 1970-01-01 00:00:00 UTC"]),
        ({"tries": 2, "wait": Wait("w", 0, 1), "stopped_by": StoppedBy.STORE}, ["retry try 2: stopped by store"]),
    ],
)
def test_trace_notes_restart_of_turn(turn: dict[str, Any], noted: list[str]) -> None:
    trace = TurnTrace(TracedTurn(TaskKey("o", "t"), "c", "a", "turn", 1), ManualClock())
    note_restart(trace, Turn("turn", "t", 1, **turn))
    assert tree(trace.steps) == noted
