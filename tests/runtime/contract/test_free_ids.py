"""Client-chosen ids as parts of keys, on each adapter: any characters, up to the maximum length."""

import pytest

from aion_core.engine.outcomes import Duplicate
from aion_core.protocol.ids import MAX_ID_BYTES, is_id
from tests.support.conversation import StoreConversation, of
from tests.support.stores import LEASE_SECONDS

pytestmark = pytest.mark.each_database

IDS = ["_nano", "-nano", "a b", "a#b#HEAD", "#", "slack|C1|17", "../x/", "%23", "a\nb", "é" * (MAX_ID_BYTES // 2)]


@pytest.fixture(params=IDS, ids=lambda value: ascii(value)[:16])
def free(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    assert is_id(value)
    return value


async def test_repeated_message_is_recognised_whatever_characters_its_ids_contain(
    chat: StoreConversation, free: str
) -> None:
    """Repeat a message with its messageId in the same context, and with its Idempotency-Key in any context."""
    own = of(chat, context_id=free)
    await own.starts(free, task_id="t-1", idempotency_key=free)
    assert await chat.store.create(own.message(free, task_id="t-2"), holder="h") == Duplicate("t-1")
    other = of(chat, context_id="c-2")
    again = other.message(free, task_id="t-3", idempotency_key=free, context_is_new=True)
    assert await chat.store.create(again, holder="h") == Duplicate("t-1")
    assert not isinstance(await chat.store.create(other.message(free, task_id="t-4"), holder="h"), Duplicate)


async def test_timer_preserves_any_characters_in_context_id(chat: StoreConversation, free: str) -> None:
    """The timer index stores only the context's key: the id read from this key must be unchanged."""
    own = of(chat, context_id=free)
    await own.starts("m-1")
    chat.clock.move(LEASE_SECONDS + 1)
    assert await own.is_expired()
    assert (await own.begins()).head.context == own.context
