"""Circuit breaker of webhook delivery: it skips attempts to slow receivers, so that they do not delay others."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from aion_core.engine.delivery.records import Delivery
from aion_core.push.circuit_breaker import FAILURES_TO_OPEN, MAX_RECEIVERS, OPEN_SECONDS, SLOW_SECONDS, CircuitBreaker
from aion_core.push.client import Blocked, Delivered, PostOutcome, PostRefused, Unreachable, WebhookGone
from tests.runtime.unit.push.pushing import Pushing, ids
from tests.support.receiver import Behaviour, ReceivedPost, receiving
from tests.support.rows import each_row

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOOK = "https://Hooks.example.org/a?b"
SILENT = Unreachable("no answer in time")


def waits_for_nothing(breaker: CircuitBreaker, times: int, *, owner: str = "ann", url: str = HOOK) -> None:
    for _ in range(times):
        breaker.record(owner, url, SILENT, 20.0, NOW)


def test_slow_failures_of_webhook_open_circuit_of_host_temporarily() -> None:
    """The open circuit skips attempts for all paths of the host; after a while it allows one probe."""
    breaker = CircuitBreaker()
    waits_for_nothing(breaker, FAILURES_TO_OPEN - 1)
    assert not breaker.is_open("ann", HOOK, NOW)
    waits_for_nothing(breaker, 1)
    assert breaker.is_open("ann", "https://hooks.example.org/another", NOW)
    later = NOW + timedelta(seconds=OPEN_SECONDS)
    assert [breaker.is_open("ann", HOOK, later) for _ in range(3)] == [False, True, True]
    breaker.record("ann", HOOK, Delivered(), 0.1, later)
    assert not breaker.is_open("ann", HOOK, later)


@pytest.mark.parametrize(
    ("owner", "url"),
    [("bob", HOOK), ("ann", "https://other.example.org/a?b"), ("ann", "https://hooks.example.org:8443/a?b")],
)
def test_circuit_of_other_receivers_stays_closed(owner: str, url: str) -> None:
    """A circuit belongs to one owner, host and port: others are not affected."""
    breaker = CircuitBreaker()
    waits_for_nothing(breaker, FAILURES_TO_OPEN)
    assert not breaker.is_open(owner, url, NOW)


@each_row(
    ("outcome", "seconds"),
    [(Delivered(), 19.0), (WebhookGone(), 19.0), (PostRefused(500), 0.1), (Unreachable("no connection"), SLOW_SECONDS - 0.1), (Blocked("why"), 0.0)],
)  # fmt: skip
def test_success_or_fast_failure_resets_circuit_breaker(outcome: PostOutcome, seconds: float) -> None:
    breaker = CircuitBreaker()
    waits_for_nothing(breaker, FAILURES_TO_OPEN - 1)
    breaker.record("ann", HOOK, outcome, seconds, NOW)
    waits_for_nothing(breaker, FAILURES_TO_OPEN - 1)
    assert not breaker.is_open("ann", HOOK, NOW)


def test_number_of_remembered_circuits_is_bounded() -> None:
    breaker = CircuitBreaker()
    for number in range(3 * MAX_RECEIVERS):
        waits_for_nothing(breaker, 1, url=f"https://h{number}.example.org/")
    assert len(breaker._circuits) == MAX_RECEIVERS


def hangs(pushing: list[Pushing], seconds: float = 20.0) -> Behaviour:
    """Return a behaviour that never answers, and meanwhile moves the service's clock."""

    async def behave(_: ReceivedPost, __: asyncio.StreamReader, ___: asyncio.StreamWriter) -> None:
        pushing[0].clock.move(seconds)

    return behave


def tried_again(tries: int, delivery: Delivery) -> bool:
    return delivery.tries > tries or delivery.cursor == 3


async def test_last_delivery_attempt_ignores_open_circuit() -> None:
    """The open circuit skips only earlier attempts: without its last one, an event would be given up unsent."""
    made: list[Pushing] = []
    async with receiving(hangs(made)) as hung:
        pushing = Pushing()
        made.append(pushing)
        task = await pushing.send({"id": "p", "url": hung.url()}, "first")
        # Wait for one or more attempts, because each post moves the clock and may make the next attempt expire.
        state = await pushing.rests(task, lambda delivery: delivery.tries >= 1)
        while state.next_at is not None:
            for number in range(FAILURES_TO_OPEN):
                more = await pushing.send({"id": "p", "url": hung.url()}, f"{state.tries}-{number}")
                await pushing.rests(more, lambda delivery: delivery.tries >= 1)
            before, tries = len(hung.posts), state.tries
            pushing.clock._now = max(pushing.clock.now(), state.next_at)
            await pushing.later(0, task)
            state = await pushing.rests(task, partial(tried_again, tries))
    assert (state.cursor, state.dead, state.dead_from) == (3, 2, 2)
    assert [id_ for id_ in hung.ids[before:] if id_.startswith(task["id"])] == ids(task, 2, 3)
