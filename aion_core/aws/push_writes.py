"""Push configs as items of the table, their writes, and the conditions under which each may be made. Pure.

A PUSH item's time line, a line a change; each change has a revision of its own:

    register    a client says where it wants to hear of its task, for the first time, or anew
    change      somebody claims it, has passed an event, has failed, or gives it back
    forget      a client wants to hear no more
"""

from collections.abc import Sequence
from datetime import datetime

from aion_core.aws import items, keys
from aion_core.aws.items import Item
from aion_core.aws.terms import Terms
from aion_core.aws.writes import DUE_AS_READ, Write, delete, put, update
from aion_core.ports import Delivery, OverduePush, TaskKey
from aion_core.tasks.contexts import moment

IT_IS_THERE = "attribute_exists(pk)"
REVISION_IS_AS_READ = "revision = :read"

_TIMES = ("next_at", "claimed_until", "due_at")
_SOMETIMES = (*_TIMES, "due_shard")


class PushWrites:
    """Makes the writes for one table."""

    def __init__(self, table: str, terms: Terms) -> None:
        self._table, self._terms = table, terms

    def register(self, before: Delivery | None, after: Delivery, sealed: bytes) -> Write:
        """The config is kept, in the place of one that stands as it was read, where there is one."""
        if before is not None:
            return self.change(before, after, sealed={"B": sealed})
        attributes = {**_attributes(after), "sealed": {"B": sealed}, **self._terms.keeping()}
        return put(self._table, keys.push_key(after.task, after.config_id), attributes)

    def change(self, before: Delivery, after: Delivery, **more: object) -> Write:
        """The config has come so far, where nothing has happened to it since it was read."""
        # Whoever is told of an event is kept as long as the event's task, and no shorter than until it has heard.
        values: dict[str, object] = {**_attributes(after), "expires": self._terms.keeping()["expires"], **more}
        gone = [name for name in _SOMETIMES if name not in values]
        return update(
            self._table,
            keys.push_key(after.task, after.config_id),
            f"SET {', '.join(f'{name} = :{name}' for name in values)}" + (f" REMOVE {', '.join(gone)}" if gone else ""),
            only_if=REVISION_IS_AS_READ,
            read=before.revision,
            **values,
        )

    def forget(self, task: TaskKey, config_id: str) -> Write:
        """The config is gone, there or not."""
        return delete(self._table, keys.push_key(task, config_id))

    def clear(self, task: TaskKey, generation: int) -> Write:
        """Nobody has yet to be told of the event."""
        return update(self._table, keys.event_key(task, generation), "REMOVE due_shard, due_at", only_if=IT_IS_THERE)

    def claim_overdue(self, overdue: OverduePush, due_at: int) -> Write:
        """Somebody rings for it: let nobody else, for a while."""
        return update(
            self._table,
            keys.overdue_push_key(overdue),
            "SET due_at = :again",
            only_if=DUE_AS_READ,
            read=due_at,
            again=self._terms.claimed_until(),
        )

    def forget_overdue(self, overdue: OverduePush, due_at: int) -> Write:
        """It has expired: let nobody look after it."""
        return update(
            self._table,
            keys.overdue_push_key(overdue),
            "REMOVE due_shard, due_at",
            only_if=DUE_AS_READ,
            read=due_at,
        )

    def soon(self) -> datetime:
        """Return when what a bell is rung for now is overdue."""
        return moment(self._terms.lease_until())


def _attributes(delivery: Delivery) -> Item:
    """Return what the item says of a delivery."""
    attributes: Item = {
        "registered": items.number(delivery.after),
        "passed": items.number(delivery.cursor),
        "tries": items.number(delivery.tries),
        "failure": items.text(delivery.failure),
        "dead": items.number(delivery.dead),
        "dead_from": items.number(delivery.dead_from),
        "disabled": {"BOOL": delivery.disabled},
        "revision": items.text(delivery.revision),
    }
    for name in _TIMES:
        at = getattr(delivery, name)
        if at is not None:
            attributes[name] = items.number(items.milliseconds(at))
    if delivery.due_at is not None:
        attributes["due_shard"] = items.text(keys.push_due_shard(delivery.task))
    return attributes


def delivery_of(task: TaskKey, item: Item) -> Delivery:
    """Return the delivery that the item tells of."""
    next_at, claimed_until, due_at = (moment(int(item[name]["N"])) if name in item else None for name in _TIMES)
    return Delivery(
        task,
        keys.push_config_of(item["sk"]["S"]),
        after=int(item["registered"]["N"]),
        cursor=int(item["passed"]["N"]),
        tries=int(item["tries"]["N"]),
        next_at=next_at,
        claimed_until=claimed_until,
        failure=item["failure"]["S"],
        dead=int(item["dead"]["N"]),
        dead_from=int(item["dead_from"]["N"]),
        disabled=item["disabled"]["BOOL"],
        due_at=due_at,
        revision=item["revision"]["S"],
    )


def find(known: Sequence[Delivery], config_id: str) -> Delivery | None:
    """Return the delivery of the config among these."""
    return next((delivery for delivery in known if delivery.config_id == config_id), None)
