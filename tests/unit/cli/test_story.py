"""Story of a task: the order of events without a time, and quotes."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from a2a.types import Artifact, Part, TaskStatus

from aion_core.cli.story import story_of
from aion_core.deploy.logs import LogLine
from aion_core.ports import Numbered
from aion_core.protocol.types import Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

BEGAN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def after(seconds: int) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def event(number: int, event: Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent, seconds: int = -1) -> Numbered:
    if seconds >= 0 and not isinstance(event, TaskArtifactUpdateEvent):
        event.status.timestamp.FromDatetime(after(seconds))
    return Numbered(number, event)


ARTIFACT = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="answer"))
TURN = LogLine(int(after(2).timestamp() * 1000), "dev", json.dumps({"message": "A turn begins."}), "1")


@pytest.mark.parametrize("is_ended", [True, False])
def test_artifact_follows_beginning_of_its_turn(is_ended: bool) -> None:
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
