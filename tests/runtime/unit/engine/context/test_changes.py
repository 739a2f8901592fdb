"""Changes of a context: the states that allow each, and the item after it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.engine import timers
from aion_core.engine.context import changes, conditions
from aion_core.engine.context.record import ContextRecord, record_of, task_of, turn_of, turn_to_begin, turn_value
from aion_core.engine.outcomes import LeaseHeld, TurnSuspended
from aion_core.engine.records import AwaitedCall, StoppedBy, Wait
from aion_core.errors import StoreCorrupt
from aion_core.table import keys, times
from aion_core.table.conditions import Equals
from aion_core.table.item import Item
from aion_core.table.keys import TaskKey, TimerOf
from aion_core.table.schema import VERSION
from aion_core.table.times import Times
from aion_core.table.writes import Change, Update
from tests.support.clock import ManualClock
from tests.support.given import (
    AT,
    CONTEXT,
    EXPIRED,
    EXPIRES,
    LEASE_UNTIL,
    LIVING,
    SECONDS,
    TIMES,
    TTL,
    Items,
    accepted_in,
    lease,
    made,
    needless,
    turn,
)
from tests.support.rows import each_row

UNTIL = 1_900_000_010_000
T1, T2, T3 = (
    {"id": f"u-{n}", "task_id": f"t-{n}", "message_generation": 1, "tries": 0, "handoffs": 0} for n in (1, 2, 3)
)
WAIT, LEASE = ({"due_shard": kind} for kind in (TimerOf.WAIT, TimerOf.LEASE))
WAITED = {"due_at": LEASE_UNTIL, **WAIT}
"""Timer of a turn that begins to wait."""
MINE = {"holder": "me", "until": UNTIL, "running": T1, "due_at": UNTIL, **LEASE}
FULL = [{**T3, "id": f"w-{n}"} for n in range(20)]


def context(**more: Any) -> Item:
    """Return an unexpired context of fence 3 after two changes of its queue; None removes an attribute."""
    item = {"v": VERSION, "fence": 3, "queue_version": 2, "expires": LIVING, **more}
    return {name: value for name, value in item.items() if value is not None}


STATES: Items = {
    "absent": None,
    "free": context(),
    "free, empty queue": context(waiting=[]),
    "free, fence 4": context(fence=4),
    "free, fence 4, until as read": context(fence=4, until=UNTIL),
    "free, queue changed": context(queue_version=3),
    "free, queue never used": context(queue_version=None),
    "runs": context(**MINE),
    "runs, renewed": context(**MINE | {"until": UNTIL + 1}),
    "runs, another holder": context(**MINE | {"holder": "another"}),
    "runs, fence 4": context(fence=4, **MINE),
    "runs, fence 4, another holder": context(fence=4, **MINE | {"holder": "another"}),
    "runs, queue never used": context(queue_version=None, **MINE),
    "runs, one waits": context(waiting=[T2], **MINE),
    "runs, one waits, fence 4": context(fence=4, waiting=[T2], **MINE),
    "runs, one waits, queue changed": context(queue_version=3, waiting=[T2], **MINE),
    "runs, 19 wait": context(queue_version=3, waiting=FULL[1:], **MINE),
    "runs, full": context(waiting=FULL, **MINE),
    "suspended": context(until=0, running=T1),
    "waits": context(waiting=[T2, T3]),
    "waits, fence 4": context(fence=4, waiting=[T2]),
    "waits, queue changed": context(queue_version=3, waiting=[T2, T3, T1]),
    "full": context(waiting=FULL),
    "asks": context(interrupted="t-1"),
    "asks, fence 4": context(fence=4, interrupted="t-1"),
    "asks, one waits": context(interrupted="t-1", waiting=[T2]),
    "asks, full": context(interrupted="t-1", waiting=FULL),
    "asks, runs": context(interrupted="t-1", **MINE),
    "asks, queue changed": context(queue_version=3, interrupted="t-1"),
    "asks, queue never used": context(queue_version=None, interrupted="t-1"),
    "another asks": context(interrupted="t-9"),
    "expired": context(expires=EXPIRED, interrupted="t-9", waiting=[T3], **MINE),
    "expired, fence 4": context(fence=4, expires=EXPIRED, interrupted="t-1", waiting=[T3], **MINE),
}


def read(state: str) -> ContextRecord:
    return record_of(STATES[state], SECONDS)


OF_FENCE_3 = {name for name, item in STATES.items() if item is not None and item["fence"] == 3}
OF_QUEUE_VERSION_2 = {name for name in OF_FENCE_3 if (STATES[name] or {}).get("queue_version") == 2}
EMPTY = {"free", "free, empty queue", "free, queue changed", "free, queue never used"}
FREE = EMPTY | {"free, fence 4", "free, fence 4, until as read"}
IDLE = FREE | {"waits", "waits, fence 4", "waits, queue changed"}
MINE_NOW = {name for name in OF_FENCE_3 if (STATES[name] or {}).get("holder") == "me"}
NEXT = turn(2)

CHANGES: dict[str, tuple[Callable[[], Change], set[str]]] = {
    "acquire new": (lambda: changes.acquired(lease(), ContextRecord(), TIMES), {"absent"}),
    "acquire free": (lambda: changes.acquired(lease(), read("free"), TIMES), EMPTY),
    "acquire expired": (lambda: changes.acquired(lease(), read("expired"), TIMES), {"expired"}),
    "acquire for input": (lambda: changes.acquired_for_input(lease(), read("asks"), TIMES), {
        "asks", "asks, one waits", "asks, full", "asks, queue changed",
        "asks, queue never used",
    }),
    "acquire next": (lambda: changes.acquired_next(lease(2), read("waits"), TIMES), {
        "free", "free, empty queue", "waits", "full",
    }),
    "acquire next, first queue": (
        lambda: changes.acquired_next(lease(2), replace(read("waits"), queue_version=0), TIMES),
        {"free, queue never used"},
    ),
    "acquire abandoned": (lambda: changes.acquired_abandoned(lease(), read("runs"), TIMES), {
        "runs", "runs, another holder", "runs, one waits", "runs, one waits, queue changed", "runs, full",
        "runs, queue never used", "runs, 19 wait", "asks, runs", "expired",
    }),
    "acquire interrupting": (lambda: changes.acquired_interrupting(lease(), read("runs"), TIMES), OF_FENCE_3),
    "renew": (lambda: changes.renewed(lease(), TIMES), MINE_NOW),
    "advance": (lambda: changes.advanced(3), OF_FENCE_3),
    "queue": (lambda: changes.queued(CONTEXT.owner, NEXT, conditions.MAY_WAIT, TIMES), {"absent", *IDLE} | {
        "runs", "runs, renewed", "runs, another holder", "runs, fence 4", "runs, fence 4, another holder",
        "runs, one waits", "runs, one waits, fence 4", "runs, one waits, queue changed", "runs, queue never used", "runs, 19 wait", "suspended",
    }),
    "queue behind others": (lambda: changes.queued(CONTEXT.owner, NEXT, conditions.MAY_WAIT_BEHIND_OTHERS, TIMES), {
        "runs", "runs, renewed", "runs, another holder", "runs, fence 4", "runs, fence 4, another holder",
        "runs, one waits", "runs, one waits, fence 4", "runs, one waits, queue changed", "runs, queue never used", "runs, 19 wait", "suspended",
        "waits", "waits, fence 4", "waits, queue changed",
    }),
    "queue alone": (lambda: changes.queued(CONTEXT.owner, NEXT, conditions.MAY_WAIT_ALONE, TIMES), {"absent", *FREE}),
    "queue for input": (lambda: changes.queued(CONTEXT.owner, NEXT, conditions.HAS_ROOM, TIMES, timer=False), {
        name for name, item in STATES.items() if len((item or {}).get("waiting", [])) < 20
    }),
    "queue anew": (lambda: changes.queued_anew(CONTEXT.owner, NEXT, read("expired"), TIMES), {"expired"}),
    "queue first, answer": (lambda: changes.queued_first(turn(), read("asks"), 4, TIMES, answers=True), {
        "asks", "asks, one waits", "asks, full",
    }),
    "queue first, interrupting": (lambda: changes.queued_first(turn(), read("runs, one waits"), 4, TIMES, answers=False), {
        "runs", "runs, renewed", "runs, another holder", "runs, one waits", "runs, full", "suspended", "asks, runs",
        "expired",
    }),
    "release": (lambda: changes.released(lease()), {
        name for name in OF_FENCE_3 if not (STATES[name] or {}).get("waiting")
    }),
    "release for input": (lambda: changes.released_for_input(lease()), OF_FENCE_3),
    "leave": (lambda: changes.released_for_next(read("runs, one waits"), TIMES), OF_QUEUE_VERSION_2),
    "transfer": (lambda: changes.transferred(lease(2, fence=4), read("runs, one waits"), TIMES), OF_QUEUE_VERSION_2),
    "suspend": (lambda: changes.suspended(lease(), turn(handoffs=1), TIMES), MINE_NOW),
    "remove": (lambda: changes.removed("t-1", read("runs"), 4, TIMES), OF_QUEUE_VERSION_2),
}  # fmt: skip
"""Functions that return each change, and the names of the states that meet its condition."""


@each_row("name", CHANGES)
def test_context_update_is_accepted_only_in_expected_states(name: str) -> None:
    change, states = CHANGES[name]
    assert accepted_in(change(), STATES) == states


@each_row("name", CHANGES)
def test_no_part_of_context_update_condition_is_redundant(name: str) -> None:
    change, _ = CHANGES[name]
    assert needless(change().only_if, STATES) == []


def leased(number: int = 1, fence: int = 3) -> Item:
    """Return the attributes of a context whose lease is acquired now."""
    running = turn_value(turn(number))
    return {"fence": fence, "holder": "me", "until": LEASE_UNTIL, "due_at": LEASE_UNTIL, "running": running, **LEASE}


KEPT = {"v": VERSION, "expires": LIVING}
LEFT: dict[str, tuple[str, Item]] = {
    "acquire new": ("absent", {**leased(), **TTL}),
    "acquire free": ("free", {**leased(), **TTL, "queue_version": 2}),
    "acquire expired": ("expired", {**leased(), **TTL, "queue_version": 2}),
    "acquire for input": (
        "asks, one waits",
        {**leased(), "v": VERSION, "queue_version": 2, "expires": EXPIRES, "waiting": [T2]},
    ),
    "acquire next": ("waits", {**leased(2), **KEPT, "queue_version": 3, "waiting": [T3]}),
    "acquire abandoned": ("runs, another holder", {**leased(), **KEPT, "queue_version": 2}),
    "acquire interrupting": (
        "runs, one waits",
        {**leased(), "v": VERSION, "queue_version": 2, "expires": EXPIRES, "waiting": [T2]},
    ),
    "renew": ("runs", context(**MINE | {"until": LEASE_UNTIL, "due_at": LEASE_UNTIL}, expires=EXPIRES)),
    "advance": ("runs", context(**MINE, advanced=3)),
    "queue": ("absent", {**TTL, "fence": 0, "queue_version": 1, **WAITED, "waiting": [T2]}),
    "queue behind others": ("runs, one waits", context(**MINE, **TTL, queue_version=3, waiting=[T2, T2])),
    "queue alone": ("free", context(**TTL, queue_version=3, waiting=[T2], **WAITED)),
    "queue for input": ("asks", context(**TTL, queue_version=3, waiting=[T2], interrupted="t-1")),
    "queue anew": ("expired", {**TTL, "fence": 3, "queue_version": 3, "waiting": [T2], **WAITED}),
    "queue first, answer": (
        "asks",
        context(fence=4, queue_version=3, waiting=[T1], **WAITED, expires=EXPIRES),
    ),
    "queue first, interrupting": (
        "runs, one waits",
        context(fence=4, queue_version=3, waiting=[T1, T2], **WAITED, expires=EXPIRES),
    ),
    "release": ("runs", context()),
    "release for input": ("runs, one waits", context(waiting=[T2], interrupted="t-1")),
    "leave": ("runs, one waits", context(waiting=[T2], **WAITED)),
    "transfer": ("runs, one waits", {**leased(2, fence=4), **KEPT, "queue_version": 3, "waiting": []}),
    "suspend": (
        "runs",
        context(until=0, running={**T1, "handoffs": 1}, **WAITED, expires=EXPIRES),
    ),
    "remove": ("runs", context(fence=4, queue_version=3, waiting=[])),
}
"""For each change, a state before it and the item after it."""


@each_row("name", LEFT)
def test_context_update_produces_expected_item(name: str) -> None:
    state, item = LEFT[name]
    assert made(CHANGES[name][0](), STATES[state]) == item


# ── Removal of a task's turns ─────────────────────────────────────────────────────────────────────────────────────────

RUNS_1: Item = {"running": T1, "holder": "me", "until": UNTIL}
TIMER = {"due_at": UNTIL, **LEASE}


@each_row(
    ("before", "after"),
    [
        (context(**RUNS_1, **TIMER, waiting=[T2]), context(waiting=[T2], **WAITED)),
        (context(**RUNS_1, **TIMER, waiting=[{**T1, "id": "u-9"}, T2]), context(waiting=[T2], **WAITED)),
        (context(**RUNS_1, **TIMER, waiting=[{**T1, "id": "u-9"}]), context(waiting=[])),
        (context(**TIMER, waiting=[T1]), context(waiting=[])),
        (context(**TIMER, waiting=[T2, T1, T3]), context(waiting=[T2, T3], **WAITED)),
        (context(interrupted="t-1", waiting=[T2]), context(waiting=[T2], **WAITED)),
        (context(interrupted="t-1"), context(waiting=[])),
        (context(interrupted="t-9", waiting=[T1, T2]), context(interrupted="t-9", waiting=[T2])),
        (context(interrupted="t-9", waiting=[T1]), context(interrupted="t-9", waiting=[])),
        (
            context(**RUNS_1 | {"running": T3}, **TIMER, waiting=[T1, T2]),
            context(**RUNS_1 | {"running": T3}, **TIMER, waiting=[T2]),
        ),
        (
            context(**RUNS_1 | {"running": T3}, **TIMER, waiting=[T1]),
            context(**RUNS_1 | {"running": T3}, **TIMER, waiting=[]),
        ),
    ],
)
def test_removal_of_tasks_turns_keeps_turns_of_other_tasks(before: Item, after: Item) -> None:
    """Cancel a task: the context's timer stays for a running turn, is set for a queued one, else is removed."""
    change = changes.removed("t-1", record_of(before, SECONDS), 5, TIMES)
    assert made(change, before) == {**after, "fence": 5, "queue_version": 3}


# ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_context_record_has_all_item_attributes() -> None:
    waiting = {"id": "u-2", "task_id": "t-2", "message_generation": 0, "tries": 2, "handoffs": 0}
    item = context(
        **MINE | {"running": {**T1, "tries": 3, "handoffs": 4}}, waiting=[waiting], interrupted="t-9", advanced=2
    )
    assert record_of(item, SECONDS) == ContextRecord(
        fence=3,
        queue_version=2,
        holder="me",
        until=UNTIL,
        running=turn(tries=3, handoffs=4),
        waiting=(turn(2, message_generation=0, tries=2),),
        interrupted="t-9",
        advanced=2,
        exists=True,
    )


def test_absent_attributes_of_context_item_have_defaults() -> None:
    assert record_of(None, SECONDS) == ContextRecord()
    assert record_of({"fence": 3, "expires": LIVING}, SECONDS) == ContextRecord(3, exists=True)
    assert record_of({"fence": 3, "expires": SECONDS}, SECONDS) == ContextRecord(3, exists=True, expired=True)


def test_expired_context_keeps_only_fence_and_queue_version() -> None:
    assert record_of(STATES["expired"], SECONDS) == ContextRecord(3, 2, exists=True, expired=True)
    assert record_of(context(expires=SECONDS + 1), SECONDS) == ContextRecord(3, 2, exists=True)


