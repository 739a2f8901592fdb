"""Until when: how long what is written is kept, and when what is promised now is overdue. DynamoDB counts seconds, we milliseconds."""

from datetime import timedelta

from aion_core.aws import items
from aion_core.aws.items import Item
from aion_core.ports import Clock
from aion_core.tasks.contexts import CLAIM_TERMS


class Retention:
    """How long one deployment keeps what it writes, by its clock."""

    def __init__(self, clock: Clock, retention: timedelta) -> None:
        self._clock, self._retention = clock, retention

    def now(self) -> int:
        """Return what has expired now, in seconds: what says this, or less."""
        return self.ends(timedelta())

    def ends(self, life: timedelta) -> int:
        """Return when what is written now expires after such a life, in seconds."""
        return int((self._clock.now() + life).timestamp())

    def kept_until(self) -> int:
        """Return when what is written now, and kept like a task, expires, in seconds."""
        return self.ends(self._retention)

    def keeping(self) -> Item:
        """Return what every item has: the version of its shape, and until when it is kept."""
        return {"v": items.number(items.VERSION), "expires": items.number(self.kept_until())}


class Terms(Retention):
    """Its leases too: until when what is promised may take."""

    def __init__(self, clock: Clock, *, lease_seconds: float, retention: timedelta) -> None:
        super().__init__(clock, retention)
        self._lease = int(lease_seconds * 1000)

    def lease_until(self) -> int:
        """Return when a lease that is taken now runs out, in milliseconds; a bell that is rung now has had its time then."""
        return items.milliseconds(self._clock.now()) + self._lease

    def claimed_until(self) -> int:
        """Return until when who takes it upon oneself to ring now is left alone with it, in milliseconds."""
        return self.lease_until() + self._lease * (CLAIM_TERMS - 1)
