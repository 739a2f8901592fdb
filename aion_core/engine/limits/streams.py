"""Count of a caller's open streams, in one item. Pure."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

from aion_core.engine.limits.limits import OpenStream
from aion_core.table.conditions import Exists, ShorterThan
from aion_core.table.item import Item
from aion_core.table.stamp import stamp
from aion_core.table.times import milliseconds, moment
from aion_core.table.writes import Change

STREAM_COUNT_LIFE = timedelta(hours=1)
"""Lifetime of a caller's item with open streams after its last change, longer than any Lambda invocation."""


def opened(caller: str, stream: OpenStream, *, most: int, now: datetime) -> Change:
    """Return the change to count an open stream of a caller. It fails if `most` streams are counted already."""
    return Change(
        values=stamp(caller, int((now + STREAM_COUNT_LIFE).timestamp())),
        add_members={"streams": frozenset({_stream_member(stream)})},
        only_if=ShorterThan("streams", most),
    )


def closed(streams: Iterable[OpenStream]) -> Change:
    """Return the change to remove these streams from the caller's count."""
    return Change(remove_members={"streams": frozenset(map(_stream_member, streams))}, only_if=Exists())


def open_streams(item: Item | None) -> list[OpenStream]:
    """Return the streams counted in the caller's item. If a process dies, its streams count until their `until`."""
    members = (json.loads(member) for member in (item or {}).get("streams", ()))
    return [OpenStream(id_, task_id, moment(until)) for until, id_, task_id in members]


def _stream_member(stream: OpenStream) -> str:
    """Return the stream as a JSON array: the time until which it counts, its id and its task."""
    return json.dumps([milliseconds(stream.until), stream.id, stream.task_id], separators=(",", ":"))
