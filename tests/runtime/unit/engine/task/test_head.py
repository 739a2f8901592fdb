"""Heads, which store the current state of tasks: their items, permitted changes, and whether they have push configs."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from aion_core.engine.agent_options import PushEvents
from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Head
from aion_core.engine.task import subscribers
from aion_core.engine.task.head import fenced, head_item, head_of, moved
from aion_core.engine.task.states import state_in
from aion_core.errors import StoreCorrupt, TooManyPushConfigs
from aion_core.protocol.types import Event, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from aion_core.table import keys
from aion_core.table.conditions import OneOf
from aion_core.table.item import Item
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.times import milliseconds
from aion_core.table.writes import Change
from tests.support.given import AT, TASK, Items, accepted_in, head, made, needless
from tests.support.rows import each_row

MILLISECONDS = 1_767_323_045_678


def stored(state: str = "WORKING", **more: object) -> Item:
    """Return the item of a head whose task has two events."""
    item = {"agent": "agent", "context_id": "c", "timestamp": MILLISECONDS, "generation": 2, "fence": 3, **more}
    return {**item, "state": f"TASK_STATE_{state}"}


STATES: Items = {
    "absent": None,
    "submitted": stored("SUBMITTED"),
    "works": stored(),
    "works, event 3": stored(generation=3),
    "works, fence 4": stored(fence=4),
    "works, epoch 0": stored(push_epoch=0),
    "works, epoch 1": stored(push_epoch=1, push_events="status"),
    "works, epoch 2": stored(push_epoch=2, push_events="all"),
    "input required": stored("INPUT_REQUIRED"),
    "auth required": stored("AUTH_REQUIRED"),
    "completed": stored("COMPLETED"),
    "failed": stored("FAILED"),
    "canceled": stored("CANCELED"),
    "rejected": stored("REJECTED"),
}
ENDED = {"completed", "failed", "canceled", "rejected"}
RUNNING = {"submitted"} | {name for name in STATES if name.startswith("works")}
EPOCH_0 = {"submitted", "works", "works, epoch 0", "input required", "auth required"} | ENDED
LATER = {"works, event 3", "works, fence 4"}
SUBSCRIBED = head(push_epoch=1, push_events=PushEvents.STATUS)
AFTER = replace(
    head(), generation=4, fence=5, state=TaskState.TASK_STATE_INPUT_REQUIRED, timestamp=AT + timedelta(seconds=1)
)
MOVED = {"generation": 4, "fence": 5, "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": MILLISECONDS + 1000}

CHANGES: dict[str, tuple[Callable[[], Change], set[str]]] = {
    "move": (lambda: moved(head(), AFTER), EPOCH_0),
    "move, any fence": (lambda: moved(head(), AFTER, fence=False), EPOCH_0 | {"works, fence 4"}),
    "move, subscribed": (
        lambda: moved(SUBSCRIBED, AFTER),
        EPOCH_0 - {"works, epoch 0"} | {"works, epoch 1"},
    ),
    "fence": (lambda: fenced(head(), 9), RUNNING - {"works, event 3"} | {"input required", "auth required"}),
    "subscribe": (lambda: subscribers.subscribed(head(), SUBSCRIBED), EPOCH_0 | LATER),
    "subscribe while running": (
        lambda: subscribers.subscribed(head(), SUBSCRIBED, while_running=True),
        RUNNING - {"works, epoch 1", "works, epoch 2"},
    ),
    "unsubscribe": (lambda: subscribers.without_subscribers(SUBSCRIBED), {"works, epoch 1"}),
}
"""Functions that return each change, and the names of the states that meet its condition."""


@each_row("name", CHANGES)
def test_update_of_task_item_is_accepted_only_in_expected_states(name: str) -> None:
    change, states = CHANGES[name]
    assert accepted_in(change(), STATES) == states


@each_row("name", CHANGES)
def test_no_part_of_task_update_condition_is_redundant(name: str) -> None:
    change, _ = CHANGES[name]
    assert needless(change().only_if, STATES) == []


@each_row(
    ("change", "before", "after"),
    [
        (CHANGES["move"][0], "works", stored() | MOVED),
        (CHANGES["move, subscribed"][0], "works, epoch 1", stored(push_epoch=1, push_events="status") | MOVED),
        (lambda: moved(head(), AFTER, expires=77), "works", stored(expires=77) | MOVED),
        (
            lambda: moved(head(), replace(AFTER, push_epoch=1, push_events=PushEvents.ALL)),
            "works",
            stored(push_epoch=1, push_events="all") | MOVED,
        ),
        (CHANGES["fence"][0], "works", stored(fence=9)),
        (CHANGES["subscribe"][0], "works", stored(push_epoch=1, push_events="status")),
        (CHANGES["subscribe while running"][0], "works", stored(push_epoch=1, push_events="status")),
        (CHANGES["unsubscribe"][0], "works, epoch 1", stored(push_epoch=2)),
    ],
)
def test_update_of_task_produces_expected_table_item(change: Callable[[], Change], before: str, after: Item) -> None:
    assert made(change(), STATES[before]) == after


def test_state_condition_lists_state_names_in_order() -> None:
    names = ("TASK_STATE_CANCELED", "TASK_STATE_FAILED", "TASK_STATE_WORKING")
    states = (TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_FAILED)
    assert state_in(frozenset(states)) == OneOf("state", names)


def test_current_state_of_task_is_parsed_from_table_item() -> None:
    item = stored("CANCELED", push_epoch=6, push_events="status+artifact")
    assert head_of(TaskKey("owner", "t-1"), item) == Head(
        TASK,
        ContextKey("owner", "agent", "c"),
        TaskState.TASK_STATE_CANCELED,
        AT,
        generation=2,
        fence=3,
        push_epoch=6,
        push_events=PushEvents.STATUS_AND_ARTIFACT,
    )
    assert head_of(TASK, stored()) == head()


@pytest.mark.parametrize("broken", [{"state": "TASK_STATE_ODD"}, {"timestamp": "now"}, {"push_events": "odd"}])
def test_invalid_table_item_of_task_raises_store_corrupt(broken: Item) -> None:
    with pytest.raises(StoreCorrupt, match=r"^The head of a task cannot be read\.$"):
        head_of(TASK, stored() | broken)


@each_row("missing", ["agent", "context_id", "state", "timestamp", "generation", "fence"])
def test_task_item_without_required_attribute_raises_store_corrupt(missing: str) -> None:
    with pytest.raises(StoreCorrupt):
        head_of(TASK, {name: value for name, value in stored().items() if name != missing})


def test_task_item_without_subscribers_has_no_push_attributes() -> None:
    assert subscribers.subscriber_attributes(head(push_epoch=4)) == {}


# ── Subscribers ───────────────────────────────────────────────────────────────────────────────────────────────────────

PUSH = PushConfig("p", "https://example.com")
EVENTS: dict[str, Event] = {
    "status": TaskStatusUpdateEvent(),
    "artifact": TaskArtifactUpdateEvent(),
    "task": Task(),
    "message": Message(),
}


@each_row(
    ("events", "wanted"),
    [
        (None, set()),
        (PushEvents.STATUS, {"status"}),
        (PushEvents.STATUS_AND_ARTIFACT, {"status", "artifact"}),
        (PushEvents.ALL, {"status", "artifact", "task", "message"}),
    ],
)
def test_subscribed_event_kinds_decide_push_notification(events: PushEvents | None, wanted: set[str]) -> None:
    listened = head(push_events=events)
    assert {name for name, event in EVENTS.items() if subscribers.has_subscriber_for(listened, event)} == wanted


@each_row(
    ("before", "events", "after"),
    [
        (None, "status", "status"),
        ("status", "all", "all"),
        ("all", "status", "all"),
        ("status+artifact", "status", "status+artifact"),
        ("status", "status+artifact", "status+artifact"),
    ],
)
def test_task_item_stores_widest_event_filter_of_its_webhooks(before: str | None, events: str, after: str) -> None:
    known: Head = head(push_epoch=4, push_events=PushEvents(before) if before else None)
    subscribed = subscribers.head_with_subscriber(known, replace(PUSH, events=PushEvents(events)))
    assert subscribed == head(push_epoch=5, push_events=PushEvents(after))


def test_task_accepts_at_most_ten_push_configs() -> None:
    nine = [f"p-{number}" for number in range(9)]
    subscribers.check_room(nine, PUSH)
    subscribers.check_room([*nine, "p"], PUSH)
    with pytest.raises(
        TooManyPushConfigs, match=r"^The task has 10 push notification configs already\. Delete or replace one"
    ):
        subscribers.check_room([*nine, "p-9"], PUSH)


def test_head_is_listed_by_its_time_and_task_id() -> None:
    item = head_item(head())
    assert item["listing_at"] == keys.listing_at(milliseconds(AT), TASK.task_id)
