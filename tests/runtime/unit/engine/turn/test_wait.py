"""Rules of a suspended turn: how long it may wait, and when the next look is."""

from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from aion_core.engine.records import AwaitedCall, Wait
from aion_core.engine.turn.wait import new_wait, next_look, suspended_turn
from aion_core.errors import AgentFailed
from aion_core.table.times import moment
from tests.support.given import TIMES, turn

NOW, SECOND, MINUTE, HOUR = TIMES.now, 1000, 60_000, 3_600_000
CALLS = tuple(AwaitedCall(key, "weather", f"remote-{key}") for key in "ab")


def in_days(days: float) -> int:
    """Return the TTL of a task that expires in this number of days."""
    return NOW // 1000 + int(days * 86_400)


def test_wait_for_time_ends_at_that_time() -> None:
    wait = new_wait(turn(), "w", moment(NOW + HOUR), (), now=NOW, expires=in_days(30))
    assert wait == Wait("w", NOW, NOW + HOUR)


def test_wait_for_time_after_expiry_of_task_fails() -> None:
    with pytest.raises(AgentFailed, match="wants to wait until"):
        new_wait(turn(), "w", moment(NOW + 24 * HOUR), (), now=NOW, expires=in_days(1))
    new_wait(turn(), "w", moment(NOW + 24 * HOUR - 11 * MINUTE), (), now=NOW, expires=in_days(1))


@pytest.mark.parametrize(("days", "hours"), [(30, 24.0), (0.5, 12 - 1 / 6)])
def test_wait_for_agent_ends_after_day_and_before_expiry(days: float, hours: float) -> None:
    wait = new_wait(turn(), "w", None, CALLS, now=NOW, expires=in_days(days))
    assert (wait.until - NOW) / HOUR == pytest.approx(hours, abs=0.001)
    assert wait.calls == CALLS


def test_turn_that_suspends_again_continues_its_wait() -> None:
    before = Wait("w", NOW - HOUR, NOW + HOUR, CALLS)
    again = new_wait(turn(wait=before), "w", None, CALLS[:1], now=NOW, expires=in_days(30))
    assert again == replace(before, calls=CALLS[:1])
    other = new_wait(turn(wait=before), "v", None, CALLS[:1], now=NOW, expires=in_days(30))
    assert (other.since, other.until) == (NOW, NOW + 24 * HOUR)


def test_tries_begin_again_with_new_wait_only() -> None:
    wait = Wait("w", NOW, NOW + HOUR)
    assert suspended_turn(turn(tries=2), wait).tries == 0
    assert suspended_turn(turn(tries=2, wait=replace(wait, key="v")), wait).tries == 0
    assert suspended_turn(turn(tries=2, wait=wait), wait).tries == 2
    assert suspended_turn(turn(handoffs=3), wait) == turn(handoffs=3, wait=wait)


def test_looks_at_time_come_each_fifteen_minutes_and_then() -> None:
    wait = Wait("w", NOW, NOW + 40 * MINUTE)
    looks = [NOW]
    while looks[-1] < wait.until:
        looks.append(next_look(wait, looks[-1]))
    assert [(look - NOW) / MINUTE for look in looks] == [0, 15, 30, 40]


def test_looks_at_agent_come_within_half_of_time_waited() -> None:
    wait = Wait("w", NOW, NOW + 24 * HOUR, CALLS)
    looks = [NOW]
    while looks[-1] < NOW + 41 * MINUTE:
        looks.append(next_look(wait, looks[-1]))
    for before, after in pairwise(looks):
        assert after - before <= max((before - NOW) / 2, 5 * SECOND)
        assert after - before <= 5 * MINUTE
    assert len([look for look in looks if look < NOW + 40 * MINUTE]) <= 20


def test_last_look_comes_at_limit_of_wait() -> None:
    wait = Wait("w", NOW, NOW + HOUR, CALLS)
    assert next_look(wait, NOW + HOUR - SECOND) == NOW + HOUR
    assert next_look(wait, NOW + HOUR + SECOND) == NOW + HOUR + SECOND


def test_wait_of_two_days_is_possible() -> None:
    until = moment(NOW) + timedelta(days=2)
    assert new_wait(turn(), "w", until, (), now=NOW, expires=in_days(30)).until == NOW + 48 * HOUR
