"""Reads for operators."""

from aion_core.ports import Delivery, PushEvents
from aion_core.ports.schema import BY_AGENT, BY_CONTEXT
from aion_core.stores.task_log import head_item
from aion_core.tasks import deliveries
from aion_core.tasks.lifecycle import HEAD_ATTRIBUTES
from tests.runtime.unit.tasks.given import AT, TASK, head


def test_scan_reads_each_stored_attribute_of_task() -> None:
    stored = head_item(head(push_epoch=1, push_events=PushEvents.ALL)).keys()
    in_indexes = {BY_AGENT.partition, BY_AGENT.sort, BY_CONTEXT.partition}
    assert stored - in_indexes == {*HEAD_ATTRIBUTES}, "`aion tasks` would show the default of a missing attribute."


def test_scan_reads_each_stored_attribute_of_push_delivery() -> None:
    delivery = Delivery(TASK, "p", after=2, cursor=5, next_at=AT, claimed_until=AT, due_at=AT)
    assert deliveries.attributes_of(delivery, "s").keys() - {"due_shard"} == {*deliveries.ATTRIBUTES}
