"""Push notifications: who is to be told of a task's events, and how far each has been told."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from aion_core.ports.tasks import Head, PushEvents, TaskKey

MAX_PUSH_CONFIGS = 10
"""How many push configs a task may have."""


class PushVersion(StrEnum):
    """The protocol version in which a config was registered, and so that of what is posted for it."""

    V1 = "1.0"
    V03 = "0.3"


@dataclass(frozen=True, slots=True)
class PushConfig:
    """Where a client wants to hear of its task, and what proves to it who is calling. What is secret is in no repr."""

    id: str
    """The client's name for it, or one that the server has made up; a task has it once."""
    url: str = field(repr=False)
    """Its query may hold a secret."""
    token: str = field(default="", repr=False)
    """What the client wants to find in the notification's header, unchanged."""
    scheme: str = ""
    """The HTTP authentication scheme (`Bearer`, `Basic`, …); "" where the client asks for none."""
    credentials: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What notifications are signed with, the newest first; more than one while they are being rotated."""
    older_until: datetime | None = None
    """Until when those sign that are not the newest; None where that was never said."""
    version: PushVersion = PushVersion.V1
    events: PushEvents = PushEvents.STATUS
    """Of which events it hears, as its agent says in aion.yaml."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How far the notifications of one config have come; nothing in it is secret."""

    task: TaskKey
    config_id: str
    after: int
    """Registered when this was the newest event: it hears of those after it."""
    cursor: int
    """The newest event that it has passed: posted, or given up, or not due."""
    tries: int = 0
    """How often the event after the cursor has been tried in vain."""
    next_at: datetime | None = None
    """When it is tried again, None where nothing has failed."""
    claimed_until: datetime | None = None
    """Until when somebody delivers, None where nobody does."""
    failure: str = ""
    """What went wrong last; "" where nothing has since."""
    dead: int = 0
    """How many events were given up after the last try."""
    dead_from: int = 0
    """The first of them, 0 where there is none."""
    disabled: bool = False
    """Whether its receiver has said that it is gone (410): it is posted nothing more."""
    due_at: datetime | None = None
    """When somebody is to look after it, None where nobody is."""
    revision: str = ""
    """Differs after each change: who has read it knows by this whether it still stands so."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to post for one config, until it runs out or the config is deleted or replaced."""

    delivery: Delivery
    config: PushConfig | None
    """None where it is there and cannot be read: its key is gone, or it was changed."""


@dataclass(frozen=True, slots=True)
class OverduePush:
    """A task of whose notifications something is overdue, as an index tells it: a hint, no more."""

    task: TaskKey
    at: datetime
    generation: int = 0
    """The event that some webhook may not have passed; 0 where it is the retry or the claim of a config."""
    config_id: str = ""
    """The config whose retry or claim it is; "" where it is an event."""


class PushConfigs(Protocol):
    """The push configs of tasks, and how far each has come. They live as long as their task.

    Secrets are sealed where they are kept, and opened only for who asks for the config itself. Every method may raise
    StoreUnavailable; the same call may then be made again. A config can also come with a message: `TaskStore.create`
    and `TaskStore.follow_up` keep it in the transaction that keeps the message (`NewTask.push`, `FollowUp.push`).
    """

    # ── For clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(self, task: TaskKey, config: PushConfig) -> Delivery:
        """Keep the config: from here on every commit of the task knows that somebody listens.

        It hears of the events after those that there are. One of its id is replaced where it stands: what that has not
        passed is posted as the new one says. It is due soon, so that a bell may be lost: ring one all the same.
        Raises TaskNotFound, and TooManyPushConfigs where there are as many as there may be.
        """
        ...

    async def get(self, task: TaskKey, config_id: str) -> PushConfig | None:
        """Return the config, None where the task, or the config, is not there."""
        ...

    async def all(self, task: TaskKey) -> Sequence[PushConfig]:
        """Return the task's configs, sorted by id, at most MAX_PUSH_CONFIGS; none where there is no task."""
        ...

    async def delete(self, task: TaskKey, config_id: str) -> None:
        """Forget the config, there or not: no post for it begins after this, but for one whose right was just taken."""
        ...

    # ── For deliveries ────────────────────────────────────────────────────────────────────────────────────────────────

    async def deliveries(self, task: TaskKey) -> Sequence[Delivery]:
        """Return how far each config of the task has come, consistently, sorted by id."""
        ...

    async def claim(self, delivery: Delivery, *, until: datetime) -> Claim | None:
        """Take the right to post for the config; None where it is not as `delivery` has it: look again.

        It is due at the end of the claim: should its holder die, it is found by that. A config that cannot be read is
        claimed like any other, so that the schedule counts its tries.
        """
        ...

    async def advance(self, claim: Claim, *, cursor: int, until: datetime) -> Claim:
        """Note that the config has passed the events up to `cursor`, its last try was no failure, and keep the claim.

        Raises ClaimLost where it is another's by now, or the config is gone, or replaced.
        """
        ...

    async def settle(
        self, claim: Claim, *, cursor: int, delivered: bool = False, due_at: datetime | None = None
    ) -> None:
        """Note that the config has passed the events up to `cursor`, and give the claim back.

        With `delivered` its last try was no failure. It is due again at `due_at`, where more is to be posted; else
        nothing is. Raises ClaimLost as `advance` does.
        """
        ...

    async def fail(self, claim: Claim, *, failure: str, next_at: datetime, due_at: datetime) -> None:
        """Note that the event after the cursor was tried in vain once more, and give the claim back.

        It may be claimed again from `next_at` on, and is overdue at `due_at`. Raises ClaimLost as `advance` does.
        """
        ...

    async def bury(self, claim: Claim, *, cursor: int, failure: str, until: datetime) -> Claim:
        """Note that event `cursor` is given up, and passed by that; keep the claim. The count of tries stays as it is.

        Raises ClaimLost as `advance` does.
        """
        ...

    async def disable(self, claim: Claim, *, failure: str) -> None:
        """Note that the receiver is gone, and give the claim back. Raises ClaimLost as `advance` does."""
        ...

    async def clear(self, task: TaskKey, generation: int) -> None:
        """Note that nobody has yet to be told of this event; a repeat changes nothing."""
        ...

    async def nobody_listens(self, head: Head) -> None:
        """Let the task's next commits know that it has no config any more, unless one was put since `head` was read."""
        ...

    async def redrive(self, task: TaskKey, config_id: str) -> Delivery | None:
        """Let what was given up be posted again, and what was disabled go on; due at once. None where it is not there.

        Events after the first that was given up are posted again too, under the ids that they had.
        """
        ...

    # ── What is overdue ───────────────────────────────────────────────────────────────────────────────────────────────

    async def overdue(self, *, limit: int) -> Sequence[OverduePush]:
        """Return what is overdue, at most so much; it may lag behind.

        Of each owner the longest overdue first, and the owners by turns: one who has much does not hold up the others.
        """
        ...

    async def claim_overdue(self, overdue: OverduePush) -> bool:
        """Take it upon oneself to ring for it: True where it is still overdue, and nobody else has.

        It is due again soon, unless somebody settles it before.
        """
        ...
