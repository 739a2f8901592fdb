"""State of a task in sentences."""

from aion_core.engine.delivery.records import Delivery
from aion_core.table.keys import TaskKey
from aion_tools.cli.verdict import delivery_text


def test_text_of_failed_delivery_names_no_event() -> None:
    """The next event may be skipped, as it is not sent to webhooks: a post after event 0 may contain event 2."""
    failed = Delivery(TaskKey("o", "t"), "mine", 0, 0, tries=2, failure="no answer in time")
    assert delivery_text(failed) == "the webhook mine has failed 2 times (no answer in time)"


def test_text_of_delivery_counts_from_first_event_of_config() -> None:
    assert delivery_text(Delivery(TaskKey("o", "t"), "mine", 2, 2)) == "the webhook mine has got no event yet"
    assert (
        delivery_text(Delivery(TaskKey("o", "t"), "mine", 2, 3)) == "the webhook mine has all events through number 3"
    )
