"""What is posted to a webhook, by what it is posted, and how the receiver answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from aion_core.ports.push import PushConfig
from aion_core.ports.tasks import TaskKey
from aion_core.protocol.types import Event, Task

POST_SECONDS = 20.0
"""How long a post takes at the most, all in all."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One event for one config: the same at each of its tries."""

    id: str
    """What a receiver tells repeats by: of this task, event and config, and of no other."""
    task: TaskKey
    generation: int
    event: Event
    snapshot: Task | None = None
    """The task with this event, for a config of version 0.3, whose receivers expect a task; None for others."""


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """What is posted: headers and body. Both may hold what is secret, and are in no repr."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Render(Protocol):
    """Makes the request of a notification; pure."""

    def __call__(self, config: PushConfig, notification: Notification, *, at: datetime) -> WebhookRequest:
        """Return what is posted at this time: only the timestamp, and so the signature, differ from try to try."""
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it (2xx)."""


@dataclass(frozen=True, slots=True)
class WebhookGone:
    """The receiver wants nothing more at this URL (410)."""


@dataclass(frozen=True, slots=True)
class PostRefused:
    """The receiver answered otherwise: a redirect, which is not followed, is such an answer too."""

    status: int
    retry_after: float | None = None
    """In so many seconds it wants to be asked again; None where it does not say."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer came: no connection, no valid certificate, or no end of the headers in time."""

    reason: str
    """A few words that name no secret."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The guard lets nobody call this address, as it is just now: nothing was sent."""

    reason: str


PostOutcome = Delivered | WebhookGone | PostRefused | Unreachable | Blocked


class WebhookClient(Protocol):
    """Posts to an address that a client has chosen, and so may be anybody's."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostOutcome:
        """Post once, check the address first, follow nothing, and come back within POST_SECONDS; it never raises."""
        ...
