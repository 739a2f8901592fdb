"""Tests of tests/support/e2e/fleet.py: it detects each kind of fault in a received stream and in the agents' notes."""

from typing import Any, cast

import pytest

from tests.support.e2e.agents.noting import Note
from tests.support.e2e.fault_proxy import Call, Rule, lost
from tests.support.e2e.fleet import Figures, Fleet, FleetTurn, recovery, run_again


def turn_with(*frames: tuple[str, dict[str, Any]]) -> FleetTurn:
    return FleetTurn(cast("Fleet", None), "graph", "streaming", "t", received=list(frames))


def chunk(text: str, *, append: bool = True) -> dict[str, Any]:
    return {
        "artifactUpdate": {"artifact": {"artifactId": "aion:stream-delta", "parts": [{"text": text}]}, "append": append}
    }


STATUS: dict[str, Any] = {"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}
BEGIN = ("2.1.0", chunk("T", append=False))


@pytest.mark.parametrize(
    ("frames", "faults"),
    [
        ([("1", STATUS), ("2", STATUS), BEGIN, ("2.1.1", chunk("h")), ("3", STATUS)], False),
        ([("1", STATUS), ("3", STATUS)], True),
        ([("1", STATUS), ("2", STATUS), ("2", STATUS)], True),
        ([("2", STATUS), BEGIN, ("2.1.2", chunk("e"))], True),
        ([("2", STATUS), BEGIN, ("2.1.0", chunk("T", append=False))], True),
        ([("2", STATUS), BEGIN, ("2.2.1", chunk("h"))], True),
    ],
    ids=["whole", "event lost", "event doubled", "chunk lost", "chunk doubled", "other process continues the text"],
)
def test_fault_test_finds_missing_and_repeated_stream_frames(
    frames: list[tuple[str, dict[str, Any]]], faults: bool
) -> None:
    assert any(turn_with(*frames).faults()) == faults


def note(step: str, pid: int, at: float) -> Note:
    return Note("t", step, "begin", pid, at)


def test_fault_test_reports_step_repeated_after_a_later_step() -> None:
    cut_and_resumed = [note("plan", 1, 1), note("speak", 1, 2), note("speak", 2, 5), note("check", 2, 6)]
    assert list(run_again(cut_and_resumed, {"t"})) == []
    assert list(run_again([*cut_and_resumed, note("speak", 1, 7)], {"t"})) == ["t: speak after check"]


def test_recovery_time_is_measured_until_another_process_continues() -> None:
    cut = note("speak", 1, 2)
    assert recovery([cut, note("speak", 1, 4), note("speak", 2, 5)], cut, 3) == 2
    assert recovery([cut, note("check", 1, 4)], cut, 3) is None


@pytest.mark.parametrize("field", ["lost", "doubled", "run_again"])
def test_fault_test_fails_for_each_kind_of_fault(field: str) -> None:
    Figures(1, recoveries=[20.0]).check()
    figures = Figures(1)
    getattr(figures, field).append("t")
    with pytest.raises(AssertionError):
        figures.check()


def test_fault_injection_can_affect_every_second_write_request() -> None:
    target = b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.%s\r\nAuthorization: Credential=k/d/r/dynamodb/aws4_request"
    write, read = (Call(target % name, b"", cast("Any", None), "") for name in (b"PutItem", b"GetItem"))
    rule = Rule("dynamodb", lost, ("PutItem",), every=2, times=2)
    assert [rule.takes(write) for _ in range(3)] == [False, True, False]
    assert not rule.takes(read)
    assert [rule.takes(write) for _ in range(3)] == [True, False, False]
    assert rule.injected == 2