@each_row("broken", [{"running": {"id": "u"}}, {"waiting": 5}, {"waiting": [7]}, {"expires": "soon"}])
def test_invalid_context_item_raises_store_corrupt(broken: Item) -> None:
    with pytest.raises(StoreCorrupt, match=r"^The record of a context cannot be read\.$"):
        record_of({**context(), **broken}, SECONDS)


def test_turn_is_stored_in_item_and_read_back() -> None:
    value = turn_value(turn(4, message_generation=5, tries=6, handoffs=7))
    assert value == {"id": "u-4", "task_id": "t-4", "message_generation": 5, "tries": 6, "handoffs": 7}
    assert turn_of(value) == turn(4, message_generation=5, tries=6, handoffs=7)


def test_reason_for_suspension_of_turn_is_stored_and_read() -> None:
    for cause in StoppedBy:
        assert turn_value(turn(stopped_by=cause)) == {**T1, "stopped_by": cause.value}
        assert turn_of({**T1, "stopped_by": cause.value}) == turn(stopped_by=cause)
    assert turn_of({**T1, "stopped_by": "of a later version"}) == turn()


def test_wait_of_turn_is_stored_and_read() -> None:
    for wait in (Wait("w", 1, 2), Wait("w", 1, 2, (AwaitedCall("call/0", "weather", "r-1"),))):
        assert turn_of(turn_value(turn(wait=wait))) == turn(wait=wait)


