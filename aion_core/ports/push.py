"""Push notification port: the push configs of tasks and the state of their deliveries."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from aion_core.ports.tasks import Head, PushEvents, TaskKey

MAX_PUSH_CONFIGS = 10
"""Limit of push configs per task."""


class PushVersion(StrEnum):
    """Version of A2A in which a push config was registered and gets its notifications."""

    V1 = "1.0"
    V03 = "0.3"


class PushConfig(Struct, frozen=True):
    """A client's webhook for a task, with its credentials. The repr omits the secrets."""

    id: str
    """Id of the config, unique within its task. The server generates one if the client gives no id."""
    url: str
    """URL of the webhook. Its query may hold a secret."""
    token: str = ""
    """The client's token, sent in a header of each notification unless it is a signing key."""
    scheme: str = ""
    """The HTTP authentication scheme (`Bearer`, `Basic`, …); "" without authentication."""
    credentials: str = ""
    secrets: tuple[str, ...] = ()
    """The secrets that sign notifications, the newest first; two during a rotation."""
    older_until: datetime | None = None
    """End of a rotation: afterwards only the newest secret signs. None outside of a rotation."""
    version: PushVersion = PushVersion.V1
    events: PushEvents = PushEvents.STATUS
    """The kinds of events to post, as configured for the agent in aion.yaml."""

    def __repr__(self) -> str:
        return f"PushConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # `rich` prints the result of this method. Struct's own method would return the secrets too.
        return [(name, getattr(self, name)) for name in ("id", "scheme", "older_until", "version", "events")]


class Delivery(Struct, frozen=True):
    """State of one push config's notifications, without secrets."""

    task: TaskKey
    config_id: str
    after: int
    """Number of the newest event at registration: the config receives later events."""
    cursor: int
    """Number of the newest event that was posted, given up or skipped."""
    tries: int = 0
    """Number of failed posts with a retry since the last success. Giving an event up does not reset it."""
    next_at: datetime | None = None
    """Time of the next retry; None without a planned retry."""
    claimed_until: datetime | None = None
    """End of a process's claim on the delivery; None without a claim."""
    failure: str = ""
    """Reason of the last failed post; "" after a success."""
    dead: int = 0
    """Number of dead letters: events given up after the last retry."""
    dead_from: int = 0
    """Number of the first dead-letter event; 0 without dead letters."""
    disabled: bool = False
    """True after a 410 (Gone) response: no more events are posted."""
    due_at: datetime | None = None
    """Time of the delivery's timer; None without a timer."""
    revision: str = ""
    """New value after each change, compared by conditional writes."""


class Claim(Struct, frozen=True):
    """Right of a process to post for a push config. It ends when it expires, or the config is deleted or replaced."""

    delivery: Delivery
    config: PushConfig | None
    """None if the stored config cannot be decrypted: its key is gone, or its item was tampered with."""


class ExpiredPushTimer(Struct, frozen=True):
    """An expired timer of a task's push notifications, from a lagging index."""

    task: TaskKey
    at: datetime
    generation: int = 0
    """Number of the event to deliver; 0 for the timer of a config."""
    config_id: str = ""
    """Id of the config with the timer; "" for the timer of an event."""


class PushConfigs(Protocol):
    """Store of the push configs of tasks and the state of their deliveries. They expire with their task.

    Configs are encrypted; only `get`, `all` and `claim` decrypt them. Every method may raise StoreUnavailable; the
    caller may repeat the call. A message may bring a config: `TaskStore.create` and `TaskStore.follow_up` store both in
    one transaction (`NewTask.push`, `FollowUp.push`).
    """

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """Store a push config for the task's later events, and return its delivery state.

        It replaces a config with the same id but keeps its cursor: pending events go to the new webhook. The config
        gets a timer, in case the caller's wake-up message is lost. Raises TaskNotFound, and TooManyPushConfigs at the
        limit.
        """
        ...

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """Return the task's push config with this id; None if the task or the config does not exist."""
        ...

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """Return the task's push configs sorted by id, at most MAX_PUSH_CONFIGS; empty if the task does not exist."""
        ...

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """Delete the push config, if it exists. A post claimed just before may still follow."""
        ...

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """Return the delivery state of each push config of the task, sorted by id. The read is consistent."""
        ...

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """Claim the right to post for a push config. Return None if its state has changed since `delivery` was read.

        The config's timer is set to the end of the claim, in case the claiming process dies. Unreadable configs can be
        claimed too, so that their failures are counted.
        """
        ...

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """Move the config's cursor after a successful post, and renew the claim.

        Raises ClaimLost if another process has claimed the config, or it was deleted or replaced.
        """
        ...

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """Move the config's cursor and release the claim.

        `delivered` resets the failures after a successful post. `due_at` sets the timer for further posts. Raises
        ClaimLost as `advance` does.
        """
        ...

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """Count a failed post of the event after the cursor, and release the claim.

        The config may be claimed again from `next_at` on; `due_at` sets its timer. Raises ClaimLost as `advance` does.
        """
        ...

    async def give_up(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """Count event `cursor` as a dead letter, move the cursor past it, and renew the claim. `tries` does not change.

        Raises ClaimLost as `advance` does.
        """
        ...

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """Disable the config after a 410, and release the claim. Raises ClaimLost as `advance` does."""
        ...

    async def clear(self, task: TaskKey, generation: int) -> None:
        """Remove the timer of an event that every webhook of the task has passed. A repeat has no effect."""
        ...

    async def clear_subscribers(self, head: Head) -> None:
        """Record that the task has no push configs, unless one was stored since the task's `head` was read."""
        ...

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """Enable the config and set its timer to now, to post its dead letters again. Return None if it is missing.

        Events after the first dead letter are posted again too, with their earlier ids.
        """
        ...

    # ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """Return up to `limit` expired push timers. The index may lag.

        Owners alternate, each with its longest overdue timer first: an owner with many timers does not delay the
        others. Unreadable shards are logged and left out; raises StoreError if no shard is readable.
        """
        ...

    async def claim_expired(self, timer: ExpiredPushTimer) -> bool:
        """Claim the expired push timer. Return True if it is still expired and unclaimed.

        The claim sets the timer again, in case the wake-up message is lost. If the TTL of its item has passed, the
        timer is removed.
        """
        ...
