"""Times of one write: now, the end of a lease, and the TTL of an item. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Self

from msgspec import Struct

from aion_core.clock import Clock
from aion_core.table.item import Item
from aion_core.table.stamp import stamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Times(Struct, frozen=True):
    """Current time, lease term (time to expiry) and retention for one write attempt. The clock is read only once."""

    now: int
    """Current time in milliseconds since 1970."""
    lease: int
    """Term of a lease in milliseconds."""
    retention: int
    """Seconds to the TTL of an item written now."""

    @classmethod
    def read(cls, clock: Clock, lease_seconds: float, retention: timedelta = timedelta()) -> Self:
        """Return the times for an attempt that begins now."""
        return cls(milliseconds(clock.now()), int(lease_seconds * 1000), int(retention.total_seconds()))

    @property
    def seconds(self) -> int:
        """Return the current time in seconds. An item has expired if its TTL is not greater."""
        return self.now // 1000

    @property
    def expires(self) -> int:
        """Return the TTL of an item written now, in seconds."""
        return self.seconds + self.retention

    @property
    def lease_until(self) -> int:
        """Return the end of a lease acquired now. Claims and wake-up messages set their timers to the same time."""
        return self.now + self.lease

    def stamp(self, owner: str) -> Item:
        """Return the attributes that every item has, for an owner's item written now."""
        return stamp(owner, self.expires)


def milliseconds(at: datetime) -> int:
    """Return the time as whole milliseconds since 1970, rounded down."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def moment(since_1970: int) -> datetime:
    """Return the datetime in UTC of these milliseconds since 1970."""
    return datetime.fromtimestamp(since_1970 / 1000, UTC)
