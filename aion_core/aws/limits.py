"""How much each owner asks for, on DynamoDB, with the promises of `ports.RateLimits`: three items an owner.

The bucket is one number, the time at which it will be full again: a request moves it on by the time in which one token
comes (a leaky bucket as a meter, ITU-T I.371). So one conditional write takes a token, without a read.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

from aion_core.aws import items, keys
from aion_core.aws.client import TRIES, Calls, Refused, let_others_write
from aion_core.aws.items import Item
from aion_core.aws.table import Table
from aion_core.aws.terms import Retention
from aion_core.aws.writes import put, update
from aion_core.errors import StoreUnavailable
from aion_core.ports import Clock, Limits, OpenStream, OpenTask, TaskKey

MINUTE = 60_000_000
"""In microseconds: a limit of many requests a minute has tokens of less than a millisecond."""

IS_FULL = "attribute_not_exists(full_at) OR full_at <= :now"
"""Nothing is missing from the bucket: the time that it says is past."""

HAS_ONE = "full_at <= :latest"
"""A token is left."""

STREAMS_ARE_AS_READ = "attribute_not_exists(revision) OR revision = :known"
"""Nobody has opened or closed one since they were read."""

ONE_MORE_MAY_BE_OPEN = "attribute_not_exists(tasks) OR size(tasks) < :most"
"""Fewer tasks are counted than may be."""

Streams = Mapping[str, OpenStream]


class DynamoDBRateLimits:
    """`ports.RateLimits` in the one table."""

    def __init__(self, dynamodb: Calls, clock: Clock, *, table: str, retention: timedelta = timedelta(days=30)) -> None:
        """`retention`: how long tasks are kept, and with them that they are counted."""
        self._dynamodb, self._clock, self._name = dynamodb, clock, table
        self._retention = Retention(clock, retention)
        self._table = Table(dynamodb, clock, name=table)

    async def take(self, owner: str, *, per_minute: int) -> float:
        """See `ports.RateLimits.take`."""
        key, step = keys.requests_key(owner), math.ceil(MINUTE / per_minute)
        for _ in range(TRIES):
            now = _microseconds(self._clock.now())
            expires = now // 1_000_000 + 120
            changes = "full_at = :next, v = :v, expires = :expires"
            first = update(
                self._name, key, f"SET {changes}", only_if=IS_FULL,
                now=now, next=now + step, v=items.VERSION, expires=expires,
            )  # fmt: skip
            further = update(
                self._name, key, "SET full_at = full_at + :step, expires = :expires", only_if=HAS_ONE,
                step=step, latest=now + MINUTE - step, expires=expires,
            )  # fmt: skip
            if await self._is_written(first["Update"]) or await self._is_written(further["Update"]):
                return 0.0
            found = await self._table.get(key, expired=True)
            over = int(found["full_at"]["N"]) + step - MINUTE - now if found is not None else 0
            if over > 0:
                return over / 1_000_000
            # What was full has been taken away, or time has gone on: there is one now.
        raise StoreUnavailable("Too many requests of one owner are being counted at once.")

    async def open_stream(self, owner: str, stream: OpenStream, limits: Limits) -> bool:
        """See `ports.RateLimits.open_stream`."""

        def with_it(streams: Streams) -> Streams | None:
            return {**streams, stream.id: stream} if limits.allow(stream, streams.values()) else None

        return await self._change(owner, with_it)

    async def close_stream(self, owner: str, stream_id: str) -> None:
        """See `ports.RateLimits.close_stream`."""

        def without_it(streams: Streams) -> Streams | None:
            left = {id_: each for id_, each in streams.items() if id_ != stream_id}
            return left if len(left) < len(streams) else None

        await self._change(owner, without_it)

    async def count_task(self, owner: str, task: OpenTask, *, most: int) -> Collection[OpenTask]:
        """See `ports.RateLimits.count_task`. One write; a read more where as many are counted as may be."""
        key = keys.tasks_key(owner)
        expires = self._retention.kept_until()
        write = update(
            self._name, key, "SET v = :v, expires = :expires ADD tasks :task", only_if=ONE_MORE_MAY_BE_OPEN,
            v=items.VERSION, expires=expires, task=_set_of(owner, [task]), most=most,
        )  # fmt: skip
        for _ in range(TRIES):
            if await self._is_written(write["Update"]):
                return ()
            found = await self._table.get(key, expired=True)
            counted = [_open_task(owner, text) for text in found.get("tasks", {}).get("SS", [])] if found else []
            if task in counted:
                return ()  # an earlier try of this very call was heard after all
            if len(counted) >= most:
                return counted
            # Some have been forgotten meanwhile: there is room now.
        raise StoreUnavailable("Too many tasks of one owner are being counted at once.")

    async def forget_tasks(self, owner: str, tasks: Collection[OpenTask]) -> None:
        """See `ports.RateLimits.forget_tasks`."""
        if tasks:
            change = update(self._name, keys.tasks_key(owner), "DELETE tasks :ended", ended=_set_of(owner, tasks))
            await self._dynamodb("update_item", **change["Update"])

    async def _change(self, owner: str, change: Callable[[Streams], Streams | None]) -> bool:
        """Write what the change makes of the streams that are open; return False where it makes nothing of them."""
        key = keys.streams_key(owner)
        for attempt in range(TRIES):
            now = self._clock.now()
            # An expired item is there until DynamoDB deletes it, and has a revision.
            found = await self._table.get(key, expired=True)
            known = int(found["revision"]["N"]) if found is not None else 0
            living = {each.id: each for each in _streams(found) if each.until > now}
            changed = change(living)
            if changed is None:
                return False
            ends = max([now, *(each.until for each in changed.values())])
            attributes = {
                "v": items.number(items.VERSION),
                "revision": items.number(known + 1),
                "streams": {"M": {each.id: _attribute(each) for each in changed.values()}},
                "expires": items.number(int(ends.timestamp()) + 60),
            }
            write = put(self._name, key, attributes, only_if=STREAMS_ARE_AS_READ, known=known)
            try:
                await self._dynamodb("put_item", **write["Put"])
            except Refused:
                await let_others_write(attempt)
            else:
                return True
        raise StoreUnavailable("Too many streams of one owner are being opened at once.")

    async def _is_written(self, write: dict[str, object]) -> bool:
        try:
            await self._dynamodb("update_item", **write)
        except Refused:
            return False
        return True


def _attribute(stream: OpenStream) -> Item:
    return {"M": {"task_id": items.text(stream.task_id), "until": items.number(items.milliseconds(stream.until))}}


def _streams(item: Item | None) -> list[OpenStream]:
    held = item["streams"]["M"] if item is not None else {}
    return [
        OpenStream(id_, each["M"]["task_id"]["S"], datetime.fromtimestamp(int(each["M"]["until"]["N"]) / 1000, UTC))
        for id_, each in held.items()
    ]


def _set_of(owner: str, tasks: Collection[OpenTask]) -> Item:
    """Return the set of the tasks' texts: when, which, and whose where that is not the owner's own (a tenant's)."""
    told = (
        [items.milliseconds(task.since), task.key.task_id, *([task.key.owner] if task.key.owner != owner else [])]
        for task in tasks
    )
    return {"SS": [json.dumps(each, separators=(",", ":")) for each in told]}


def _open_task(owner: str, text: str) -> OpenTask:
    since, task_id, whose = (*json.loads(text), owner)[:3]
    return OpenTask(TaskKey(whose, task_id), datetime.fromtimestamp(since / 1000, UTC))


def owner_named_in(text: str) -> str:
    """Return the owner that the text of an open task names; "" for a task of the item's own owner."""
    _, _, owner = (*json.loads(text), "")[:3]
    return str(owner)


def _microseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
