"""Rate limits of an owner: items that count requests, open streams and open tasks, and their changes. Pure.

A token bucket is stored as one number: the time when it will be full again. Each request moves this time by the
interval between two tokens (a leaky bucket as a meter, ITU-T I.371). So a request needs one conditional write and no
read.
"""

import json
import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from aion_core.ports import Head, OpenStream, OpenTask, TaskKey
from aion_core.ports.table import Absent, AtMost, Change, Either, Exists, Item, ShorterThan
from aion_core.tasks import lifecycle
from aion_core.tasks.contexts import VERSION, milliseconds, moment

MINUTE = 60_000_000
"""A minute in microseconds. Milliseconds would be too coarse for the time between two tokens with a high limit."""

BEING_CREATED = timedelta(minutes=1)
"""Longest time between counting a task and creating it. Afterwards, a task that does not exist is no longer counted."""

STREAM_COUNT_LIFE = timedelta(hours=1)
"""Lifetime of an owner's item with open streams after its last change, longer than any Lambda invocation."""

# ── Requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def takes(now: datetime, per_minute: int) -> tuple[Change, Change]:
    """Return two changes to take a token, for a full bucket and for a partly used one. At most one of them succeeds."""
    at, step = _microseconds(now), _step(per_minute)
    expires = at // 1_000_000 + 120
    return (
        Change(
            values={"full_at": at + step, "v": VERSION, "expires": expires},
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
    return int(at.timestamp() * 1_000_000)


# ── Streams ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def opened(stream: OpenStream, *, most: int, now: datetime) -> Change:
    """Return the change to count an open stream of an owner. It fails if `most` streams are counted already."""
    return Change(
        values={"v": VERSION, "expires": int((now + STREAM_COUNT_LIFE).timestamp())},
        add_members={"open": frozenset({_stream_member(stream)})},
        only_if=ShorterThan("open", most),
    )


def closed(streams: Iterable[OpenStream]) -> Change:
    """Return the change to remove these streams from the owner's count."""
    return Change(remove_members={"open": frozenset(map(_stream_member, streams))}, only_if=Exists())


def open_streams(item: Item | None) -> list[OpenStream]:
    """Return the streams counted in the owner's item. If a process dies, its streams count until their `until`."""
    members = (json.loads(member) for member in (item or {}).get("open", ()))
    return [OpenStream(id_, task_id, moment(until)) for until, id_, task_id in members]


def _stream_member(stream: OpenStream) -> str:
    """Return the stream as a JSON array: the time until which it counts, its id and its task."""
    return json.dumps([milliseconds(stream.until), stream.id, stream.task_id], separators=(",", ":"))


# ── Open tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def counted(owner: str, task: OpenTask, *, most: int, expires: int) -> Change:
    """Return the change to count an open task of the owner. It fails if `most` tasks are counted already."""
    return Change(
        values={"v": VERSION, "expires": expires},
        add_members={"tasks": _members(owner, [task])},
        only_if=ShorterThan("tasks", most),
    )


def forgotten(owner: str, tasks: Iterable[OpenTask]) -> Change:
    """Return the change to remove these tasks from the owner's count."""
    return Change(remove_members={"tasks": _members(owner, tasks)}, only_if=Exists())


def open_tasks(owner: str, item: Item | None) -> list[OpenTask]:
    """Return the open tasks counted in the owner's item; empty if the item does not exist."""
    members = ((*json.loads(member), owner)[:3] for member in (item or {}).get("tasks", ()))
    return [OpenTask(TaskKey(task_owner, task_id), moment(since)) for since, task_id, task_owner in members]


def has_ended(task: OpenTask, head: Head | None, now: datetime) -> bool:
    """Return True if a counted task has ended, or was counted over a minute ago and does not exist (`head` is None)."""
    if head is None:
        return now - task.since > BEING_CREATED
    return head.state in lifecycle.TERMINAL


def owner_named_in(member: str) -> str:
    """Return the owner in a member of `tasks`; "" if the task belongs to the owner of the item."""
    return str((*json.loads(member), "")[2])


def _members(owner: str, tasks: Iterable[OpenTask]) -> frozenset[str]:
    """Return the tasks as JSON arrays of time, task id and, if it is not the item's owner, the task's owner."""
    fields = (
        [milliseconds(task.since), task.key.task_id, *([task.key.owner] if task.key.owner != owner else [])]
        for task in tasks
    )
    return frozenset(json.dumps(each, separators=(",", ":")) for each in fields)
