"""End of a turn that waits, with an agent of any framework. Pure."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from aion_core.engine.agent import Suspended
from aion_core.engine.records import AwaitedCall


def suspended(waits: Iterable[str], times: Sequence[datetime], calls: Sequence[AwaitedCall]) -> Suspended:
    """Return the end of a turn that waits, and asks nothing. The turn resumes when the first of the waits is over.

    `waits` has their ids, in any order: a turn that suspends again with the same ids has only come back to its waits.
    """
    until = min(times, default=None)
    what = [f"for {name}" for name in dict.fromkeys(call.agent or call.remote for call in calls)]
    what += [f"until {until:%Y-%m-%d %H:%M:%S} UTC"] if until is not None else []
    key = hashlib.sha256(" ".join(sorted(waits)).encode()).hexdigest()[:32]
    return Suspended(key, f"Waiting {' and '.join(what)}.", until, calls)
