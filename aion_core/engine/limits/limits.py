"""Limits of each caller (`CallContext.caller`): requests per minute, open streams and open tasks."""

from datetime import datetime
from typing import Self

from msgspec import Struct

from aion_core.table.keys import TaskKey

REQUESTS_PER_MINUTE = 1200
"""Default limit of a caller's requests per minute. It is lower than the rate that API Gateway allows all callers."""

STREAMS_PER_OWNER = 50
"""Default limit of a caller's open streams and blocking sends. It is a part of an AWS account's Lambda concurrency."""


class Limits(Struct, frozen=True):
    """Limits of a deployment for each caller. None means no limit.

    The fields have the names of the settings in aion.yaml, which call the caller `owner`.
    """

    requests_per_minute: int | None = None
    streams_per_owner: int | None = None
    streams_per_task: int | None = None
    open_tasks_per_owner: int | None = None

    @classmethod
    def default(cls) -> Self:
        """Return the limits of a deployment that authenticates its callers but sets no limits in aion.yaml."""
        return cls(requests_per_minute=REQUESTS_PER_MINUTE, streams_per_owner=STREAMS_PER_OWNER)

    @property
    def of_streams(self) -> bool:
        """True if a limit on open streams, per caller or per task, is configured."""
        return self.streams_per_owner is not None or self.streams_per_task is not None


def limits_in_force(declared: Limits | None, *, is_authenticated: bool) -> Limits | None:
    """Return the limits of a deployment: those of aion.yaml, or else the default limits; None for no limits.

    Without authentication no default limits apply, because then all callers would share the limits of one owner.
    """
    if declared is not None:
        return declared
    return Limits.default() if is_authenticated else None


class OpenStream(Struct, frozen=True):
    """An open stream or blocking send of a caller, counted because it occupies a Lambda execution environment."""

    id: str
    task_id: str
    """The task of the stream; "" if the stream creates it."""
    until: datetime
    """Time from which the stream is no longer counted, in case its process dies without `close_stream`."""


class OpenTask(Struct, frozen=True):
    """A task in the count of its caller's open tasks (`RateLimits.count_task`)."""

    key: TaskKey
    since: datetime
    """The time at which the task was counted, to the millisecond."""
