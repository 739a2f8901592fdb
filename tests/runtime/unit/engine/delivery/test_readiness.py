"""Expired push timers of several owners, and which of them the sweep takes."""

from datetime import timedelta

from aion_core.engine.delivery import readiness
from aion_core.engine.delivery.records import ExpiredPushTimer
from aion_core.table.keys import TaskKey
from tests.support.clock import ManualClock
from tests.support.rows import each_row


@each_row(
    ("limit", "found"), [(0, []), (1, ["a1"]), (3, ["a1", "b1", "c1"]), (9, ["a1", "b1", "c1", "a2", "b2", "a3"])]
)
def test_expired_push_timers_alternate_between_owners(limit: int, found: list[str]) -> None:
    now = ManualClock().now()
    ages = {"a3": 1, "b2": 2, "a1": 9, "c1": 3, "b1": 8, "a2": 7}
    expired_timers = [
        ExpiredPushTimer(TaskKey(name[0], name), now - timedelta(seconds=age)) for name, age in ages.items()
    ]
    assert [each.task.task_id for each in readiness.by_turns(expired_timers, limit)] == found
