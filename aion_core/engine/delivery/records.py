"""Records of the delivery to a webhook: its progress, and the claim of the process that delivers."""

from datetime import datetime

from msgspec import Struct

from aion_core.engine.push_config import PushConfig
from aion_core.table.keys import TaskKey


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
    overdue: float = 0.0
    """Seconds since it expired."""
