"""Push notifications: the configs of tasks and the state of their deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from aion_core.ports.tasks import Head, PushEvents, TaskKey

MAX_PUSH_CONFIGS = 10
"""Limit of push configs per task."""


class PushVersion(StrEnum):
    """The protocol version in which a config was registered, and in which its notifications are posted."""

    V1 = "1.0"
    V03 = "0.3"


@dataclass(frozen=True, slots=True)
class PushConfig:
    """A client's webhook for a task, with its credentials; the repr has no secret."""

    id: str
    """Unique within the task; the server makes one if the client names none."""
    url: str = field(repr=False)
    """Its query may hold a secret."""
    token: str = field(default="", repr=False)
    """Sent unchanged in a header of each notification."""
    scheme: str = ""
    """The HTTP authentication scheme (`Bearer`, `Basic`, …); "" without authentication."""
    credentials: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The keys of the signatures, the newest first; more than one during a rotation."""
    older_until: datetime | None = None
    """End of the rotation, after which only the newest secret signs; None outside of a rotation."""
    version: PushVersion = PushVersion.V1
    events: PushEvents = PushEvents.STATUS
    """The events to notify of, as the agent declares in aion.yaml."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The state of one config's notifications; it has no secret."""

    task: TaskKey
    config_id: str
    after: int
    """Newest event at registration: the config receives later events."""
    cursor: int
    """Newest posted, given up or skipped event."""
    tries: int = 0
    """Failed posts of the event after the cursor."""
    next_at: datetime | None = None
    """Time of the retry, None without a failure."""
    claimed_until: datetime | None = None
    """End of the claim, None without a claim."""
    failure: str = ""
    """The last failure; "" after a success."""
    dead: int = 0
    """Number of dead letters: events given up after the last retry."""
    dead_from: int = 0
    """The first dead letter, 0 without any."""
    disabled: bool = False
    """True after a 410 (Gone) response: nothing more is posted."""
    due_at: datetime | None = None
    """Time of the timer, None without one."""
    revision: str = ""
    """Differs after each change: a conditional write compares it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to post for one config, until it runs out or the config is deleted or replaced."""

    delivery: Delivery
    config: PushConfig | None
    """None if the stored config cannot be read: its key is gone, or its item was changed."""


@dataclass(frozen=True, slots=True)
class ExpiredPushTimer:
    """An expired timer of a task's notifications, from a lagging index."""

    task: TaskKey
    at: datetime
    generation: int = 0
    """The event to deliver; 0 for the retry or claim of a config."""
    config_id: str = ""
    """The config to retry; "" for an event."""


class PushConfigs(Protocol):
    """Push configs of tasks and the state of their deliveries, with the lifetime of their task.

    Configs are encrypted; only `get`, `all` and `claim` decrypt them. Every method may raise StoreUnavailable; the
    caller may repeat the call. A message may bring a config: `TaskStore.create` and `TaskStore.follow_up` store both in
    one transaction (`NewTask.push`, `FollowUp.push`).
    """

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """Store the config, a subscriber of the task's later events.

        It replaces a config with the same id and keeps that cursor: pending events go to the new one. It gets a timer, in
        case the caller's wake-up message is lost. Raises TaskNotFound, or TooManyPushConfigs at the limit.
        """
        ...

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """Return the config, None if the task or the config does not exist."""
        ...

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """Return the task's configs, sorted by id, at most MAX_PUSH_CONFIGS; empty if there is no task."""
        ...

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """Delete the config, if it exists; a post claimed just before may still follow."""
        ...

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """Return the delivery of each config of the task, sorted by id; consistent."""
        ...

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """Claim the right to post for the config; None if it has changed since `delivery` was read.

        Its timer is set to the end of the claim, in case the holder dies. Unreadable configs can be claimed too, so that
        their attempts are counted.
        """
        ...

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """Move the cursor after a successful post, and renew the claim.

        Raises ClaimLost if another process has claimed the config, or it was deleted or replaced.
        """
        ...

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """Move the cursor and release the claim.

        With `delivered` the last post succeeded. `due_at` sets the timer for further posts. Raises ClaimLost as `advance`
        does.
        """
        ...

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """Count a failed post of the event after the cursor, and release the claim.

        The config may be claimed again from `next_at` on; `due_at` sets its timer. Raises ClaimLost as `advance` does.
        """
        ...

    async def give_up(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """Count event `cursor` as a dead letter, move the cursor past it, and renew the claim; `tries` is kept.

        Raises ClaimLost as `advance` does.
        """
        ...

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """Disable the config after a 410, and release the claim. Raises ClaimLost as `advance` does."""
        ...

    async def clear(self, task: TaskKey, generation: int) -> None:
        """Remove the event's timer: every webhook has passed it. A repeat changes nothing."""
        ...

    async def clear_subscribers(self, head: Head) -> None:
        """Record that the task has no configs, unless one was stored since `head` was read."""
        ...

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """Post the dead letters again, enable the config, and set its timer to now; None if there is no such config.

        Events after the first dead letter are posted again too, with their earlier ids.
        """
        ...

    # ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """Return expired timers, at most `limit`; the index may lag.

        Owners alternate, each with its longest overdue timer first: an owner of many does not delay the others.
        Unreadable shards are logged and left out; raises StoreError if no shard is readable.
        """
        ...

    async def claim_expired(self, timer: ExpiredPushTimer) -> bool:
        """Claim the timer; return True if it is still expired and unclaimed.

        It is set again, in case the wake-up message is lost. After its item's TTL it is removed.
        """
        ...
