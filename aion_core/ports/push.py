"""Push notification port: the push configs of tasks, and the state of their deliveries."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from aion_core.ports.tasks import Head, PushEvents, TaskKey

MAX_PUSH_CONFIGS = 10
"""Limit of push configs per task."""


class PushVersion(StrEnum):
    """Version of A2A with which a push config was registered. Its notifications have this version."""

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
        # `rich` prints the result of this method instead of the result of Struct's method, which has the secrets.
        return [(name, getattr(self, name)) for name in ("id", "scheme", "older_until", "version", "events")]


class Delivery(Struct, frozen=True):
    """State of the notifications for one push config, without secrets."""

    task: TaskKey
    config_id: str
    after: int
    """Number of the newest event at registration: the config receives later events."""
    cursor: int
    """Number of the newest event that was posted, given up or skipped."""
    tries: int = 0
    """Number of retries scheduled since the last successful post. It stays the same when an event is given up."""
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
    """Right of one process to post for a push config, until a set time or until the config is deleted or replaced."""

    delivery: Delivery
    config: PushConfig | None
    """None if the stored config cannot be decrypted: its key is gone, or its item was tampered with."""


class ExpiredPushTimer(Struct, frozen=True):
    """Expired timer (time of a delivery attempt) of a push notification, read from an index that may be outdated."""

    task: TaskKey
    at: datetime
    generation: int = 0
    """Number of the event to deliver; 0 for the timer of a config."""
    config_id: str = ""
    """Id of the config with the timer; "" for the timer of an event."""


class PushConfigs(Protocol):
    """Store of the push configs of tasks, and of the state of their deliveries. They expire with their task.

    Configs are encrypted. Only `get`, `all` and `claim` decrypt them. Every method may raise StoreUnavailable, and may
    then be repeated. A message may contain a config: `TaskStore.create` and `TaskStore.follow_up` store message and
    config in one transaction (`NewTask.push`, `FollowUp.push`).
    """

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """Store a push config for the task's later events, and return its delivery state.

        A config with the same id is replaced, but its cursor stays: the new webhook receives the pending events. The
        config gets a timer, in case the caller's wake-up message is lost. Raises TaskNotFound, and TooManyPushConfigs
        at the limit.
        """
        ...

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """Return the task's push config with this id; None if the task or the config does not exist."""
        ...

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """Return the task's push configs sorted by id, at most MAX_PUSH_CONFIGS; empty if the task does not exist."""
        ...

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """Delete the push config, if it exists. A process that has claimed it may still post once."""
        ...

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """Return the delivery state of each push config of the task, sorted by id. The read is consistent."""
        ...

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """Claim the right to post for a push config. Return None if its state has changed since `delivery` was read.

        The config's timer is set to the end of the claim, in case the process dies. A config that cannot be decrypted
        can be claimed too, so that its failures are counted.
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

        With `delivered`, reset the failures: a post has succeeded. `due_at` sets the timer for later posts. Raises
        ClaimLost as `advance` does.
        """
        ...

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """Count a failed post of the event after the cursor, and release the claim.

        The config may be claimed again from `next_at` on; `due_at` sets its timer. Raises ClaimLost as `advance` does.
        """
        ...

    async def give_up(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """Count event `cursor` as a dead letter, move the cursor past it, and renew the claim. Do not change `tries`.

        Raises ClaimLost as `advance` does.
        """
        ...

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """Disable the config after a 410 response, and release the claim. Raises ClaimLost as `advance` does."""
        ...

    async def clear(self, task: TaskKey, generation: int) -> None:
        """Remove the timer of an event that no webhook of the task needs any more. A repeat has no effect."""
        ...

    async def clear_subscribers(self, head: Head) -> None:
        """Record that the task has no push configs. No effect if a config was stored since `head` was read."""
        ...

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """Enable the config and set its timer to now, to post its dead letters again. Return None if it is missing.

        Events after the first dead letter are posted again too, with the same notification ids as before.
        """
        ...

    # ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def expired_timers(self, *, limit: int) -> Sequence[ExpiredPushTimer]:
        """Return up to `limit` expired push timers. The index may be outdated.

        Owners take turns, each with its longest overdue timer first, so that an owner with many timers does not delay
        the others. A shard that cannot be read is logged and left out. Raises StoreError if no shard can be read.
        """
        ...

    async def claim_expired(self, timer: ExpiredPushTimer) -> bool:
        """Claim the expired push timer. Return False if it is no longer expired or another process has claimed it.

        The claim sets the timer again, in case the wake-up message is lost. If the TTL of the timer's item has passed,
        remove the timer instead.
        """
        ...