def test_turn_waits_only_without_holder_and_before_its_time() -> None:
    wait = Wait("w", UNTIL - 9, UNTIL + 9)
    waits = replace(read("suspended"), running=turn(wait=wait), until=UNTIL)
    assert waits.wait == wait
    assert turn_to_begin(waits, UNTIL + 8) == TurnSuspended(turn(wait=wait), waits.fence, times.moment(UNTIL))
    assert turn_to_begin(waits, UNTIL + 9) == turn(wait=wait)
    assert turn_to_begin(waits, UNTIL, ended_wait=waits.fence) == turn(wait=wait)
    assert turn_to_begin(waits, UNTIL, ended_wait=waits.fence - 1) == turn_to_begin(waits, UNTIL)
    for over in (replace(waits, until=0), replace(waits, holder="me"), replace(waits, running=turn())):
        assert over.wait is None
    assert turn_to_begin(replace(waits, until=0), UNTIL) == turn(wait=wait)


@each_row(
    ("state", "busy", "active_task"),
    [("free", False, ""), ("runs", True, "t-1"), ("waits", True, "t-2"), ("asks", False, ""),
     ("runs, one waits", True, "t-1"), ("suspended", True, "t-1")],
)  # fmt: skip
def test_context_with_turns_is_busy(state: str, busy: bool, active_task: str) -> None:
    assert (read(state).busy, read(state).active_task) == (busy, active_task)


