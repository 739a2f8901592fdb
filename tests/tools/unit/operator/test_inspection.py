"""Reads for operators."""

from aion_core.engine.agent_options import PushEvents
from aion_core.engine.delivery import rows
from aion_core.engine.delivery.records import Delivery
from aion_core.engine.task.head import head_item
from aion_core.table.schema import BY_AGENT, BY_CONTEXT
from aion_tools.operator.inspection import DELIVERY_ATTRIBUTES, HEAD_ATTRIBUTES
from tests.support.given import AT, TASK, head


def test_scan_reads_each_stored_attribute_of_task() -> None:
    stored = head_item(head(push_epoch=1, push_events=PushEvents.ALL, calls=1)).keys()
    in_indexes = {BY_AGENT.partition, BY_AGENT.sort, BY_CONTEXT.partition}
    assert stored - in_indexes == {*HEAD_ATTRIBUTES}, "`aion tasks` would show the default of a missing attribute."


def test_scan_reads_each_stored_attribute_of_push_delivery() -> None:
    delivery = Delivery(TASK, "p", after=2, cursor=5, next_at=AT, claimed_until=AT, due_at=AT)
    assert rows.attributes_of(delivery).keys() - {"due_shard"} == {*DELIVERY_ATTRIBUTES}
