"""What is kept of a task in a dict: its log, what waits for it, and who listens to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from uuid_utils.compat import uuid7

from aion_core.ports import Cursor, Delivery, DeltaBatch, Head, Numbered, PushConfig, TaskKey
from aion_core.protocol.types import Event, Message, StreamResponse, stream_response, unwrap
from aion_core.tasks import deliveries, pushed


@dataclass
class Listeners:
    """Who listens to a task, and the events that somebody has yet to be told of."""

    configs: dict[str, PushConfig] = field(default_factory=dict)
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    due: dict[int, datetime] = field(default_factory=dict)
    """When somebody is to look after an event, by its generation."""

    def add(self, task: TaskKey, config: PushConfig, *, after: int, due_at: datetime | None) -> Delivery:
        """Keep the config, in the place of one of its id; raises TooManyPushConfigs."""
        pushed.check_room(self.configs, config)
        self.configs[config.id] = config
        before = self.deliveries.get(config.id)
        return self.keep(deliveries.registered(task, config.id, before, after=after, due_at=due_at))

    def keep(self, delivery: Delivery) -> Delivery:
        """Keep how far a config has come, under a revision of its own."""
        kept = replace(delivery, revision=str(uuid7()))
        self.deliveries[delivery.config_id] = kept
        return kept

    def stands(self, delivery: Delivery) -> bool:
        """Tell whether nothing has happened to the config since it was read."""
        now = self.deliveries.get(delivery.config_id)
        return now is not None and now.revision == delivery.revision


@dataclass(frozen=True)
class Entry:
    """A durable event, in bytes, so that nobody shares a message with the store."""

    event: bytes
    asked: bytes | None = None
    key: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, event: Event, *, asked: Message | None = None, key: str = "", request: Mapping[str, Any] | None = None
    ) -> Self:
        """Return what is kept of the event, and of what came with it."""
        packed = asked.SerializeToString() if asked is not None else None
        return cls(stream_response(event).SerializeToString(), packed, key, request or {})

    def numbered(self, generation: int) -> Numbered:
        """Return the event as number `generation` of its log."""
        asked = Message.FromString(self.asked) if self.asked is not None else None
        return Numbered(generation, unwrap(StreamResponse.FromString(self.event)), asked, self.key, self.request)


@dataclass
class TaskRecord:
    """Everything of one task."""

    head: Head
    log: list[Entry]
    deltas: list[DeltaBatch] = field(default_factory=list)
    asked: dict[str, Entry] = field(default_factory=dict)
    """The messages that wait while the task is at work, by their turns."""
    snapshots: dict[int, bytes] = field(default_factory=dict)
    listeners: Listeners = field(default_factory=Listeners)

    def entries(self, after: int) -> list[Numbered]:
        """Return the events after that generation."""
        return [entry.numbered(number) for number, entry in enumerate(self.log[after:], start=after + 1)]

    def deltas_since(self, since: Cursor) -> list[DeltaBatch]:
        """Return the batches at the cursor or after it, in order."""
        return [batch for batch in sorted(self.deltas, key=_place) if _place(batch) >= since]


def _place(batch: DeltaBatch) -> Cursor:
    return Cursor(batch.generation, batch.fence, batch.first)
