"""Story of a task, printed by `aion why`: order of events that have no time, quotes, and durations."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from a2a.types import Artifact, Part, TaskStatus

from aion_core.engine.records import Numbered
from aion_core.protocol.types import Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from aion_core.trace.rows import StoredTrace
from aion_core.trace.step import Kind, Step
from aion_tools.cli.story.story import story_of
from aion_tools.deploy.logs import LogLine

BEGAN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def after(seconds: int) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def event(number: int, event: Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent, seconds: int = -1) -> Numbered:
    if seconds >= 0 and not isinstance(event, TaskArtifactUpdateEvent):
        event.status.timestamp.FromDatetime(after(seconds))
    return Numbered(number, event)


ARTIFACT = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="answer"))
TURN = LogLine(int(after(2).timestamp() * 1000), "dev", json.dumps({"message": "A turn begins."}))


@pytest.mark.parametrize("is_ended", [True, False])
def test_why_command_lists_artifact_after_start_of_turn(is_ended: bool) -> None:
    said = Message(parts=[Part(text="It is done.")])
    done = TaskStatusUpdateEvent(status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=said))
    events = [event(1, Task(id="t-1"), 0), event(2, ARTIFACT), *([event(3, done, 4)] if is_ended else [])]
    story = story_of(events, [TURN], caller="A client", agent="helper", content=True)
    assert [(each.at, each.text) for each in story] == [
        (after(0), "A client sent the message without an id to the agent helper."),
        (after(2), "A worker of `aion dev` began the turn."),
        (after(4) if is_ended else None, "The agent wrote the artifact answer (event 2)."),
        *([(after(4), "The agent completed the task: “It is done”.")] if is_ended else []),
    ]


@pytest.mark.parametrize(
    ("milliseconds", "chunks", "text"),
    [
        (15.4, 0, "15 ms"),
        (8_800, 1, "8.8 s and 1 streamed chunk"),
        (2_400_000, 48, "40 min and 48 streamed chunks"),
    ],
)
def test_why_command_prints_duration_and_chunks_of_ended_turn(milliseconds: float, chunks: int, text: str) -> None:
    fields = {"message": "A turn has ended.", "state": "input-required", "duration_ms": milliseconds, "chunks": chunks}
    [ended] = story_of([], [LogLine(0, "dev", json.dumps(fields))], caller="A client", agent="helper", content=True)
    assert ended.text == f"The turn ended as input-required after {text}."


def test_why_command_omits_exception_notes_of_failure() -> None:
    exception = (
        "Traceback (most recent call last):\n  x\nmine.OrderError: no stock\nDuring task with name 'n' and id '1'"
    )
    fields = {"level": "ERROR", "message": "The agent failed.", "exception": exception, "exception_name": "OrderError"}
    [failed] = story_of([], [LogLine(0, "task", json.dumps(fields))], caller="A client", agent="helper", content=True)
    assert failed.text == "The task function logged: The agent failed. mine.OrderError: no stock"


@pytest.mark.parametrize("content", [True, False])
def test_steps_are_told_beneath_their_turn(content: bool) -> None:
    at = after(2).timestamp() * 1000 + 0.4
    steps = [
        Step(1, Kind.AGENT, "helper", at, ms=2000.0),
        Step(2, Kind.TAKEOVER, "try 2", at, 1, 0.0),
        Step(3, Kind.NODE, "ask", at, 1, 1900.0),
        Step(4, Kind.TOOL, "search", at + 100, 3, 1500.0, arguments='{"for": "private"}', result="private"),
    ]
    done = TaskStatusUpdateEvent(status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
    began = LogLine(TURN.at, "dev", json.dumps({"message": "A turn begins.", "tries": 1}))
    events, traces = [event(1, Task(id="t-1"), 2), event(2, done, 2)], [StoredTrace("turn-1", "helper", 1, steps, 7)]
    story = story_of(events, [began], traces, caller="A client", agent="helper", content=content)
    values = ' {"for": "private"} → private' if content else ""
    assert [each.text for each in story] == [
        "A client sent the message without an id to the agent helper.",
        "A worker of `aion dev` began the turn.",
        "  node ask 1.9 s",
        "The agent completed the task.",
        f"    tool search 1.5 s{values}",
        "  and 7 more steps, which were not recorded",
    ]
    assert ("private" in json.dumps([each.document() for each in story])) == content


def told(*logged: tuple[int, dict[str, str]]) -> list[str]:
    lines = [LogLine(int(after(at).timestamp() * 1000), "task", json.dumps(fields)) for at, fields in logged]
    return [each.text for each in story_of([], lines, caller="A client", agent="helper", content=False)]


def test_repeated_warnings_are_told_once() -> None:
    gone, slow = ({"level": "WARNING", "message": f"The agent {name} is gone."} for name in ("a", "b"))
    begins = {"message": "A turn begins."}
    assert told((0, gone), (1, slow), (2, gone), (3, slow), (60, gone), (70, begins), (80, gone)) == [
        "The task function logged: The agent a is gone. (3 times, last at 2026-11-23 12:01:00 UTC)",
        "The task function logged: The agent b is gone. (2 times, last at 2026-11-23 12:00:03 UTC)",
        "The task function began the turn.",
        "The task function logged: The agent a is gone.",
    ]


@pytest.mark.parametrize(
    ("since", "text"), [("2026-11-23T12:00:01+00:00", "2026-11-23 12:00:01 UTC"), ("then", "then")]
)
def test_resumption_says_since_when_turn_has_waited(since: str, text: str) -> None:
    assert told((9, {"message": "A turn begins.", "waited_since": since})) == [
        f"The task function resumed the turn, which had been waiting since {text}."
    ]
