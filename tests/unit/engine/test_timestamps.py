"""Timestamps: always in milliseconds, and sorted as text like as times."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf.json_format import MessageToDict

from aion_core.protocol.types import TaskState
from aion_core.tasks import lifecycle

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


def test_a_timestamp_is_written_in_utc() -> None:
    assert written(SECOND.replace(microsecond=5000).astimezone(timezone(timedelta(hours=2)))).endswith("T00:52:11.005Z")
