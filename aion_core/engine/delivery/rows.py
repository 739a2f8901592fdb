"""State of a delivery as attributes of its push config's item, and back. Pure."""

from collections.abc import Mapping
from typing import Any

from aion_core.engine.delivery import readiness
from aion_core.engine.delivery.records import Delivery
from aion_core.table import keys
from aion_core.table.conditions import Equals
from aion_core.table.item import SORT, Item, readable
from aion_core.table.keys import TaskKey
from aion_core.table.times import milliseconds, moment
from aion_core.table.writes import Change

_FIELDS = ("after", "cursor", "tries", "failure", "dead", "dead_from", "disabled", "revision")
"""Fields of a delivery, each in an attribute of its name. The item also has those of _TIMES that are not None."""

_TIMES = ("next_at", "claimed_until", "due_at")

_OPTIONAL = (*_TIMES, "due_shard")


def attributes_of(delivery: Delivery) -> Item:
    """Return the item attributes of the delivery."""
    found: Item = {name: getattr(delivery, name) for name in _FIELDS}
    for name in _TIMES:
        if (at := getattr(delivery, name)) is not None:
            found[name] = milliseconds(at)
    if delivery.due_at is None:
        return found
    return {**found, "due_shard": keys.push_timer_shard(delivery.task, readiness.timer_kind(delivery))}


def delivery_of(task: TaskKey, item: Item) -> Delivery:
    """Parse the delivery from the item of a push config. Raises StoreCorrupt if the item is invalid."""
    with readable("The delivery of a push config"):
        fields: dict[str, Any] = {name: item[name] for name in _FIELDS}
        fields |= {name: moment(item[name]) for name in _TIMES if name in item}
        return Delivery(task, keys.push_config_of(item[SORT]), **fields)


def change(before: Delivery, after: Delivery, **more: Any) -> Change:
    """Return the change of a push config's item from `before` to `after`. `more` sets further attributes."""
    values: Mapping[str, Any] = {**attributes_of(after), **more}
    gone = tuple(name for name in _OPTIONAL if name not in values)
    return Change(values=values, remove=gone, only_if=Equals("revision", before.revision))
