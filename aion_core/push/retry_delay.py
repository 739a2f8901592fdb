"""Delay before the next attempt to deliver an event to a webhook. Pure."""

from collections.abc import Sequence
from datetime import timedelta

from aion_core.push.client import PostOutcome, PostRefused

RETRY_SECONDS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)
"""Seconds to wait after each failed attempt: 28 hours in all, as Standard Webhooks advises."""

JITTER = 0.2
"""Largest random extension of a delay, as a fraction, so that receivers that failed together do not retry together."""

LONGEST_SECONDS = 86_400.0
"""Longest wait because of a Retry-After header: a day."""


def delay(
    tries: int, outcome: PostOutcome, chance: float, *, retry_seconds: Sequence[float] = RETRY_SECONDS
) -> timedelta | None:
    """Return the delay after a failed post, with `tries` failures before it; None to give the event up.

    `chance` is a random number from 0 to 1 for the jitter. If Retry-After is longer than the scheduled delay, it is
    used.
    """
    if tries >= len(retry_seconds):
        return None
    seconds = retry_seconds[tries] * (1 + JITTER * chance)
    if isinstance(outcome, PostRefused) and outcome.retry_after is not None:
        seconds = max(seconds, min(outcome.retry_after, LONGEST_SECONDS))
    return timedelta(seconds=seconds)
