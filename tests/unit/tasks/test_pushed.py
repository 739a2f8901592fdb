"""Subscribers by push notifications: which events they want, and the head that knows of them."""

from dataclasses import replace

import pytest

from aion_core.errors import TooManyPushConfigs
from aion_core.ports import Head, PushConfig, PushEvents
from aion_core.protocol.types import (
    Event,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from aion_core.tasks import pushed
from tests.unit.tasks.given import head

PUSH = PushConfig("p", "https://example.com")
EVENTS: dict[str, Event] = {
    "status": TaskStatusUpdateEvent(),
    "artifact": TaskArtifactUpdateEvent(),
    "task": Task(),
    "message": Message(),
}


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        (None, set()),
        (PushEvents.STATUS, {"status"}),
        (PushEvents.STATUS_AND_ARTIFACT, {"status", "artifact"}),
        (PushEvents.ALL, {"status", "artifact", "task", "message"}),
    ],
)
def test_subscribers_want_some_events(events: PushEvents | None, wanted: set[str]) -> None:
    listened = head(push_events=events)
    assert {name for name, event in EVENTS.items() if pushed.listened_to(listened, event)} == wanted


@pytest.mark.parametrize(
    ("before", "events", "after"),
    [
        (None, "status", "status"),
        ("status", "all", "all"),
        ("all", "status", "all"),
        ("status+artifact", "status", "status+artifact"),
        ("status", "status+artifact", "status+artifact"),
    ],
)
def test_head_knows_widest_choice_of_events(before: str | None, events: str, after: str) -> None:
    known: Head = head(push_epoch=4, push_events=PushEvents(before) if before else None)
    subscribed = pushed.listening(known, replace(PUSH, events=PushEvents(events)))
    assert subscribed == head(push_epoch=5, push_events=PushEvents(after))


def test_head_without_subscribers_has_next_epoch() -> None:
    assert pushed.deserted(head(push_epoch=4, push_events=PushEvents.ALL)) == head(push_epoch=5)


def test_task_has_ten_push_configs() -> None:
    nine = [f"p-{number}" for number in range(9)]
    pushed.check_room(nine, PUSH)
    pushed.check_room([*nine, "p"], PUSH)
    with pytest.raises(TooManyPushConfigs, match=r"^The task has 10 push notification configs already\. Delete one"):
        pushed.check_room([*nine, "p-9"], PUSH)
