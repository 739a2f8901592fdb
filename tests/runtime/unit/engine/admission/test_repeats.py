"""Records of messages: their keys, and the write that stores each once."""

import pytest

from aion_core.engine.admission.repeats import message_keys_of, message_row
from aion_core.table import keys
from aion_core.table.keys import TaskKey
from aion_core.table.semantics.writes import outcome
from tests.support.given import CONTEXT, EXPIRED, KEY, KEY_ATTRIBUTES, LIVING, TIMES, TTL

ROW = {**KEY_ATTRIBUTES, "task_id": "t-1", "content_hash": b"hash", **TTL}


def test_message_has_record_by_its_id() -> None:
    assert message_keys_of(CONTEXT, "m-1", "") == [keys.message_key(CONTEXT, "m-1")]


def test_message_with_idempotency_key_has_second_record() -> None:
    first = keys.idempotency_key("owner", "agent", "once")
    assert message_keys_of(CONTEXT, "m-1", "once") == [first, keys.message_key(CONTEXT, "m-1")]


@pytest.mark.parametrize(
    ("expires", "stored"), [(None, True), (EXPIRED, True), (LIVING, False)], ids=["absent", "expired", "living"]
)
def test_message_record_is_stored_unless_one_lives(expires: int | None, stored: bool) -> None:
    before = None if expires is None else {**KEY_ATTRIBUTES, "task_id": "t-0", "expires": expires}
    made = outcome(message_row(KEY, TaskKey("owner", "t-1"), b"hash", TIMES), before)
    assert made.after == (ROW if stored else before)
