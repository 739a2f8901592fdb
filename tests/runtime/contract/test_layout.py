"""Items of another layout in a DynamoDB table: each operation that reads one is refused, and changes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from aion_core.errors import OtherLayout
from aion_core.table.schema import VERSION
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.other_layout import OtherVersion
from tests.support.pushes import Pushes, a_config

pytestmark = pytest.mark.long


@pytest.fixture
def push(stack: Stack, clock: ManualClock) -> Pushes:
    return pushes.on_table(stack, clock)


Operation = Callable[[Pushes], Awaitable[Any]]


async def _follow_up(push: Pushes) -> None:
    chat = push.chat
    begun = await chat.head("t-m-1")
    await chat.store.follow_up(await chat.more(begun, "m-3"), holder=None)


OPERATIONS: dict[str, tuple[str, Operation]] = {
    "create": ("CONTEXT#", lambda push: push.chat.store.create(push.chat.message("m-2"), holder="other")),
    "begin": ("CONTEXT#", lambda push: push.chat.store.begin(push.chat.context, holder="other")),
    "follow up": ("CONTEXT#", _follow_up),
    "cancel": ("CONTEXT#", lambda push: push.chat.cancels("t-m-1")),
    "head": (" HEAD", lambda push: push.chat.store.head(push.key())),
    "log": ("EVENT#", lambda push: push.chat.store.log(push.key())),
    "repeat": ("MESSAGE#", lambda push: push.chat.store.known(push.chat.context, "m-1", b"hash")),
    "create again": ("MESSAGE#", lambda push: push.chat.store.create(push.chat.message("m-1"), holder=None)),
    "deliveries": ("PUSH#", lambda push: push.configs.deliveries(push.key())),
    "get push config": ("PUSH#", lambda push: push.configs.get(push.key(), "p-1")),
    "put push config": ("PUSH#", lambda push: push.configs.put(push.key(), a_config("p-2"))),
    "redrive": ("PUSH#", lambda push: push.configs.redrive(push.key(), "p-1")),
}


@pytest.mark.parametrize("other", [VERSION - 1, VERSION + 1])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_operation_on_items_of_other_layout_is_refused(stack: Stack, push: Pushes, name: str, other: int) -> None:
    kind, operation = OPERATIONS[name]
    new = replace(push.chat.message("m-1"), push=a_config())
    await push.chat.store.create(new, holder="holder-1")
    table = OtherVersion(stack, push)
    table.set(kind, other)
    before = table.items()
    with pytest.raises(OtherLayout) as refused:
        await operation(push)
    assert table.items() == before
    assert str(refused.value).startswith(f"The table {table.table} has items of layout {other}, ")
    assert f"reads only layout {VERSION}: " in str(refused.value)
    table.set(kind, VERSION)
    assert await push.chat.store.head(push.key()) is not None
