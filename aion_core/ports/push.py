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
    """The newest event at registration: the config is notified of later ones."""
    cursor: int
    """The newest event that was posted, given up, or skipped."""
    tries: int = 0
    """Failed posts of the event after the cursor."""
    next_at: datetime | None = None
    """Time of the retry, None without a failure."""
    claimed_until: datetime | None = None
    """End of the claim, None if nobody delivers."""
    failure: str = ""
    """The last failure; "" after a success."""
    dead: int = 0
    """Number of dead letters: events given up after the last retry."""
    dead_from: int = 0
    """The first dead letter, 0 without any."""
    disabled: bool = False
    """True if the receiver is gone (410): nothing more is posted."""
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
    """An expired timer of a task's notifications, as a lagging index has it."""

    task: TaskKey
    at: datetime
    generation: int = 0
    """The event that some webhook may not have received; 0 for the retry or the claim of a config."""
    config_id: str = ""
    """The config whose retry or claim it is; "" for an event."""


class PushConfigs(Protocol):
    """The push configs of tasks, and the state of their deliveries. They are stored as long as their task.

    Configs are encrypted; only `get`, `all` and `claim` decrypt them. Every method may raise StoreUnavailable; the same
    call may then be made again. A config can also come with a message: `TaskStore.create` and `TaskStore.follow_up`
    store it in the transaction that stores the message (`NewTask.push`, `FollowUp.push`).
    """

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """Store the config: every later commit of the task knows that it has a subscriber.

        The config is notified of later events. A config with the same id is replaced and its cursor is retained: what
        it has not passed is posted as the new one says. Its timer is set, in case the wake-up message is lost; the
        caller enqueues one. Raises TaskNotFound, and TooManyPushConfigs at the limit.
        """
        ...

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """Return the config, None if the task or the config does not exist."""
        ...

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """Return the task's configs, sorted by id, at most MAX_PUSH_CONFIGS; empty if there is no task."""
        ...

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """Delete the config, there or not: later posts are not made, except one that was just claimed."""
        ...

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """Return the delivery of each config of the task, sorted by id; consistent."""
        ...

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """Claim the right to post for the config; None if it has changed since `delivery` was read.

        Its timer is set to the end of the claim, in case the holder dies. A config that cannot be read is claimed like
        any other, so that its attempts are counted.
        """
        ...

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """Move the cursor after a post that did not fail, and renew the claim.

        Raises ClaimLost if another process has claimed the config, or it was deleted or replaced.
        """
        ...

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """Move the cursor and release the claim.

        With `delivered` the last post did not fail. `due_at` sets the timer, if more is to be posted. Raises ClaimLost
        as `advance` does.
        """
        ...

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """Count a failed post of the event after the cursor, and release the claim.

        The config may be claimed again from `next_at` on; `due_at` sets its timer. Raises ClaimLost as `advance` does.
        """
        ...

    async def give_up(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """Count event `cursor` as a dead letter, move the cursor past it, and renew the claim; `tries` stays as it is.

        Raises ClaimLost as `advance` does.
        """
        ...

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """Note that the receiver is gone, and release the claim. Raises ClaimLost as `advance` does."""
        ...

    async def clear(self, task: TaskKey, generation: int) -> None:
        """Remove the event's timer: every webhook has passed it. A repeat changes nothing."""
        ...

    async def clear_subscribers(self, head: Head) -> None:
        """Note that the task has no config any more, unless one was stored since `head` was read."""
        ...

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """Post the dead letters again, enable the config, and set its timer to now; None if there is no such config.

        Events after the first dead letter are posted again too, under the ids that they had.
        """
        ...

    # ── Timers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """Return expired timers, at most `limit`; it may lag.

        The owners take turns, each with its longest overdue first: one who has many does not delay the others. Shards
        that cannot be read are logged and left out; raises StoreError if none can be read.
        """
        ...

    async def claim_expired(self, expired_timers: ExpiredPushTimer) -> bool:
        """Claim the expired timer: True if it is still overdue, and nobody else has claimed it.

        It is set anew, in case the wake-up message is lost. The timer of an item that has expired is removed.
        """
        ...
