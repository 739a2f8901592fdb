"""Push subscribers of a task, as its head counts them: a commit notifies all of them. Pure."""

from collections.abc import Collection

from msgspec.structs import replace

from aion_core.engine.agent_options import PushEvents
from aion_core.engine.push_config import MAX_PUSH_CONFIGS, PushConfig
from aion_core.engine.records import Head
from aion_core.engine.task.states import IS_RUNNING
from aion_core.errors import TooManyPushConfigs
from aion_core.protocol.types import Event, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from aion_core.table.conditions import Absent, Both, Condition, Either, Equals, Exists
from aion_core.table.writes import Change


def subscribers_as_read(head: Head) -> Condition:
    """Return the condition that no push config was added since the head was read: a commit notifies all of them."""
    return Either((Absent("push_epoch"), Equals("push_epoch", head.push_epoch)))


def subscriber_attributes(head: Head) -> dict[str, str | int]:
    """Return the push subscriber attributes of a task's head item; empty without subscribers."""
    if head.push_events is None:
        return {}
    return {"push_epoch": head.push_epoch, "push_events": head.push_events.value}


def subscribed(head: Head, after: Head, *, while_running: bool = False) -> Change:
    """Return the change to add a push subscriber to a task. With `while_running`, the task must be running."""
    exists = IS_RUNNING if while_running else Exists()
    return Change(subscriber_attributes(after), only_if=Both((exists, subscribers_as_read(head))))


def without_subscribers(head: Head) -> Change:
    """Return the change to remove a task's push subscribers. It fails if one was added since `head` was read."""
    return Change(
        {"push_epoch": head.push_epoch + 1},
        remove=("push_events",),
        only_if=Equals("push_epoch", head.push_epoch),
    )


def wants(events: PushEvents, event: Event) -> bool:
    """Return True if a push subscriber to `events` receives this event."""
    match event:
        case TaskStatusUpdateEvent():
            return True
        case TaskArtifactUpdateEvent():
            return events is not PushEvents.STATUS
        case _:
            return events is PushEvents.ALL


def has_subscriber_for(head: Head, event: Event) -> bool:
    """Return True if a push subscriber of the task with this head receives the event."""
    return head.push_events is not None and wants(head.push_events, event)


def head_with_subscriber(head: Head, config: PushConfig) -> Head:
    """Return the task's head with one more push subscriber."""
    order = list(PushEvents)
    before = [head.push_events] if head.push_events is not None else []
    widest = max([config.events, *before], key=order.index)
    return replace(head, push_epoch=head.push_epoch + 1, push_events=widest)


def check_room(config_ids: Collection[str], config: PushConfig) -> None:
    """Raise TooManyPushConfigs if a task with these push configs has the maximum and `config` would be one more."""
    if config.id not in config_ids and len(config_ids) >= MAX_PUSH_CONFIGS:
        raise TooManyPushConfigs(
            f"The task has {MAX_PUSH_CONFIGS} push notification configs already. Delete or replace one first."
        )
