"""Conditions on the record of a context. Pure."""

from aion_core.engine.context.record import ContextRecord
from aion_core.engine.records import Lease
from aion_core.table.conditions import Absent, AtMost, Both, Condition, Either, Equals, Exists, NotEmpty, ShorterThan
from aion_core.table.times import Times

MAX_WAITING = 20
"""Maximum number of turns in the queue of one context."""

NOTHING_RUNS = Absent("running")
NO_INPUT_REQUIRED = Absent("interrupted")
NOTHING_WAITS = ShorterThan("waiting", 1)
HAS_ROOM = ShorterThan("waiting", MAX_WAITING)
IS_BUSY = Either((Exists("running"), NotEmpty("waiting")))
MAY_WAIT = Both((HAS_ROOM, NO_INPUT_REQUIRED))
MAY_WAIT_BEHIND_OTHERS = Both((HAS_ROOM, NO_INPUT_REQUIRED, IS_BUSY))
MAY_WAIT_ALONE = Both((NOTHING_RUNS, NO_INPUT_REQUIRED, NOTHING_WAITS))


def fence_is(fence: int) -> Condition:
    """Return the condition that the context's newest lease has this fence."""
    return Equals("fence", fence)


def is_mine(lease: Lease) -> Condition:
    """Return the condition that this holder still has this lease."""
    return Both((fence_is(lease.fence), Equals("holder", lease.holder)))


def queue_as_read(record: ContextRecord) -> Condition:
    """Return the condition that the queue of waiting turns has not changed since the record was read."""
    # Expect no `queue_version` for version 0: the item of a context that has never queued a turn lacks this attribute.
    return Equals("queue_version", record.queue_version) if record.queue_version else Absent("queue_version")


def has_expired(record: ContextRecord, times: Times) -> Condition:
    """Return the condition that the TTL of the context has passed, and its newest lease is that of the record."""
    return Both((fence_is(record.fence), AtMost("expires", times.seconds)))
