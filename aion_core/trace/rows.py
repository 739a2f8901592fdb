"""Steps as items of the table, and back. Pure.

An item has the steps that began or ended between two writes: the last item with a step has its final form.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from msgspec import Struct

from aion_core.table import keys
from aion_core.table.item import SORT, Item, readable
from aion_core.table.stamp import stamp
from aion_core.table.writes import Put
from aion_core.trace.step import Step, TracedTurn

TRACE_LIFE = timedelta(days=1)
"""Time for which the steps of a turn are stored."""


class StoredTrace(Struct, frozen=True):
    """Stored steps of one try of a turn."""

    turn_id: str
    agent: str
    fence: int
    steps: Sequence[Step]
    """The steps in the order of their beginnings."""
    dropped: int
    """Number of steps that were not recorded, because there were too many."""


def trace_row(turn: TracedTurn, page: int, steps: Sequence[Step], dropped: int, *, now: int) -> Put:
    """Return the write of a page of steps. `now` is in seconds; the page expires after TRACE_LIFE."""
    row = {
        **stamp(turn.task.owner, now + int(TRACE_LIFE.total_seconds())),
        "turn_id": turn.turn_id,
        "agent": turn.agent,
        "steps": msgspec.msgpack.encode(steps),
        "dropped": dropped,
    }
    return Put(keys.trace_key(turn.task, turn.fence, page), row)


def traces_of(items: Iterable[Item]) -> list[StoredTrace]:
    """Parse the items of a task's partition, in their order, into one trace for each try of a turn.

    Raises StoreCorrupt if an item is invalid.
    """
    steps: dict[int, dict[int, Step]] = {}
    found: dict[int, StoredTrace] = {}
    with readable("A trace"):
        for item in items:
            fence = int(item[SORT].partition(".")[0])
            page = msgspec.msgpack.decode(item["steps"], type=list[Step])
            known = steps.setdefault(fence, {})
            known.update((step.id, step) for step in page)
            in_order = [known[each] for each in sorted(known)]
            found[fence] = StoredTrace(item["turn_id"], item["agent"], fence, in_order, int(item["dropped"]))
    return list(found.values())
