"""Count of a caller's requests per minute: a bucket of tokens in one item. Pure."""

import math
from datetime import UTC, datetime, timedelta

from aion_core.table.conditions import Absent, AtMost, Either
from aion_core.table.item import Item
from aion_core.table.stamp import stamp
from aion_core.table.writes import Change

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MINUTE = 60_000_000
"""A minute in microseconds. Milliseconds would be too coarse for the time between two tokens with a high limit."""


def takes(caller: str, now: datetime, per_minute: int) -> tuple[Change, Change]:
    """Return two changes to take a token, for a full bucket and for a partly used one. At most one of them succeeds."""
    at, step = _microseconds(now), _step(per_minute)
    expires = at // 1_000_000 + 120
    return (
        Change(
            values={"full_at": at + step, **stamp(caller, expires)},
            only_if=Either((Absent("full_at"), AtMost("full_at", at))),
        ),
        Change(values={"expires": expires}, add={"full_at": step}, only_if=AtMost("full_at", at + MINUTE - step)),
    )


def seconds_until_token(item: Item | None, now: datetime, per_minute: int) -> float:
    """Return the seconds until the bucket in this item has a token; 0 or less if it has a token now."""
    if item is None:
        return 0.0
    over: int = item["full_at"] + _step(per_minute) - MINUTE - _microseconds(now)
    return over / 1_000_000


def _step(per_minute: int) -> int:
    """Return the microseconds between two new tokens, for a limit of `per_minute` requests."""
    return math.ceil(MINUTE / per_minute)


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
