"""Deliveries of push configs: transitions, and the item after each."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from aion_core.engine.delivery import rows, transitions
from aion_core.engine.delivery.records import Delivery
from aion_core.errors import ClaimLost, StoreCorrupt
from aion_core.table import keys
from aion_core.table.item import Item
from aion_core.table.keys import PushTimerOf
from tests.support.given import AT, TASK, accepted_in, made
from tests.support.rows import each_row

SOON, LATER, UNTIL = (AT + timedelta(seconds=seconds) for seconds in (1, 2, 3))
MILLISECONDS = 1_767_323_045_678
DELIVERY = Delivery(
    TASK,
    "p",
    after=2,
    cursor=5,
    tries=3,
    next_at=AT,
    claimed_until=SOON,
    failure="503",
    dead=4,
    dead_from=3,
    disabled=False,
    due_at=LATER,
    revision="r",
)
KEY: Item = {"pk": "TASK#…", "sk": "PUSH#p"}
ITEM = {
    "after": 2,
    "cursor": 5,
    "tries": 3,
    "failure": "503",
    "dead": 4,
    "dead_from": 3,
    "disabled": False,
    "revision": "r",
    "next_at": MILLISECONDS,
    "claimed_until": MILLISECONDS + 1000,
    "due_at": MILLISECONDS + 2000,
    "due_shard": keys.push_timer_shard(TASK, PushTimerOf.PLAN),
}
PLAIN = Delivery(TASK, "p", after=2, cursor=5)
PLAIN_ITEM = {
    "after": 2, "cursor": 5, "tries": 0, "failure": "", "dead": 0, "dead_from": 0, "disabled": False,
    "revision": "",
}  # fmt: skip


@each_row(
    ("step", "changes"),
    [
        (lambda: transitions.claimed(DELIVERY, UNTIL), {"claimed_until": UNTIL, "due_at": UNTIL}),
        (
            lambda: transitions.advanced(DELIVERY, 6, UNTIL),
            {"cursor": 6, "claimed_until": UNTIL, "due_at": UNTIL, "tries": 0, "next_at": None, "failure": ""},
        ),
        (
            lambda: transitions.settled(DELIVERY, 6, delivered=True, due_at=UNTIL),
            {"cursor": 6, "claimed_until": None, "due_at": UNTIL, "tries": 0, "next_at": None, "failure": ""},
        ),
        (
            lambda: transitions.settled(DELIVERY, 6, delivered=False, due_at=None),
            {"cursor": 6, "claimed_until": None, "due_at": None},
        ),
        (
            lambda: transitions.failed(DELIVERY, "404", UNTIL, SOON),
            {"tries": 4, "failure": "404", "next_at": UNTIL, "claimed_until": None, "due_at": SOON},
        ),
        (
            lambda: transitions.buried(DELIVERY, 6, "404", UNTIL),
            {
                "cursor": 6, "failure": "404", "next_at": None, "dead": 5, "claimed_until": UNTIL, "due_at": UNTIL,
            },
        ),
        (
            lambda: transitions.buried(replace(DELIVERY, dead_from=0), 6, "404", UNTIL),
            {
                "cursor": 6, "failure": "404", "next_at": None, "dead": 5, "claimed_until": UNTIL, "due_at": UNTIL,
                "dead_from": 6,
            },
        ),
        (
            lambda: transitions.disabled(DELIVERY, "410"),
            {"failure": "410", "disabled": True, "next_at": None, "claimed_until": None, "due_at": None},
        ),
    ],
)  # fmt: skip
def test_each_step_of_push_delivery_changes_expected_fields(
    step: Callable[[], Delivery], changes: dict[str, object]
) -> None:
    assert step() == replace(DELIVERY, **changes)


def test_new_push_config_starts_after_newest_event() -> None:
    assert transitions.registered(TASK, "p", None, after=7, due_at=AT) == Delivery(TASK, "p", 7, 7, due_at=AT)


def test_replaced_push_config_keeps_cursor_and_dead_letters() -> None:
    after = transitions.registered(TASK, "p", DELIVERY, after=7, due_at=UNTIL)
    assert after == Delivery(TASK, "p", 2, 5, dead=4, dead_from=3, due_at=UNTIL)


def test_redrive_begins_with_first_undelivered_event() -> None:
    assert transitions.redriven(DELIVERY, UNTIL) == Delivery(TASK, "p", 2, 2, next_at=UNTIL, due_at=UNTIL)
    assert transitions.redriven(replace(DELIVERY, dead_from=1), UNTIL).cursor == 0
    assert transitions.redriven(replace(DELIVERY, dead_from=0), UNTIL).cursor == 5


@each_row(
    ("delivery", "kind"),
    [
        (transitions.registered(TASK, "p", None, after=7, due_at=SOON), PushTimerOf.WAIT),
        (transitions.claimed(PLAIN, UNTIL), PushTimerOf.PLAN),
        (transitions.failed(DELIVERY, "503", SOON, LATER), PushTimerOf.WAIT),
        (transitions.failed(DELIVERY, "503", LATER, LATER), PushTimerOf.PLAN),
        (transitions.settled(DELIVERY, 6, delivered=False, due_at=LATER), PushTimerOf.WAIT),
        (transitions.redriven(DELIVERY, LATER), PushTimerOf.PLAN),
    ],
)
def test_timer_is_plan_unless_message_was_sent(delivery: Delivery, kind: PushTimerOf) -> None:
    assert rows.attributes_of(delivery)["due_shard"] == keys.push_timer_shard(TASK, kind)


def test_delivery_is_found_by_push_config_id() -> None:
    other = replace(DELIVERY, config_id="q")
    assert transitions.find([other, DELIVERY], "p") == DELIVERY
    assert transitions.find([other], "p") is None


def test_lost_delivery_claim_error_states_its_cause() -> None:
    error = transitions.lost()
    assert (type(error), str(error)) == (
        ClaimLost,
        "Another process delivers for this config, or the config was deleted or replaced.",
    )


@pytest.mark.parametrize(
    ("delivery", "item"),
    [(DELIVERY, ITEM), (PLAIN, PLAIN_ITEM), (replace(PLAIN, disabled=True), PLAIN_ITEM | {"disabled": True})],
    ids=["all", "plain", "disabled"],
)
def test_delivery_is_unchanged_after_conversion_to_item_and_back(delivery: Delivery, item: Item) -> None:
    assert rows.attributes_of(delivery) == item
    assert rows.delivery_of(TASK, item | KEY) == delivery


def test_delivery_update_requires_unchanged_revision() -> None:
    after = replace(PLAIN, revision="new")
    change = rows.change(DELIVERY, after, expires=7)
    assert accepted_in(change, {"as read": ITEM, "changed": ITEM | {"revision": "x"}, "gone": None}) == {"as read"}
    assert made(change, ITEM) == PLAIN_ITEM | {"revision": "new", "expires": 7}
    assert made(rows.change(PLAIN, DELIVERY), PLAIN_ITEM) == ITEM


def test_push_config_item_without_delivery_is_corrupt() -> None:
    with pytest.raises(StoreCorrupt, match=r"^The delivery of a push config cannot be read\.$"):
        rows.delivery_of(TASK, KEY)


def test_delivery_times_are_in_utc() -> None:
    assert rows.delivery_of(TASK, PLAIN_ITEM | KEY | {"due_at": 0}).due_at == datetime(1970, 1, 1, tzinfo=UTC)