def test_context_record_finds_running_and_queued_turns() -> None:
    record = read("runs, one waits")
    assert [record.runs(task) for task in ("t-1", "t-2")] == [True, False]
    assert [record.waits_for(task) for task in ("t-1", "t-2")] == [False, True]
    assert not read("free").runs("t-1")
    assert read("waits, queue changed").without("t-2") == (turn(3), turn())


def test_context_record_identifies_lease_holder() -> None:
    record = read("runs")
    assert record.has(turn(), "me")
    assert not record.has(turn(), "another")
    assert not record.has(turn(id="u-9"), "me")
    assert not read("free").has(turn(), "")
    assert record.lease(CONTEXT) == lease()
    assert record.held_until() == datetime.fromtimestamp(UNTIL / 1000, UTC)
    assert read("suspended").held_until() is None


def test_task_key_of_turn_has_owner_of_context() -> None:
    assert task_of(CONTEXT, turn(7)) == TaskKey("owner", "t-7")


def test_context_times_are_stored_in_whole_milliseconds() -> None:
    assert times.milliseconds(AT.replace(microsecond=678_999)) == 1_767_323_045_678
    assert times.moment(1_767_323_045_678) == AT


def test_next_turn_begins_only_after_lease_expires() -> None:
    held = LeaseHeld(3, datetime.fromtimestamp(UNTIL / 1000, UTC))
    assert turn_to_begin(read("runs"), UNTIL - 1) == held
    assert turn_to_begin(read("runs"), UNTIL) == turn()
    assert turn_to_begin(read("suspended"), UNTIL) == turn()


