"""Readiness of deliveries: which a process should claim now, in a fair order of owners. Pure."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from aion_core.engine.delivery.records import Delivery, ExpiredPushTimer
from aion_core.table.keys import PushTimerOf

CLAIM_SECONDS = 60.0
"""Duration of a claim if it is not renewed: three times the time limit of a post."""

WAKE_UP_SECONDS = 30.0
"""Time from the arrival of a wake-up message for a push config until the config's timer expires."""


def is_ready(delivery: Delivery, generation: int, now: datetime) -> bool:
    """Return True if a process should claim the delivery now. `generation` is the number of the task's newest event."""
    if delivery.disabled or is_claimed(delivery, now):
        return False
    if delivery.next_at is not None and delivery.next_at > now:
        return False
    # Claim a delivery with a timer even if every event is delivered: a registration sets a timer, and a process that
    # dies after its claim leaves a timer.
    return delivery.cursor < generation or delivery.due_at is not None


def by_turns(found: Iterable[ExpiredPushTimer], limit: int) -> list[ExpiredPushTimer]:
    """Return at most `limit` expired timers: first the longest overdue one of each owner, then the second of each."""
    before = Counter[str]()
    ranked = []
    for timer in sorted(found, key=lambda timer: timer.at):
        ranked.append((before[timer.task.owner], timer))
        before[timer.task.owner] += 1
    return [timer for _, timer in sorted(ranked, key=lambda pair: pair[0])[:limit]]


def timer_kind(delivery: Delivery) -> PushTimerOf:
    """Return the kind of the delivery's timer: WAIT if it has a wake-up message, which arrives before it expires."""
    is_plan = delivery.claimed_until is not None or delivery.due_at == delivery.next_at
    return PushTimerOf.PLAN if is_plan else PushTimerOf.WAIT


def is_claimed(delivery: Delivery, now: datetime) -> bool:
    """Return True if a process has a valid claim on the delivery at the time `now`."""
    return delivery.claimed_until is not None and delivery.claimed_until > now


def covers(delivery: Delivery, generation: int) -> bool:
    """Return True if the event's timer is not needed for this delivery of the event `generation`.

    The delivery has passed the event, or is disabled, or has its own timer and no claim. In the last case, the process
    that claims the delivery later reads the event from the log.
    """
    if delivery.disabled or delivery.cursor >= generation:
        return True
    return delivery.due_at is not None and delivery.claimed_until is None
