"""Filter of the events that push notifications are sent for, and the limit of configs. Pure."""

from collections.abc import Collection
from dataclasses import replace

from aion_core.errors import TooManyPushConfigs
from aion_core.ports import MAX_PUSH_CONFIGS, Head, PushConfig, PushEvents
from aion_core.protocol.types import Event, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


def wants(events: PushEvents, event: Event) -> bool:
    """True if the event is one of these."""
    match event:
        case TaskStatusUpdateEvent():
            return True
        case TaskArtifactUpdateEvent():
            return events is not PushEvents.STATUS
        case _:
            return events is PushEvents.ALL


def listened_to(head: Head, event: Event) -> bool:
    """True if a subscriber may want the event."""
    return head.push_events is not None and wants(head.push_events, event)


def listening(head: Head, config: PushConfig) -> Head:
    """Return the head with this subscriber too."""
    order = list(PushEvents)
    before = [head.push_events] if head.push_events is not None else []
    widest = max([config.events, *before], key=order.index)
    return replace(head, push_epoch=head.push_epoch + 1, push_events=widest)


def deserted(head: Head) -> Head:
    """Return the head without subscribers."""
    return replace(head, push_epoch=head.push_epoch + 1, push_events=None)


def check_room(config_ids: Collection[str], config: PushConfig) -> None:
    """Raise TooManyPushConfigs if the task, which has these configs, has no room for another."""
    if config.id not in config_ids and len(config_ids) >= MAX_PUSH_CONFIGS:
        raise TooManyPushConfigs(
            f"The task has {MAX_PUSH_CONFIGS} push notification configs already. Delete one first, or replace it."
        )
