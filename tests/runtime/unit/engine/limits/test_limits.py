"""Counts of requests, open streams and open tasks: limits, and items."""

from datetime import timedelta

import pytest

from aion_core.engine.limits import open_tasks, requests, streams
from aion_core.engine.limits.limits import Limits, OpenStream, OpenTask, limits_in_force
from aion_core.protocol.types import TaskState
from aion_core.table.item import Item
from aion_core.table.keys import TaskKey
from aion_core.table.schema import VERSION
from aion_core.table.stamp import stamp
from tests.support.given import AT, TASK, accepted_in, head, made, needless
from tests.support.rows import each_row

NOW = 1_767_323_045_678_000
"""AT in microseconds."""
SECONDS = 1_767_323_045
MINUTE = 60_000_000

NONE = Limits()


@each_row(
    ("declared", "is_authenticated", "expected"),
    [(None, True, Limits.default()), (None, False, None), (NONE, True, NONE), (NONE, False, NONE)],
)
def test_default_limits_apply_only_to_authenticated_callers(
    declared: Limits | None, is_authenticated: bool, expected: Limits | None
) -> None:
    assert limits_in_force(declared, is_authenticated=is_authenticated) == expected


# ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────

STEP = 8_571_429
"""A seventh of a minute in microseconds, rounded up."""
BUCKETS = {
    "absent": None,
    "no bucket": {"v": VERSION},
    "full": {"full_at": NOW},
    "not full": {"full_at": NOW + 1},
    "one token": {"full_at": NOW + MINUTE - STEP},
    "no token": {"full_at": NOW + MINUTE - STEP + 1},
}


def test_full_rate_limit_bucket_allows_request() -> None:
    change, _ = requests.takes("owner", AT, 7)
    assert accepted_in(change, BUCKETS) == {"absent", "no bucket", "full"}
    assert needless(change.only_if, BUCKETS) == []
    assert made(change, None) == {"full_at": NOW + STEP, **stamp("owner", SECONDS + 120)}


def test_rate_limit_bucket_with_last_token_allows_request() -> None:
    _, change = requests.takes("owner", AT, 7)
    assert accepted_in(change, BUCKETS) == {"full", "not full", "one token"}
    assert made(change, {"full_at": NOW + 9}) == {"full_at": NOW + 9 + STEP, "expires": SECONDS + 120}


@pytest.mark.parametrize(
    ("bucket", "seconds"),
    [(None, 0.0), ({"full_at": NOW + MINUTE - STEP}, 0.0), ({"full_at": NOW + MINUTE - STEP + 500_000}, 0.5)],
)
def test_empty_rate_limit_bucket_returns_seconds_until_next_token(bucket: Item | None, seconds: float) -> None:
    assert requests.seconds_until_token(bucket, AT, 7) == seconds


# ── Streams ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def stream(name: str, *, seconds: int = 1, task_id: str = "t-1") -> OpenStream:
    return OpenStream(name, task_id, AT + timedelta(seconds=seconds))


A, B = stream("a", seconds=5), stream("b", seconds=2, task_id="")
A_MEMBER, B_MEMBER = '[1767323050678,"a","t-1"]', '[1767323047678,"b",""]'


def test_new_stream_is_accepted_only_below_limit() -> None:
    change = streams.opened("owner", A, most=2, now=AT)
    items = {"absent": None, "one": {"streams": frozenset({"x"})}, "two": {"streams": frozenset({"x", "y"})}}
    assert accepted_in(change, items) == {"absent", "one"}
    assert made(change, None) == {**stamp("owner", SECONDS + 3600), "streams": frozenset({A_MEMBER})}


def test_closed_streams_do_not_count_for_limit() -> None:
    item = {"streams": frozenset({A_MEMBER, B_MEMBER, "x"})}
    change = streams.closed([A, B])
    assert accepted_in(change, {"absent": None, "there": item}) == {"there"}
    assert made(change, item) == {"streams": frozenset({"x"})}


def test_open_streams_are_parsed_from_table_item() -> None:
    found = streams.open_streams({"streams": frozenset({A_MEMBER, B_MEMBER})})
    assert sorted(found, key=lambda stream: stream.id) == [A, B]
    assert streams.open_streams(None) == []


# ── Open tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────

MINE, THEIRS = OpenTask(TASK, AT), OpenTask(TaskKey("tenant", "t-2"), AT)
MEMBERS = frozenset({'[1767323045678,"t-1"]', '[1767323045678,"t-2","tenant"]'})


def test_new_task_is_accepted_only_below_limit() -> None:
    change = open_tasks.counted("owner", MINE, most=2, expires=77)
    items = {"absent": None, "one": {"tasks": frozenset({"x"})}, "two": {"tasks": frozenset({"x", "y"})}}
    assert accepted_in(change, items) == {"absent", "one"}
    assert made(change, None) == {**stamp("owner", 77), "tasks": frozenset({'[1767323045678,"t-1"]'})}


def test_forgotten_tasks_no_longer_count_as_open() -> None:
    item = {"tasks": MEMBERS | {"x"}}
    change = open_tasks.forgotten("owner", [MINE, THEIRS])
    assert accepted_in(change, {"absent": None, "there": item}) == {"there"}
    assert made(change, item) == {"tasks": frozenset({"x"})}


def test_open_tasks_are_parsed_from_table_item() -> None:
    found = open_tasks.open_tasks("owner", {"tasks": MEMBERS})
    assert sorted(found, key=lambda task: task.key.task_id) == [MINE, THEIRS]
    assert open_tasks.open_tasks("owner", None) == open_tasks.open_tasks("owner", {}) == []


def test_open_task_of_tenant_is_stored_with_its_owner() -> None:
    assert {open_tasks.owner_named_in(member) for member in MEMBERS} == {"", "tenant"}


@each_row(
    ("state", "seconds", "ended"),
    [
        ("WORKING", 90, False),
        ("INPUT_REQUIRED", 90, False),
        ("COMPLETED", 0, True),
        (None, 60, False),
        (None, 61, True),
    ],
)
def test_ended_or_missing_task_no_longer_counts_as_open(state: str | None, seconds: int, ended: bool) -> None:
    """A task missing from the store still counts for a minute, because it may be in creation."""
    found = head(state=TaskState.Value(f"TASK_STATE_{state}")) if state else None
    assert open_tasks.has_ended(MINE, found, AT + timedelta(seconds=seconds)) is ended
