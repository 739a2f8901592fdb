"""Task states: transitions, the head after an event, and timestamps."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf.json_format import MessageToDict

from aion_core.errors import InvalidTransition
from aion_core.protocol.types import (
    Event,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from aion_core.tasks import lifecycle
from tests.unit.tasks.given import AT, STATES, at, head, status

ENDS = {"COMPLETED", "FAILED", "CANCELED", "REJECTED"}
FOLLOWS = {
    "SUBMITTED": {"WORKING"} | ENDS,
    "WORKING": {"WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED"} | ENDS,
    "INPUT_REQUIRED": {"WORKING"} | ENDS,
    "AUTH_REQUIRED": {"WORKING"} | ENDS,
}


@pytest.mark.parametrize("before", STATES)
def test_task_state_has_allowed_next_states(before: str) -> None:
    following = {after for after in STATES if lifecycle.may_follow(STATES[before], STATES[after])}
    assert following == FOLLOWS.get(before, set())


def test_event_advances_task_head() -> None:
    event = status("INPUT_REQUIRED")
    later = AT + timedelta(seconds=1)
    assert lifecycle.advance(head(), event) == head(generation=3, state=STATES["INPUT_REQUIRED"], timestamp=later)
    assert lifecycle.advance(head(), TaskArtifactUpdateEvent()) == head(generation=3)
    assert lifecycle.advance(head(), Task(status=at("COMPLETED"))).state == STATES["COMPLETED"]


def test_first_task_event_may_have_any_state() -> None:
    before = head(state=STATES["SUBMITTED"], generation=0)
    assert lifecycle.advance(before, status("INPUT_REQUIRED")).generation == 1


@pytest.mark.parametrize("event", [status(), TaskArtifactUpdateEvent()], ids=["status", "artifact"])
def test_no_event_follows_terminal_state(event: Event) -> None:
    with pytest.raises(InvalidTransition, match=r"^The task is canceled: nothing follows\.$"):
        lifecycle.advance(head(state=STATES["CANCELED"]), event)


def test_invalid_state_transition_is_refused() -> None:
    with pytest.raises(InvalidTransition, match=r"^auth-required does not follow input-required\.$"):
        lifecycle.advance(head(state=STATES["INPUT_REQUIRED"], generation=1), status("AUTH_REQUIRED"))


@pytest.mark.parametrize(("microsecond", "milliseconds"), [(0, 1), (999, 1), (2999, 2), (678_901, 678)])
def test_status_timestamp_has_whole_milliseconds(microsecond: int, milliseconds: int) -> None:
    """A whole second would have another JSON format."""
    zone = timezone(timedelta(hours=2))
    made = lifecycle.status_at(STATES["WORKING"], AT.replace(microsecond=microsecond).astimezone(zone))
    assert made == at("WORKING", AT.replace(microsecond=milliseconds * 1000))
    assert lifecycle.timestamp_of(made) == AT.replace(microsecond=milliseconds * 1000)


# ── Timestamps ────────────────────────────────────────────────────────────────────────────────────────────────────────


SECOND = datetime(2026, 11, 22, 0, 52, 11, tzinfo=UTC)


def written(at: datetime) -> str:
    return str(MessageToDict(lifecycle.status_at(TaskState.TASK_STATE_WORKING, at))["timestamp"])


@pytest.mark.parametrize(
    ("microsecond", "expected"),
    [(0, "001"), (999, "001"), (1000, "001"), (1999, "001"), (2000, "002"), (27_000, "027"), (999_999, "999")],
)
def test_timestamp_always_has_milliseconds(microsecond: int, expected: str) -> None:
    """The JSON of protobuf would omit them for whole seconds."""
    assert written(SECOND.replace(microsecond=microsecond)) == f"2026-11-22T00:52:11.{expected}Z"


def test_timestamps_sort_as_text() -> None:
    moments = [SECOND + timedelta(microseconds=250 * step) for step in range(-8, 9)]
    texts = [written(moment) for moment in moments]
    assert texts == sorted(texts)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text) for text in texts)


def test_timestamp_is_written_in_utc() -> None:
    assert written(SECOND.replace(microsecond=5000).astimezone(timezone(timedelta(hours=2)))).endswith("T00:52:11.005Z")
