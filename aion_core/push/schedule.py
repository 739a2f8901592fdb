"""When a notification is tried again, when it is given up, and whose turn it is to be posted for. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from aion_core.ports import Delivery, ExpiredPushTimer, PostOutcome, WebhookRejected

RETRY_SECONDS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
"""How long after each try that failed the next one follows: 28 hours in all, as Standard Webhooks advises."""

JITTER = 0.2
"""By how much of it a delay may be longer: receivers that were down together are not called together."""

LONGEST_SECONDS = 86_400.0
"""Longer than a day nobody is waited for, whatever its Retry-After says."""


def delay(
    tries: int, outcome: PostOutcome, chance: float, *, retry_seconds: Sequence[float] = RETRY_SECONDS
) -> timedelta | None:
    """Return how long to wait after a try that failed, `tries` before it; None where it is given up.

    `chance` is from 0 to 1. A Retry-After is honoured where it asks for more patience than the schedule has.
    """
    if tries >= len(retry_seconds):
        return None
    seconds = retry_seconds[tries] * (1 + JITTER * chance)
    if isinstance(outcome, WebhookRejected) and outcome.retry_after is not None:
        seconds = max(seconds, min(outcome.retry_after, LONGEST_SECONDS))
    return timedelta(seconds=seconds)


def is_ready(delivery: Delivery, generation: int, now: datetime) -> bool:
    """Tell whether somebody should look after the config, of whose task event `generation` is the newest."""
    if delivery.disabled or is_claimed(delivery, now):
        return False
    if delivery.next_at is not None and delivery.next_at > now:
        return False
    # One that has passed everything may still be due: it was just registered, or whoever delivered has died.
    return delivery.cursor < generation or delivery.due_at is not None


def by_turns(found: Iterable[ExpiredPushTimer], limit: int) -> list[ExpiredPushTimer]:
    """Return so many of these: of each owner the longest overdue first, and the owners by turns."""
    before = Counter[str]()
    ranked = []
    for expired_timers in sorted(found, key=lambda expired_timers: expired_timers.at):
        ranked.append((before[expired_timers.task.owner], expired_timers))
        before[expired_timers.task.owner] += 1
    return [expired_timers for _, expired_timers in sorted(ranked, key=lambda pair: pair[0])[:limit]]


def is_claimed(delivery: Delivery, now: datetime) -> bool:
    """Tell whether somebody posts for the config."""
    return delivery.claimed_until is not None and delivery.claimed_until > now


def takes_care_of(delivery: Delivery, generation: int) -> bool:
    """Tell whether the event need not be remembered for the sake of this config.

    It has passed it, or never will; or it is due itself, and whoever claims it then reads the log then.
    """
    if delivery.disabled or delivery.cursor >= generation:
        return True
    return delivery.due_at is not None and delivery.claimed_until is None