def test_first_queued_turn_begins_unless_context_is_interrupted() -> None:
    assert turn_to_begin(read("free"), UNTIL) is None
    assert turn_to_begin(read("waits, queue changed"), UNTIL) == turn(2)
    assert turn_to_begin(read("asks, one waits"), UNTIL) is None


def test_all_store_times_derive_from_one_clock_reading() -> None:
    assert (TIMES.seconds, TIMES.expires, TIMES.lease_until) == (SECONDS, EXPIRES, LEASE_UNTIL)
    assert TIMES.stamp(CONTEXT.owner) == TTL


def test_clock_times_are_converted_to_units_of_table() -> None:
    clock = ManualClock()
    now = times.milliseconds(clock.now())
    assert Times.read(clock, 1.5, timedelta(minutes=2)) == Times(now, 1500, 120)
    assert Times.read(clock, 1.5).retention == 0


# ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_timer_of_claimed_context_is_set_to_lease_expiry() -> None:
    item = {"due_at": TIMES.now, "due_shard": "s"}
    change = timers.claimed_timer(item, TIMES, is_alive=True)
    assert change == Change({"due_at": TIMES.lease_until}, only_if=Equals("due_at", TIMES.now))


def test_timer_of_expired_context_item_is_removed() -> None:
    item = {"due_at": TIMES.now, "due_shard": "s", "fence": 3}
    change = timers.claimed_timer(item, TIMES, is_alive=False)
    assert change is not None
    assert accepted_in(change, {"as read": item, "set anew": {"due_at": TIMES.now + 1}, "gone": None}) == {"as read"}
    assert made(change, item) == {"fence": 3}


@each_row("item", [None, {}, {"due_at": TIMES.now + 1}])
@each_row("is_alive", [True, False])
def test_unexpired_context_timer_is_not_claimed(item: Item | None, is_alive: bool) -> None:
    assert timers.claimed_timer(item, TIMES, is_alive=is_alive) is None


WAITS, LEASES = ({"due_shard": keys.timer_shard(CONTEXT, kind)} for kind in (TimerOf.WAIT, TimerOf.LEASE))


@each_row(
    ("change", "stored"),
    [
        (Change({"due_at": 1, **LEASE}), Change({"due_at": 1, **LEASES})),
        (Change({"due_at": 1, **WAIT}), Change({"due_at": 1, **WAITS})),
        (Change(defaults={"due_at": 1, **WAIT}), Change(defaults={"due_at": 1, **WAITS})),
        (Change({"fence": 1}, remove=("holder",)), Change({"fence": 1}, remove=("holder",))),
    ],
)
def test_context_update_moves_timer_with_its_index_partition(change: Change, stored: Change) -> None:
    assert changes.context_update(CONTEXT, change) == Update(keys.context_key(CONTEXT), stored)
