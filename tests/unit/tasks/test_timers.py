"""Timers: when each is claimed, and what its item holds then."""

import pytest

from aion_core.ports.table import Change, Equals, Item
from aion_core.tasks import timers
from tests.unit.tasks.given import TIMES, accepted_in, made


def test_expired_timer_is_set_anew() -> None:
    item = {"due_at": TIMES.now, "due_shard": "s"}
    change = timers.claimed(item, TIMES, is_alive=True)
    assert change == Change({"due_at": TIMES.claimed_until}, only_if=Equals("due_at", TIMES.now))


def test_expired_timer_of_expired_item_is_removed() -> None:
    item = {"due_at": TIMES.now, "due_shard": "s", "fence": 3}
    change = timers.claimed(item, TIMES, is_alive=False)
    assert change is not None
    assert accepted_in(change, {"as read": item, "set anew": {"due_at": TIMES.now + 1}, "gone": None}) == {"as read"}
    assert made(change, item) == {"fence": 3}


@pytest.mark.parametrize("item", [None, {}, {"due_at": TIMES.now + 1}], ids=["absent", "no timer", "in force"])
@pytest.mark.parametrize("is_alive", [True, False])
def test_timer_in_force_is_not_claimed(item: Item | None, is_alive: bool) -> None:
    assert timers.claimed(item, TIMES, is_alive=is_alive) is None
