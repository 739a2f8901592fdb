"""Scans of an operator's command over items of another layout."""

import pytest

from aion_core.errors import OtherLayout
from aion_core.table.schema import VERSION
from aion_tools.operator.inspection import Inspection
from tests.support import pushes
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.other_layout import OtherVersion
from tests.support.pushes import Pushes
from tests.support.stores import stack_blobs

pytestmark = pytest.mark.long


@pytest.fixture
def push(stack: Stack, clock: ManualClock) -> Pushes:
    return pushes.on_table(stack, clock)


async def test_scan_of_items_of_other_layout_is_refused(stack: Stack, push: Pushes) -> None:
    await push.chat.store.create(push.chat.message("m-1"), holder="holder-1")
    table = OtherVersion(stack, push)
    table.set(" HEAD", VERSION - 1)
    with pytest.raises(OtherLayout):
        [head async for head in Inspection(push.table, stack_blobs(stack), push.clock).tasks()]
    table.set(" HEAD", VERSION)
