"""TTL of items: the time in seconds at which an item expires."""

from datetime import timedelta

from aion_core.ports import Clock
from aion_core.ports.schema import ENDS
from aion_core.ports.table import Item
from aion_core.tasks.contexts import VERSION


class Ttl:
    """The retention of one deployment, at this clock's time."""

    def __init__(self, clock: Clock, retention: timedelta = timedelta()) -> None:
        self._clock, self._retention = clock, retention

    def now(self) -> int:
        """Return the time: an item has expired if its TTL is at most this."""
        return self.after(timedelta())

    def after(self, life: timedelta) -> int:
        """Return the TTL of an item that is written now and lives that long."""
        return int((self._clock.now() + life).timestamp())

    def end(self, retentions: float = 1) -> int:
        """Return the TTL of an item that is written now and is kept for one retention, or for so many."""
        return self.after(retentions * self._retention)

    def attributes(self, retentions: float = 1) -> Item:
        """Return the attributes that every item with a TTL has: its version and its TTL."""
        return {"v": VERSION, ENDS: self.end(retentions)}
