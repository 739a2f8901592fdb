"""Event queue of an ADK turn: what waits shares transactions, in its order, and its senders wait for them."""

import asyncio
from collections.abc import Sequence

from google.adk.sessions import InMemorySessionService

from aion.adk import get_aion_context
from aion_core.agents.adk.event_queue import EventChannel
from aion_core.clock import SystemClock
from aion_core.engine.call import CallContext
from aion_core.engine.records import Head, Lease
from aion_core.protocol.types import Event, Task
from tests.support.adk import call, llm_agent, served
from tests.support.clock import settle
from tests.support.requests import request
from tests.support.service import parts
from tests.support.stores import MemoryTaskStore


class SlowStore(MemoryTaskStore):
    """Task store that takes a moment for each transaction, and counts its events."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.sizes: list[int] = []

    async def append(self, lease: Lease, head: Head, *events: Event, keys: Sequence[str] = ()) -> Head:
        await asyncio.sleep(0.001)
        head = await super().append(lease, head, *events, keys=keys)
        self.sizes.append(len(events))
        return head


async def test_replies_that_wait_share_transactions() -> None:
    store, too_early = SlowStore(), list[int]()

    async def reply(number: int) -> None:
        await get_aion_context().thread.reply(f"word {number}")
        if sum(store.sizes) <= number:
            too_early.append(number)

    async def act() -> str:
        await asyncio.gather(*map(reply, range(60)))
        await reply(60)
        return "done"

    agent = served(llm_agent([call("act")], ["The end."], tools=[act]), InMemorySessionService())
    task = await parts(agent, store).service.send(CallContext("owner", "test"), request())
    assert isinstance(task, Task)
    said = [message.parts[0].text for message in task.history if message.parts[0].text.startswith("word")]
    assert said[:60] == [f"word {number}" for number in range(60)]
    assert store.sizes[:4] == [25, 25, 10, 1]
    assert too_early == []


async def test_framework_event_is_received_alone_in_its_place() -> None:
    channel, received = EventChannel(alone=(int,)), list[Sequence[object]]()
    sent = [asyncio.create_task(channel.send(event)) for event in ("a", "b", 1, 2, "c")]
    await asyncio.sleep(0)
    channel.send_nowait("d")
    channel.finish()
    async with channel.receiving() as batches:
        async for events in batches:
            await settle()
            assert [task.done() for task in sent].count(True) == sum(map(len, received))
            received.append(events)
    assert received == [["a", "b"], [1], [2], ["c", "d"]]
    await asyncio.gather(*sent)
